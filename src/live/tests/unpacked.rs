//! Tests runs whose files are compressed.

use super::*;
use crate::model::{Lines as _, TraceFile};

#[test]
fn a_page_of_a_parked_run_unpacks_it_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/sample_runs/tools/inspect/ledger.eval"
    );
    let mut bytes = fs::read(sample).unwrap();
    fs::write(root.join("l.eval"), &bytes).unwrap();
    let library = Library::load(vec![root.clone()]);
    let run = library.shared.runs.read().unwrap()[&RunKey::new("l.eval/rent_epoch_1")].clone();
    assert!(run.is_parked() || run.park(false));
    let index = run.index();
    // From here on, decompressing again would yield damaged data.
    let name = b"samples/rent_epoch_1.json";
    let at = bytes
        .windows(name.len())
        .position(|window| window == name)
        .unwrap()
        + name.len()
        + 40;
    bytes[at..at + 40].fill(0xff);
    fs::write(root.join("l.eval"), &bytes).unwrap();
    assert_eq!(index.steps().len(), 4);
    for step in index.steps() {
        let line = run.line(TraceFile::Steps, step.span).unwrap();
        assert!(serde_json::from_slice::<serde_json::Value>(&line).is_ok());
    }
}

#[test]
fn a_run_whose_file_is_being_unpacked_keeps_nobody_waiting_and_is_not_judged() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    let line = "{\"timestamp\":\"2026-05-04T09:00:00Z\",\"type\":\"session_meta\",\"payload\":{\"id\":\"a\"}}\n";
    let lines = 110_000;
    let text = line.repeat(lines);
    assert!(text.len() > 8 << 20, "larger than one slice");
    let packed = ruzstd::encoding::compress_to_vec(
        text.as_bytes(),
        ruzstd::encoding::CompressionLevel::Fastest,
    );
    fs::write(root.join("rollout-1.jsonl.zst"), packed).unwrap();
    let found = crate::trace::RootScanner::new(root).scan().runs;
    let (key, run_dir) = found.into_iter().next().unwrap();
    let run = Run::new(&key, "r".to_owned(), run_dir, crate::trace::SETTLE);
    let mut waited = 0;
    loop {
        let news = run.refresh(4 << 20);
        assert!(!(news.more && news.waits));
        let summary = run.summary();
        assert_eq!(summary.partial, news.more || news.waits);
        waited += usize::from(news.waits);
        if !summary.partial {
            break;
        }
        std::thread::yield_now();
    }
    assert!(waited > 0);
    assert_eq!(run.summary().events, lines);
}
