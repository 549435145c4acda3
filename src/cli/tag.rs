//! `board tag`: names sets of runs.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use super::columns::Columns;
use super::command::{Done, query, write_json};
use super::config::{Settings, tag_file};
use super::look::Look;
use super::roots::Roots;
use super::warning::warn;
use crate::analysis::format::{count, counted, visible_line};
use crate::error::{Error, Kind};
use crate::live::{Added, TagFile, check_tag, has_own_tag};

/// The exit code if no run matches.
const NO_MATCH: u8 = 1;

/// Tag the runs that match a query, so that `tag:NAME` finds them later
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without QUERY, or with --list, prints the tags and how many runs have each.
Tags are kept in tags.json in the directory of the settings, by the path and the start of the run. A run that is moved loses them.
Other tags come with the runs: from manifests, Inspect logs, and directories called tag=NAME."
)]
pub(super) struct Args {
    /// The runs to tag: a query, as in `board list`
    #[arg(allow_hyphen_values = true, requires = "name")]
    query: Option<String>,
    /// The tag: 1 to 64 characters, without spaces, commas, quotes, slashes or control characters. Not `none`, and no leading dot
    #[arg(value_parser = name)]
    name: Option<String>,
    #[command(flatten)]
    roots: Roots,
    /// Remove the tag from these runs, and from their duplicates that match
    #[arg(long, requires = "name")]
    remove: bool,
    /// Remove this tag from runs whose files no longer exist
    #[arg(long, value_name = "TAG", value_parser = name, conflicts_with_all = ["query", "remove", "list"])]
    forget: Option<String>,
    /// List the tags
    #[arg(long, conflicts_with_all = ["query", "remove"])]
    list: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

fn name(text: &str) -> Result<String, String> {
    check_tag(text).map(|()| text.to_owned())
}

/// The changes to the matching runs.
#[derive(Debug, Default, Serialize)]
struct Report<'a> {
    tag: &'a str,
    /// The runs that match.
    matched: usize,
    /// The runs that have the tag now and didn't before.
    added: usize,
    /// The runs that had it before.
    already: usize,
    /// The runs that no longer have the tag.
    removed: usize,
    /// The runs that have it from their own records or a directory.
    kept: usize,
    /// The runs that have no room for another tag.
    full: usize,
    /// The runs whose path isn't Unicode.
    unnamed: usize,
    /// With `--remove`: the runs that have the tag and no longer exist.
    gone: usize,
}

/// What was forgotten.
#[derive(Debug, Serialize)]
struct Forgotten<'a> {
    tag: &'a str,
    /// The runs without files that no longer have the tag.
    forgotten: usize,
}

/// The tags that were given to runs.
#[derive(Debug, Serialize)]
struct List<'a> {
    tags: Vec<Row<'a>>,
}

#[derive(Debug, Serialize)]
struct Row<'a> {
    tag: &'a str,
    runs: usize,
    /// The runs among them that no longer exist.
    gone: usize,
}

/// Returns whether the path doesn't exist. A run inside a file counts as gone if the file is, because
/// listing each file would take too long.
fn is_gone(path: &Path) -> bool {
    for part in path.ancestors() {
        match fs::symlink_metadata(part) {
            Ok(found) => return part != path && found.is_dir(),
            Err(error) if is_missing(&error) => {}
            // A directory that can't be read may contain the run.
            Err(_) => return false,
        }
    }
    true
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    let file = tag_file().ok_or_else(|| {
        Error::new(Kind::Usage, "can't determine where to keep tags")
            .hint("set HOME or XDG_CONFIG_HOME to a directory")
    })?;
    if let Some(name) = &args.forget {
        return forget(args, name, &file, out);
    }
    let (Some(text), Some(name)) = (&args.query, &args.name) else {
        return list(args, &file, out);
    };
    let query = query("tag", text, look)?;
    let library = args.roots.library(
        &args.settings,
        &[&query],
        "pass the directory after the query and the tag: board tag QUERY NAME DIR",
    )?;
    let (mut runs, _) = library.listed(args.remove || query.asks_for_copies());
    runs.retain(|run| query.matches(&*run.summary()));
    let mut report = Report {
        tag: name,
        matched: runs.len(),
        ..Report::default()
    };
    file.change(|tags| {
        for run in &runs {
            let has_otherwise = || has_own_tag(&run.summary(), run.dir(), name);
            if args.remove {
                report.removed += usize::from(tags.remove(run.dir(), &run.summary(), name));
                report.kept += usize::from(has_otherwise());
                continue;
            }
            match tags.add(run.dir(), &run.summary(), name) {
                Added::New if has_otherwise() => report.already += 1,
                Added::New => report.added += 1,
                Added::Known => report.already += 1,
                Added::Full => report.full += 1,
                Added::NoPath => report.unnamed += 1,
            }
        }
        if args.remove {
            report.gone = tags.gone(name, is_gone);
        }
    })?;
    if args.json {
        write_json(out, &report)?;
    } else {
        writeln!(out, "{}", visible_line(&report.words(args.remove)))?;
    }
    report.warn();
    Ok(if runs.is_empty() { NO_MATCH } else { 0 })
}

