//! A run in an archive that was let go of.

use super::*;
use crate::model::{Lines as _, TraceFile};

#[test]
fn a_page_of_a_parked_run_unpacks_it_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/sample_runs/tools/inspect/ledger.eval");
    let mut bytes = fs::read(sample).unwrap();
    fs::write(root.join("l.eval"), &bytes).unwrap();
    let library = Library::load(vec![root.clone()]);
    let run = library.shared.runs.read().unwrap()[&RunKey::new("l.eval/rent_epoch_1")].clone();
    assert!(run.is_parked() || run.park());
    let index = run.index();
    // What is unpacked again from now on is damaged.
    let name = b"samples/rent_epoch_1.json";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap() + name.len() + 40;
    bytes[at..at + 40].fill(0xff);
    fs::write(root.join("l.eval"), &bytes).unwrap();
    assert_eq!(index.steps().len(), 4);
    for step in index.steps() {
        let line = run.line(TraceFile::Steps, step.span).unwrap();
        assert!(serde_json::from_slice::<serde_json::Value>(&line).is_ok());
    }
}
