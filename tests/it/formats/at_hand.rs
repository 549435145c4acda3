//! Tests that each available file of other tools is a run with a verdict, and that each of its
//! pages answers. Walks the directories in `BOARD_FOREIGN` and `BOARD_AGENTS`; skipped without
//! them.

use std::path::{Path, PathBuf};

use trace_board::format::{Origin, may_be_trace, origin};
use trace_board::trace::{RootScanner, RunDir};

use crate::board::Board;
use crate::disk::walk;

fn roots() -> Vec<PathBuf> {
    let named = ["BOARD_FOREIGN", "BOARD_AGENTS"]
        .into_iter()
        .filter_map(std::env::var_os)
        .map(PathBuf::from);
    let roots: Vec<PathBuf> = named.filter(|root| root.is_dir()).collect();
    if roots.is_empty() {
        eprintln!("skipped: neither BOARD_FOREIGN nor BOARD_AGENTS names a directory");
    }
    roots
}

/// Companion files that aren't traces themselves, and files that are known not to be by their beginning.
fn is_beside(path: &Path) -> bool {
    let head = std::fs::read(path).expect("readable");
    let head = &head[..head.len().min(64 << 10)];
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    // A conversation's state is a run only together with its directory of events.
    matches!(name, "truth.json" | "base_state.json")
        || name.ends_with(".meta.json")
        || matches!(origin(name, head), Origin::Other | Origin::Skipped(_))
}

#[test]
fn each_file_is_a_run() {
    for root in roots() {
        let found = RootScanner::new(root.clone()).scan();
        let runs: Vec<&Path> = found.runs.values().map(RunDir::path).collect();
        let skipped: Vec<&str> = found.skipped.iter().map(|one| &*one.path).collect();
        let root = root.canonicalize().expect("it exists");
        let files = walk(&root).into_iter().filter(|path| path.is_file());
        let may_be = |path: &PathBuf| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(may_be_trace)
        };
        let missed: Vec<PathBuf> = files
            .filter(|path| may_be(path) && !is_beside(path))
            .filter(|path| !runs.iter().any(|run| run.starts_with(path)))
            // A database of another program shows that only in its tables.
            .filter(|path| !skipped.iter().any(|skipped| root.join(skipped) == **path))
            .collect();
        assert!(missed.is_empty(), "{missed:?}");
    }
}

#[test]
fn each_page_of_each_run_answers() {
    for root in roots() {
        let board = Board::serve(&root);
        board.until_read();
        let runs = board.json("/api/runs?limit=1000");
        let runs = runs["runs"].as_array().expect("a list");
        assert!(!runs.is_empty());
        let mut wrong = Vec::new();
        for run in runs {
            if run["verdict"].as_str().is_none_or(str::is_empty) {
                wrong.push(format!("{} has no verdict", run["key"]));
            }
            let key = crate::client::segment(run["key"].as_str().expect("a key"));
            let tabs = [
                "",
                "?tab=timeline",
                "?tab=transcript",
                "?tab=state",
                "?tab=events",
                "?tab=files",
                "?tab=prompt",
                "?tab=issues",
            ];
            let pages = tabs.into_iter().chain([
                "/steps/0",
                "/replay",
                "/scores",
                "/whatif",
                "/transcript.md",
            ]);
            for page in pages.filter(|page| run["steps"] != 0 || !page.starts_with("/steps")) {
                let path = format!("/runs/{key}{page}");
                let status = board.get(&path).status;
                if status != 200 {
                    wrong.push(format!("{status} {path}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
