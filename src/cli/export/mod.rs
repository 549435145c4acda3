//! `board export`: writes a run as one file that needs neither network nor board, or in a format
//! for other programs.

mod send;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::command::{Done, Failure};
use super::config::Settings;
use super::look::Look;
use super::open::open;
use crate::analysis::format::visible_line;
use crate::error::{Error, Kind};
use crate::page::export::{Export, atif, otlp, write_export};
use crate::page::run_view::RunView;
use crate::recorded::RecordedRun;

/// Export a run as a self-contained HTML page, an ATIF trajectory, or an OpenTelemetry trace
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "board export [OPTIONS] <RUN> <--html FILE | --atif FILE | --otlp URL|FILE>"
)]
#[command(
    after_help = "Images are included up to 8 MB in total, steps in full up to 64 MB of text.
--redact redacts the values of keys that name a secret (password, api_key, token, DB_PASS, ...), in JSON and in text such as
key=value. It also redacts those values elsewhere (up to 1,000 of them): values of 8 bytes or more anywhere, of 5 to 7 bytes
only as whole words. It redacts tokens with a known prefix (sk-..., ghp_...), private keys and passwords in addresses. It
replaces home directories with ~ and e-mail addresses with [e-mail], and removes images. Redaction can miss secrets: read the
file before you share it.

--otlp sends to URL/v1/traces if the address has no path, with the headers in OTEL_EXPORTER_OTLP_HEADERS
(name=value,name=value). Ids are derived from the run, so sending it twice gives the same trace. A step without a time
starts where the previous one ended, and the attribute board.time says so. A run without any times can't be exported."
)]
pub(super) struct Args {
    #[arg(value_name = "RUN", help = super::command::RUN)]
    run: PathBuf,
    /// Write an HTML page to this file; - for stdout
    #[arg(long, value_name = "FILE", conflicts_with_all = ["atif", "otlp"])]
    html: Option<PathBuf>,
    /// Write a trajectory in the Agent Trajectory Interchange Format (1.7) to this file; - for stdout. The verdict is
    /// under `extra`
    #[arg(long, value_name = "FILE", conflicts_with = "otlp")]
    atif: Option<PathBuf>,
    /// Send an OpenTelemetry trace (OTLP JSON, GenAI conventions) to this http:// or https:// address, or write it to this
    /// file; - for stdout
    #[arg(long, value_name = "URL|FILE")]
    otlp: Option<PathBuf>,
    /// Open the page at this step; steps are counted from 0
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = super::command::whole_number::<usize>, conflicts_with_all = ["atif", "otlp"])]
    step: Option<usize>,
    /// Open the page with this many events of the step replayed; 1 replays only the first
    #[arg(long, value_name = "M", value_parser = super::command::whole_number::<usize>, requires = "step")]
    event: Option<usize>,
    /// Redact secrets, home directories and e-mail addresses
    #[arg(long)]
    redact: bool,
    #[command(flatten)]
    settings: Settings,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    let Some(path) = args
        .html
        .as_deref()
        .or(args.atif.as_deref())
        .or(args.otlp.as_deref())
    else {
        let what = "choose an output: --html FILE, --atif FILE or --otlp URL|FILE";
        return Err(Error::new(Kind::Usage, what)
            .hint("use - for stdout: board export RUN --html -")
            .into());
    };
    let to = args.otlp.as_deref().and_then(Path::to_str);
    let scheme = to.and_then(|to| to.split_once("://").map(|(scheme, _)| scheme));
    let is_file = |scheme: &str| scheme.contains(|c: char| !c.is_ascii_alphanumeric());
    let url = match scheme.filter(|scheme| !is_file(scheme)) {
        Some(scheme) if !is_http(scheme) => {
            let what = format!("can't send to {}: {scheme} isn't supported", path.display());
            return Err(Error::new(Kind::Usage, what)
                .hint("use an http:// or https:// address, or a file")
                .into());
        }
        scheme => to.filter(|_| scheme.is_some()),
    };
    let run = open(&args.run, look.now)?.priced(&args.settings.read()?.prices);
    if let Some(n) = args.step {
        super::show::check_step(&run, n)?;
    }
    if let Some(url) = url {
        return send(args, &run, look, url, out);
    }
    if path == Path::new("-") {
        // If the reader closed the pipe, it has seen enough. The caller handles that error.
        write(args, &run, look, out)?;
        return Ok(0);
    }
    let failed = |error: io::Error| {
        let what = format!("can't write {}", path.display());
        Error::new(Kind::Unreadable, what)
            .because(error)
            .hint("use a file in an existing directory, or - for stdout")
    };
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    // The file gets its name only once it's complete, so an existing file is never partial.
    #[cfg_attr(
        not(unix),
        expect(unused_mut, reason = "rights are those of the directory")
    )]
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666)); // less what the umask takes
    // The original error would name the temporary file, which means nothing to the user.
    let mut file = builder.tempfile_in(parent).map_err(|error| {
        let dir = parent.display();
        failed(match error.kind() {
            io::ErrorKind::NotFound => io::Error::other(format!("there is no directory {dir}")),
            kind => io::Error::other(format!("can't create a file in {dir}: {kind}")),
        })
    })?;
    let mut buffered = io::BufWriter::with_capacity(1 << 16, &mut file);
    write(args, &run, look, &mut buffered).map_err(|error| match error {
        Failure::Output(error) => Failure::from(failed(error)),
        other => other,
    })?;
    buffered.flush().map_err(failed)?;
    drop(buffered);
    let size = file.as_file().metadata().map_err(failed)?.len();
    file.persist(path).map_err(|error| failed(error.error))?;
    let size = crate::analysis::format::bytes(size);
    writeln!(
        out,
        "{}: {size}, {}",
        visible_line(&path.to_string_lossy()),
        visible_line(&run.summary.verdict.sentence)
    )?;
    Ok(0)
}

