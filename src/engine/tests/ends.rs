//! Every way in which a run ends.

use super::*;
use crate::trace::RunWriter;

#[tokio::test]
async fn a_run_is_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let writer = RunWriter::create(dir.path(), "r").unwrap();
    let run = engine([echo("one"), echo("two"), Decision::final_answer("done")]).record(writer).build().unwrap();
    let result = run.run("Say it.").await;
    assert_eq!(told(&result.verdict), ("final", "decision", Some(2)));
    assert_eq!(result.require_answer(), Ok("done"));
    assert_eq!(result.trace_error, None);
    for file in ["manifest.json", "events.jsonl", "steps.jsonl"] {
        println!("{}", std::fs::read_to_string(dir.path().join("r").join(file)).unwrap());
    }
}
