//! Tests a file that becomes another tool's trace while board follows it.

use super::*;

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sample_runs/tools");
const CODEX: &str = "codex/sessions/2026/05/04/rollout-2026-05-04T09-00-03-019df000-0000-7000-8000-0000000000a2.jsonl";
const CLAUDE: &str = "claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl";
const LOG: &str = "inspect/ledger.json";

pub(super) fn sample(name: &str) -> Vec<u8> {
    fs::read(Path::new(SAMPLES).join(name)).unwrap()
}

/// Returns board's view of its runs: key, format, steps, issues and the sentence about the end.
pub(super) fn told(shared: &Shared) -> Vec<String> {
    let runs = shared.runs.read().unwrap();
    let row = |run: &Arc<Run>| {
        let row = run.summary();
        let (index, sentence) = (run.index(), &row.verdict.sentence);
        format!(
            "{} {} {} {:?} {sentence}",
            row.key,
            index.format().name,
            row.steps,
            row.issues
        )
    };
    runs.values().map(row).collect()
}

pub(super) fn fresh(root: &Path) -> Vec<String> {
    told(&Library::load(vec![root.to_owned()]).shared)
}

#[test]
fn a_file_that_another_tool_writes_over_is_that_tools_run() {
    let (codex, claude, log) = (sample(CODEX), sample(CLAUDE), sample(LOG));
    // Each is longer than the one before, like a file that only grew.
    assert!(codex.len() < claude.len() && claude.len() < log.len());
    for by_rename in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let path = root.join("session.jsonl");
        fs::write(&path, &codex).unwrap();
        let shared = Arc::new(Shared::new(std::slice::from_ref(&root), &[]));
        let mut scanner =
            scan::Scanner::new(Arc::clone(&shared), vec![root.clone()], Options::default());
        let look = |scanner: &mut scan::Scanner| {
            scanner.look_at_roots();
            while scanner.read_piece() {}
            told(&shared)
        };
        assert_eq!(look(&mut scanner), fresh(&root));
        let before = Arc::clone(shared.runs.read().unwrap().values().next().unwrap());
        if by_rename {
            fs::write(root.join("new"), &claude).unwrap();
            fs::rename(root.join("new"), &path).unwrap();
        } else {
            fs::write(&path, &claude).unwrap();
            let inbox = hints::Inbox {
                paths: [path.clone()].into(),
                ..hints::Inbox::default()
            };
            assert!(scanner.act_on(&inbox), "the roots are scanned again");
        }
        let seen = look(&mut scanner);
        assert_eq!(seen, fresh(&root), "by rename: {by_rename}");
        assert!(seen[0].contains("Claude Code session"), "{seen:?}");
        assert!(before.is_gone(), "open pages are notified");
        // It's checked every second like any other, in place of the old one.
        scanner.refresh(&shared.runs.read().unwrap().values().next().unwrap().clone());
        fs::write(&path, &codex).unwrap();
        assert_eq!(
            look(&mut scanner),
            fresh(&root),
            "and back to a shorter one"
        );
    }
}

#[test]
fn a_document_that_becomes_one_of_several_runs_is_looked_through_anew() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    let path = root.join("run.json");
    fs::write(&path, sample("openhands-v0/finished.json")).unwrap();
    let shared = Arc::new(Shared::new(std::slice::from_ref(&root), &[]));
    let mut scanner =
        scan::Scanner::new(Arc::clone(&shared), vec![root.clone()], Options::default());
    for name in [
        "openhands-v0/finished.json",
        LOG,
        "tau2/results.json",
        "atif/odd.trajectory.json",
    ] {
        fs::write(&path, sample(name)).unwrap();
        scanner.look_at_roots();
        while scanner.read_piece() {}
        assert_eq!(told(&shared), fresh(&root), "{name}");
    }
}

#[test]
fn a_removed_document_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    let path = root.join("a.traj");
    let step = format!(
        r#"{{"action": "ls", "observation": "{}", "response": "", "thought": "", "state": {{}}}}"#,
        "x".repeat(1 << 20)
    );
    let steps = vec![step; 9].join(",");
    let text = format!(r#"{{"trajectory": [{steps}], "info": {{"exit_status": "submitted"}}}}"#);
    fs::write(&path, &text).unwrap();
    let shared = Arc::new(Shared::new(std::slice::from_ref(&root), &[]));
    let mut scanner =
        scan::Scanner::new(Arc::clone(&shared), vec![root.clone()], Options::default());
    scanner.look_at_roots();
    let run = Arc::clone(shared.runs.read().unwrap().values().next().unwrap());
    scanner.refresh(&run);
    assert!(scanner.is_begun(&run), "it takes more than one piece");
    fs::rename(&path, root.join("a.txt")).unwrap();
    scanner.look_at_roots();
    assert!(run.is_gone() && !scanner.is_begun(&run));
    // A page may still hold the run, and a file of that name may come back.
    fs::rename(root.join("a.txt"), &path).unwrap();
    scanner.refresh(&run);
    assert!(!scanner.is_begun(&run), "another run reads that file");
}