fn write(args: &Args, run: &RecordedRun, look: &Look, out: &mut dyn Write) -> Result<(), Failure> {
    let cursor = args.step.map(|step| (step, args.event.unwrap_or(1)));
    let view = run.view(look);
    if args.redact {
        let (copy, summary) = run.redacted()?;
        let view = view.of_copy(&summary, copy.index(), &copy);
        return write_as(args, &view, &Export::redacted(cursor, copy.blanked()), out);
    }
    let picture = |recorded: &str| run.asset(recorded);
    write_as(args, &view, &Export::whole(cursor, &picture), out)
}

/// Writes a view in the requested format.
fn write_as(
    args: &Args,
    view: &RunView<'_>,
    export: &Export<'_>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if args.atif.is_some() {
        return Ok(atif::write(view, out)?);
    }
    if args.otlp.is_some() {
        return Ok(otlp::write(&otlp::Trace::new(*view)?, out)?);
    }
    Ok(write_export(view, export, out)?)
}

fn is_http(scheme: &str) -> bool {
    ["http", "https"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
}

/// Sends the run as a trace.
fn send(args: &Args, run: &RecordedRun, look: &Look, url: &str, out: &mut dyn Write) -> Done {
    let receiver = send::Receiver::new(url)?;
    let sent = if args.redact {
        let (copy, summary) = run.redacted()?;
        let view = run.view(look).of_copy(&summary, copy.index(), &copy);
        receiver.send(&otlp::Trace::new(view)?)?
    } else {
        receiver.send(&otlp::Trace::new(run.view(look))?)?
    };
    let (spans, size) = (
        crate::analysis::format::counted(sent.spans, "span"),
        crate::analysis::format::bytes(sent.bytes),
    );
    let verdict = visible_line(&run.summary.verdict.sentence);
    writeln!(
        out,
        "{}: {spans}, {size}, trace {}, {verdict}",
        visible_line(receiver.name()),
        sent.trace
    )?;
    Ok(0)
}
