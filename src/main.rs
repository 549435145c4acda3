//! Runs the `board` command.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser as _;
use trace_board::cli::{self, Args, Look, TerminalFilter};
use trace_board::error;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// The target of the MCP SDK's log.
const SDK: &str = "rmcp";

/// Returns freed memory to the system. glibc's allocator keeps much of it after a peak of large
/// responses.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(usage) => {
            let args: Vec<_> = std::env::args_os().collect();
            if let Some(error) = cli::unknown_option(&usage, &args) {
                report(&error);
                return ExitCode::from(error.exit_code());
            }
            return explain(&usage);
        }
    };
    log();
    let mut out = TerminalFilter::new(BufWriter::new(io::stdout().lock()), &io::stdout());
    match cli::run(args, &Look::of_stdout(), &mut out) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Output printed before the error must appear before it.
            let _ = out.flush();
            report(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Sends the log to stderr. `BOARD_LOG` holds a level (`debug`) or levels by target
/// (`trace_board::live=trace,warn`).
fn log() {
    let wanted = std::env::var("BOARD_LOG").unwrap_or_default();
    let targets = logged(&wanted);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| TerminalFilter::new(io::stderr(), &io::stderr()))
        .with_ansi(cli::colours(&io::stderr()));
    tracing_subscriber::registry()
        .with(targets)
        .with(lines)
        .init();
}

/// Reads the levels of `BOARD_LOG`. An empty or invalid text means warnings.
fn logged(wanted: &str) -> Targets {
    let targets = wanted.parse::<Targets>();
    let targets = targets.ok().filter(|_| !wanted.is_empty());
    let targets = targets.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    // The MCP SDK logs whole messages of other programs, which may hold secrets. What went wrong with them is in the
    // board's own errors.
    match targets.iter().any(|(target, _)| target == SDK) {
        true => targets,
        false => targets.with_target(SDK, LevelFilter::OFF),
    }
}

/// Prints the help or a usage error. Arguments may be file names, so they go through [`TerminalFilter`] too.
fn explain(usage: &clap::Error) -> ExitCode {
    let text = usage.render();
    let write = |out: &mut dyn Write, is_coloured: bool| match is_coloured {
        true => write!(out, "{}", text.ansi()).and_then(|()| out.flush()),
        false => write!(out, "{text}").and_then(|()| out.flush()),
    };
    // If the output is closed, the exit code still reports the error.
    let _ = match usage.use_stderr() {
        true => write(
            &mut TerminalFilter::new(io::stderr(), &io::stderr()),
            cli::colours(&io::stderr()),
        ),
        false => write(
            &mut TerminalFilter::new(io::stdout(), &io::stdout()),
            cli::colours(&io::stdout()),
        ),
    };
    ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2))
}

fn report(error: &trace_board::Error) {
    let mut text = format!("board: {error}\n");
    error::causes(error).for_each(|cause| text.push_str(&format!("because: {cause}\n")));
    error
        .hints()
        .iter()
        .for_each(|hint| text.push_str(&format!("hint: {hint}\n")));
    // If stderr is closed, there's no other place to report the error.
    let _ = io::stderr().write_all(cli::visible(&text).as_bytes());
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::filter::LevelFilter;

    use super::logged;

    #[test]
    fn the_mcp_sdk_logs_only_if_it_is_named() {
        let levels = |wanted: &str| {
            let targets = logged(wanted);
            ["trace_board::live", "rmcp::service"].map(|target| {
                let levels = [
                    tracing::Level::TRACE,
                    tracing::Level::DEBUG,
                    tracing::Level::WARN,
                ];
                let enabled = levels.into_iter();
                enabled
                    .filter(|level| targets.would_enable(target, level))
                    .max()
                    .map_or(LevelFilter::OFF, LevelFilter::from)
            })
        };
        const OFF: LevelFilter = LevelFilter::OFF;
        const WARN: LevelFilter = LevelFilter::WARN;
        const DEBUG: LevelFilter = LevelFilter::DEBUG;
        const TRACE: LevelFilter = LevelFilter::TRACE;
        for (wanted, expected) in [
            ("", [WARN, OFF]),
            ("no=level=at=all", [WARN, OFF]),
            ("trace", [TRACE, OFF]),
            ("debug,trace_board::live=trace", [TRACE, OFF]),
            ("warn,rmcp=debug", [WARN, DEBUG]),
            ("warn,rmcp::service=debug", [WARN, DEBUG]),
        ] {
            assert_eq!(levels(wanted), expected, "{wanted}");
        }
    }
}