impl Report<'_> {
    fn words(&self, removes: bool) -> String {
        let tag = self.tag;
        let gone = match self.gone {
            0 => String::new(),
            gone => format!(
                "; {} without files {} {tag}: board tag --forget {tag}",
                counted(gone, "run"),
                if gone == 1 { "has" } else { "have" }
            ),
        };
        if self.matched == 0 {
            let removed = if removes {
                ", so nothing was removed"
            } else {
                ""
            };
            return format!("no run matches{removed}{gone}");
        }
        if removes {
            let kept = match self.kept {
                0 => String::new(),
                1 => "; 1 run still has it from its records or a directory".to_owned(),
                kept => format!(
                    "; {} still have it from their records or a directory",
                    counted(kept, "run")
                ),
            };
            return format!(
                "removed {tag} from {} of {}{kept}{gone}",
                count(self.removed as u64),
                counted(self.matched, "matching run")
            );
        }
        let already = match self.already {
            0 => String::new(),
            already => format!("; {} already had it", counted(already, "run")),
        };
        format!("tagged {} with {tag}{already}", counted(self.added, "run"))
    }

    /// Names the runs that couldn't be tagged.
    fn warn(&self) {
        if self.full > 0 {
            warn(&format!(
                "{} as many tags as a run can have; remove one with `board tag QUERY NAME --remove`",
                runs_have(self.full)
            ));
        }
        if self.unnamed > 0 {
            warn(&format!(
                "{} a path that isn't Unicode, so board can't tag them",
                runs_have(self.unnamed)
            ));
        }
    }
}

fn runs_have(runs: usize) -> String {
    let verb = if runs == 1 { "has" } else { "have" };
    format!("{} {verb}", counted(runs, "run"))
}

/// Removes a tag from runs that no longer exist.
fn forget(args: &Args, name: &str, file: &TagFile, out: &mut dyn Write) -> Done {
    let (forgotten, is_known) = file.change(|tags| {
        let is_known = tags.has(name);
        (tags.forget(name, is_gone), is_known)
    })?;
    if args.json {
        let tag = name;
        write_json(out, &Forgotten { tag, forgotten })?;
    } else {
        let runs = counted(forgotten, "run");
        let line = match forgotten {
            0 if !is_known => format!("nothing removed: no run is tagged {name}"),
            0 => format!("nothing removed: every run tagged {name} still exists"),
            1 => format!("removed {name} from {runs} that no longer exists"),
            _ => format!("removed {name} from {runs} that no longer exist"),
        };
        writeln!(out, "{}", visible_line(&line))?;
    }
    Ok(if forgotten == 0 { NO_MATCH } else { 0 })
}

/// Prints the tags with the number of runs that were given each.
fn list(args: &Args, file: &TagFile, out: &mut dyn Write) -> Done {
    let tags = file.read()?;
    let counts = tags.counts().into_iter();
    let rows = counts.map(|(tag, runs)| Row {
        tag,
        runs,
        gone: tags.gone(tag, is_gone),
    });
    let rows: Vec<Row<'_>> = rows.collect();
    if args.json {
        write_json(out, &List { tags: rows })?;
        return Ok(0);
    }
    if rows.is_empty() {
        writeln!(out, "no tags; `board tag QUERY NAME` adds one")?;
        return Ok(0);
    }
    let line = |row: &Row<'_>| {
        let runs = counted(row.runs, "run");
        let runs = match row.gone {
            0 => runs,
            gone => format!("{runs}, {} of them without files", count(gone as u64)),
        };
        [visible_line(row.tag).into_owned(), runs]
    };
    let lines: Vec<[String; 2]> = rows.iter().map(line).collect();
    let columns = Columns::of(&lines, |_| false);
    for line in &lines {
        writeln!(out, "{}", columns.line(line))?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_in_a_file_is_gone_if_the_file_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log.json");
        fs::write(&file, "{}").unwrap();
        let run = file.join("sample/1");
        assert!(!is_gone(&file) && !is_gone(&run) && !is_gone(dir.path()));
        fs::remove_file(&file).unwrap();
        assert!(is_gone(&file) && is_gone(&run));
        assert!(is_gone(&dir.path().join("other/run")));
    }
}
