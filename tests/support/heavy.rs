//! Creates many long runs cheaply, to keep a board busy.

use std::fs;
use std::path::Path;

use crate::writer::Writer;

/// Creates `runs` runs of `steps` steps below `root`. They share their files through hard links.
pub(crate) fn many_long(root: &Path, runs: usize, steps: usize) {
    let first = root.join("long-0");
    let mut writer = Writer::start(&first);
    for n in 0..steps {
        writer.append_step(&format!("result {n}"));
    }
    writer.finish("final");
    for n in 1..runs {
        let copy = root.join(format!("long-{n}"));
        fs::create_dir(&copy).expect("the run directory can be made");
        for file in ["manifest.json", "steps.jsonl", "events.jsonl"] {
            fs::hard_link(first.join(file), copy.join(file)).expect("a file can have two names");
        }
    }
}
