//! Tests sharing a run: the export over HTTP and from the command line, redaction, and the Markdown
//! transcript.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::board::{BINARY, Board};
use crate::disk::{copy, corpus, walk};
use crate::soak::times;
use trace_board::trace::RunDir;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("sample_runs")
        .join(name)
}

fn board(args: &[&str]) -> Output {
    Command::new(BINARY)
        .args(args)
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

/// A run with a secret under its own key, in a call's arguments, in an output, and under a harmless
/// key.
fn with_secrets(root: &Path) -> PathBuf {
    let run = root.join("leaky");
    copy(&sample("fix_bug"), &run);
    let steps = fs::read_to_string(run.join("steps.jsonl")).unwrap();
    let steps = steps.replacen(
        "\"decision\"",
        "\"api_key\":\"sk-very-secret-1\",\"noted\":\"he said sk-very-secret-1\",\"decision\"",
        1,
    );
    let steps = steps.replacen(
        "sh test_cart.sh",
        "PASS=sk-very-secret-1 sh test_cart.sh",
        2,
    );
    assert_eq!(steps.matches("sk-very-secret-1").count(), 4);
    fs::write(run.join("steps.jsonl"), steps).unwrap();
    run
}

#[test]
fn the_export_is_a_download_that_carries_its_own_policy() {
    let dir = tempfile::tempdir().unwrap();
    copy(
        &corpus().join("q060/q060_html_injection"),
        &dir.path().join("a b"),
    );
    let board = Board::serve(dir.path());
    board.until_read();
    let response = board.get("/runs/a%20b/export.html?step=1&event=2");
    assert_eq!(
        (response.status, response.header("content-type")),
        (200, "text/html; charset=utf-8")
    );
    assert_eq!(
        response.header("content-disposition"),
        "attachment; filename=\"a_b.html\""
    );
    let page = response.text();
    for part in [
        "default-src 'none'; style-src 'nonce-",
        "data-step=\"1\" data-event=\"2\"",
        "id=\"states\"",
        "</html>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // The page has our one script and one block of data, and all content of the trace is text.
    assert_eq!(
        (
            page.matches("<script").count(),
            page.matches("<style").count()
        ),
        (2, 1)
    );
    assert_eq!(board.get("/runs/a%20b/export.html?step=x").status, 400);
    assert_eq!(board.get("/runs/nobody/export.html").status, 404);
}

#[test]
fn the_export_has_the_step_that_never_finished_and_the_runs_that_were_started() {
    let dir = tempfile::tempdir().unwrap();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs");
    copy(&samples.join("crash"), &dir.path().join("crash"));
    copy(
        &samples.join("tools/claude-code"),
        &dir.path().join("sessions"),
    );
    let board = Board::serve(dir.path());
    board.until_read();
    let answer = board.get("/runs/crash/export.html");
    let page = answer.text();
    let panel = page
        .split_once("<section class=\"pend\"")
        .map(|(_, panel)| panel)
        .unwrap_or_default();
    assert!(
        panel.contains("never finished") && panel.contains("copy_all"),
        "{panel}"
    );
    let verdict = page
        .split_once("id=\"verdict\"")
        .map(|(_, verdict)| verdict)
        .unwrap_or_default();
    assert!(
        verdict.contains("href=\"#pending\""),
        "the verdict links to it"
    );
    let runs = board.json("/api/runs");
    let parent = runs["runs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|run| run["children"] == 1)
        .unwrap();
    let key = parent["key"].as_str().unwrap().replace('/', "%2F");
    let answer = board.get(&format!("/runs/{key}/export.html"));
    let page = answer.text();
    assert!(page.contains("class=\"xstarted\"") && page.contains("agent-a1b2c3d4e5.jsonl"));
    assert!(
        !page.contains("data-value=\"/") && !page.contains("href=\"/"),
        "no link leads to the board"
    );
}

#[test]
fn secrets_are_blanked_where_asked_for_and_the_run_is_only_read() {
    let dir = tempfile::tempdir().unwrap();
    let run = with_secrets(dir.path());
    let before: Vec<_> = walk(&run)
        .into_iter()
        .map(|path| (fs::read(&path).unwrap(), path))
        .collect();
    let file = dir.path().join("out.html");
    let (run_arg, file_arg) = (run.to_str().unwrap(), file.to_str().unwrap());
    let said = board(&["export", run_arg, "--html", file_arg]);
    assert!(said.status.success());
    assert!(
        fs::read_to_string(&file)
            .unwrap()
            .contains("sk-very-secret-1"),
        "values are only blanked on request"
    );
    let said = board(&["export", run_arg, "--html", file_arg, "--redact"]);
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    let page = fs::read_to_string(&file).unwrap();
    assert!(!page.contains("sk-very-secret-1") && page.contains("__redacted__ sh test_cart.sh"));
    assert!(
        page.contains("3 values are redacted: values of keys")
            && page.contains("Answered at step 10")
    );
    let board = Board::serve(dir.path());
    board.until_read();
    assert!(
        !board
            .get("/runs/leaky/export.html?redact=1")
            .text()
            .contains("sk-very-secret-1")
    );
    // An unknown value is refused instead of exporting the run.
    assert_eq!(board.get("/runs/leaky/export.html?redact=true").status, 400);
    let after: Vec<_> = walk(&run)
        .into_iter()
        .map(|path| (fs::read(&path).unwrap(), path))
        .collect();
    assert!(before == after, "the run directory is unchanged");
}

/// Some runs of the corpus in each of its layouts; in soak tests, all runs.
fn runs() -> Vec<PathBuf> {
    let is_run =
        |path: &PathBuf| path.join("manifest.json").is_file() || path.join("steps.jsonl").is_file();
    let all = walk(&corpus()).into_iter().filter(is_run);
    all.step_by(times(6, 1)).collect()
}

/// Returns the run exported as one page.
fn exported(run: &Path, more: &[&str]) -> String {
    let said = board(&[&["export", run.to_str().unwrap(), "--html", "-"], more].concat());
    assert!(
        said.status.success(),
        "{}: {}",
        run.display(),
        String::from_utf8_lossy(&said.stderr)
    );
    String::from_utf8(said.stdout).unwrap()
}

#[test]
fn every_run_can_be_saved_and_transcribed() {
    for run in runs() {
        assert!(
            exported(&run, &[]).ends_with("</html>\n"),
            "{}",
            run.display()
        );
        let said = board(&["show", run.to_str().unwrap(), "--format", "md"]);
        assert!(
            said.status.success() && said.stdout.starts_with(b"# "),
            "{}",
            run.display()
        );
    }
}

#[test]
fn a_saved_session_begins_with_its_transcript() {
    let session =
        sample("tools/claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl");
    let prompt = "Splitting 100 by 3 loses a cent. Fix it, and show that the tests pass.";
    for more in [&[][..], &["--redact"]] {
        let page = exported(&session, more);
        let (_, page) = page.split_once("<h2 id=\"transcript\"").unwrap();
        let (transcript, steps) = page.split_once("<h2 id=\"steps\"").unwrap();
        assert!(transcript.contains(prompt), "{more:?}");
        let shown = |text: &str, id: &str| text.matches(id).count();
        let count = shown(steps, " id=\"step-");
        assert!(count > 3);
        assert_eq!(shown(transcript, " id=\"t"), count);
        assert_eq!(shown(transcript, "href=\"#step-"), count);
        assert!(!transcript.contains("data-copy"));
    }
    // A run that isn't a conversation has none.
    assert!(!exported(&sample("fix_bug"), &[]).contains("id=\"transcript\""));
}

#[test]
fn without_its_secrets_a_run_is_the_same_run() {
    // The parts of each step's heading that identify it and its events. The title contains the
    // verdict.
    let steps = |page: &str| {
        let heads = page.split("<section class=\"xstep").skip(1);
        heads
            .map(|head| head.split(" aria-label").next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let title = |page: &str| {
        page.split("<title>")
            .nth(1)
            .unwrap()
            .split("</title>")
            .next()
            .unwrap()
            .to_owned()
    };
    let mut untouched = 0;
    for run in runs().into_iter().step_by(times(1, 2)) {
        let (plain, redacted) = (exported(&run, &[]), exported(&run, &["--redact"]));
        assert_eq!(steps(&plain), steps(&redacted), "{}", run.display());
        if redacted.contains("<li>Redacted: nothing found") {
            untouched += 1;
            assert_eq!(title(&plain), title(&redacted), "{}", run.display());
        }
    }
    assert!(
        untouched > times(3, 10),
        "most runs contain no secret: {untouched}"
    );
}

#[test]
fn secrets_planted_in_every_way_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("leaky");
    copy(&sample("fix_bug"), &run);
    // Under their keys, and again where the page shows them: in the arguments of calls.
    let keyed = r#""password":"plant-1234","db":{"dbpassword":"plant-1234-longer"},"pwd":"plnt5","access":{"pin":7654321},"authorization":"Bearer plant-bearer","secret":"plant\n\"lines\"","args":"{\"client_secret\":\"plant-inside\"}","number":7654321,"#;
    let said = r#"plant-1234-longer, plant-1234, plnt5. 7654321 plant-bearer plant\\n\\\"lines\\\" plant-inside plant-text DB_PASS=plant-text api_key: plant-yaml; so {\"authtoken\": \"plant in quotes\"} curl -H \"Authorization: Basic plant-basic\" -H 'Cookie: a=plant-a; b=plant-b' --passcode=plant-line"#;
    let steps = fs::read_to_string(run.join("steps.jsonl")).unwrap();
    let mut steps = steps.replacen(
        "\"decision\":{",
        &format!("{keyed}\"decision\":{{{keyed}"),
        1,
    );
    steps = steps.replace(
        "\"command\":\"sh test_cart.sh\"",
        &format!("\"command\":\"{said}\""),
    );
    steps.push_str("{\"step_id\": 99, \"password\": \"plant-torn");
    fs::write(run.join("steps.jsonl"), steps).unwrap();
    // Code is highlighted word by word, which splits secrets into elements.
    let uncoloured = |page: String| {
        let classes = ["c-s", "c-c", "c-n", "c-k", "c-a"];
        let opens = |class: &str| format!("<span class=\"{class}\">");
        let text = classes
            .iter()
            .fold(page, |page, class| page.replace(&opens(class), ""));
        text.replace("</span>", "")
    };
    let plain = uncoloured(exported(&run, &[]));
    let redacted = uncoloured(exported(&run, &["--redact"]));
    let keyed = [
        "plant-1234-longer",
        "plant-1234",
        "plnt5",
        "7654321",
        "plant-bearer",
        "lines\\",
        "plant-inside",
    ];
    let texts = [
        "plant-text",
        "plant-yaml",
        "plant in quotes",
        "plant-basic",
        "plant-a",
        "plant-b",
        "plant-line",
    ];
    for secret in keyed.into_iter().chain(texts) {
        assert!(plain.contains(secret), "{secret} is on the page");
    }
    for secret in ["plant", "plnt5", "7654321", "-longer", "lines\\"] {
        let place = redacted
            .find(secret)
            .and_then(|at| redacted.get(at.saturating_sub(60)..at + 20));
        assert_eq!(place, None, "{secret}");
    }
    assert_eq!(
        plain.matches("class=\"xstep").count(),
        redacted.matches("class=\"xstep").count()
    );
}

#[test]
fn a_transcript_says_what_was_done_and_why_it_stopped() {
    let said = board(&[
        "show",
        sample("fix_bug").to_str().unwrap(),
        "--format",
        "md",
    ]);
    let text = String::from_utf8(said.stdout).unwrap();
    for part in [
        "**Answered at step 10**\n",
        "`fix_bug` · ",
        "- Stop reason final",
        "## Step 1\n\n> Make sure it fails first.\n\n`run_command(command=\"sh test_cart.sh\")` → exit code 1",
        "```\nok   total of nothing\n",
        "- state `suspect`: set\n",
        "- critic `tests`: 0.50, continue: 2 of 4 fail, exit status 1\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // The title is the task, so it isn't repeated.
    assert!(
        text.starts_with("# The tests for cart.sh fail.") && !text.contains("**Task:**"),
        "{text}"
    );
    let head = text.split("## Step 0").next().unwrap();
    assert_eq!(head.matches("**Answer:**").count(), 1, "{head}");
    let one = board(&[
        "show",
        sample("fix_bug").to_str().unwrap(),
        "--format",
        "md",
        "--step",
        "1",
    ]);
    let one = String::from_utf8(one.stdout).unwrap();
    assert!(one.starts_with("## Step 1") && !one.contains("## Step 2") && text.contains(&one));
}

#[test]
fn what_cannot_be_written_is_said() {
    let run = sample("final");
    let said = board(&[
        "export",
        run.to_str().unwrap(),
        "--html",
        "/nowhere/at/all.html",
    ]);
    let error = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(3));
    assert!(
        error.starts_with("board: can't write /nowhere/at/all.html") && error.contains("hint: "),
        "{error}"
    );
    assert!(
        error.contains("because: there is no directory /nowhere/at\n"),
        "the directory, not another file: {error}"
    );
    let said = board(&["export", run.to_str().unwrap()]);
    let error = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(2));
    assert!(
        error.starts_with("board: choose an output: --html FILE, --atif FILE or --otlp URL|FILE\n"),
        "{error}"
    );
    let said = board(&[
        "export",
        run.to_str().unwrap(),
        "--html",
        "-",
        "--step",
        "99",
    ]);
    assert_eq!((said.status.code(), said.stdout.len()), (Some(3), 0));
}

/// A key in the format of a well-known service.
const PASTED: &str = "sk-ant-api03-QwErTy12-uIoP34";

/// Writes the sample with the key inserted into each of its texts. Returns the number of texts.
fn with_pasted_keys(sample: &Path, to: &Path) -> usize {
    let text = fs::read_to_string(sample).expect("a sample is text");
    let mut count = 0;
    let mut spoilt = String::new();
    for (at, part) in text.split('"').enumerate() {
        // Quoted strings that start with a capital letter count as texts.
        let is_text =
            at % 2 == 1 && part.len() > 8 && part.starts_with(|c: char| c.is_ascii_uppercase());
        spoilt += if at == 0 { "" } else { "\"" };
        if is_text && part.contains(' ') && !part.ends_with('\\') {
            count += 1;
            spoilt += &format!("{PASTED} ");
        }
        spoilt += part;
    }
    fs::write(to, spoilt).expect("written");
    count
}

#[test]
fn a_key_that_was_pasted_into_a_session_of_any_tool_leaves_in_no_output() {
    let samples = [
        "claude-code",
        "claude-code-stream",
        "codex",
        "codex-exec",
        "gemini",
        "gemini-stream",
        "qwen",
        "qwen-stream",
        "swe-agent",
        "mini-swe-agent",
        "atif",
    ];
    let sessions = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools");
    let temp = tempfile::tempdir().unwrap();
    let mut tools = 0;
    for tool in samples {
        let files = walk(&sessions.join(tool))
            .into_iter()
            .filter(|path| path.is_file());
        let of_one = |path: &PathBuf| matches!(RunDir::of_file(path), Ok(Some(_)));
        let file = files
            .filter(of_one)
            .max_by_key(|path| fs::metadata(path).unwrap().len())
            .expect("a sample");
        let name = format!("{tool}-{}", file.file_name().unwrap().to_str().unwrap());
        let copy = temp.path().join(&name);
        if with_pasted_keys(&file, &copy) == 0 {
            continue;
        }
        let out = temp.path().join("out.html");
        let (run, out_arg) = (copy.to_str().unwrap(), out.to_str().unwrap());
        // Samples whose texts aren't on the page don't count.
        tools += usize::from(exported_to(run, out_arg, &[]).contains(PASTED));
        assert!(
            !exported_to(run, out_arg, &["--redact"]).contains(PASTED),
            "{name}"
        );
    }
    assert!(tools >= 8, "{tools}");
    // Codex compresses its sessions like this after a while.
    let packed = |path: &PathBuf| {
        let is_codex = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with("codex-r"));
        is_codex.then(|| {
            fs::write(
                path.with_extension("jsonl.zst"),
                zstandard(&fs::read(path).unwrap()),
            )
            .unwrap()
        })
    };
    assert_eq!(walk(temp.path()).iter().filter_map(packed).count(), 1);
    let file = walk(temp.path())
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "zst"))
        .unwrap();
    fs::remove_file(file.with_extension("")).unwrap();
    let out = temp.path().join("out.html");
    let (run, out_arg) = (file.to_str().unwrap(), out.to_str().unwrap());
    assert!(exported_to(run, out_arg, &[]).contains(PASTED));
    let page = exported_to(run, out_arg, &["--redact"]);
    assert!(
        page.contains(" redacted: values of keys") && !page.contains(PASTED),
        "the compressed one"
    );
    let board = Board::serve(temp.path());
    board.until_read();
    for run in board.json("/api/runs")["runs"].as_array().unwrap() {
        let key = crate::client::segment(run["key"].as_str().unwrap());
        let page = board.get(&format!("/runs/{key}/export.html?redact=1"));
        assert!(
            page.text().contains(" redacted: values of keys") && !page.text().contains(PASTED),
            "{key}"
        );
    }
}

/// A Zstandard frame that stores the bytes uncompressed.
fn zstandard(bytes: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 64 << 10;
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    for (at, block) in bytes.chunks(BLOCK).enumerate() {
        let is_last = (at + 1) * BLOCK >= bytes.len();
        let header = (block.len() as u32) << 3 | u32::from(is_last);
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(block);
    }
    frame
}

/// Returns the exported page.
fn exported_to(run: &str, out: &str, more: &[&str]) -> String {
    let said = board(&[&["export", run, "--html", out], more].concat());
    assert!(
        said.status.success(),
        "{run}: {}",
        String::from_utf8_lossy(&said.stderr)
    );
    fs::read_to_string(out).unwrap()
}

#[test]
fn a_shared_file_is_redacted_unless_asked_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let run = with_secrets(dir.path());
    let steps = fs::read_to_string(run.join("steps.jsonl")).unwrap();
    let steps = steps.replacen("he said", "ann@lee.org in /home/ann/project, [] he said", 1);
    fs::write(run.join("steps.jsonl"), steps).unwrap();
    let board = Board::serve(dir.path());
    board.until_read();
    let file = |query: &str| {
        let answer = board.get(&format!("/runs/leaky/export?{query}"));
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        assert!(
            answer.header("content-disposition").contains("attachment"),
            "{query}"
        );
        answer.text().to_owned()
    };
    for form in ["html", "markdown", "atif", "otlp"] {
        let (redacted, plain) = (
            file(&format!("as={form}")),
            file(&format!("as={form}&redact=0")),
        );
        for private in ["sk-very-secret-1", "ann@lee.org", "/home/ann"] {
            assert!(!redacted.contains(private), "{form}: {private}");
        }
        assert!(plain.contains("sk-very-secret-1"), "{form}");
    }
    for form in ["html", "markdown"] {
        let part = file(&format!("as={form}&part=step&step=2"));
        assert!(part.contains("This file contains step 2 of 11."), "{part}");
        let whole = file(&format!("as={form}"));
        assert!(part.len() < whole.len() && whole.contains("Redaction can miss secrets."));
        assert!(whole.contains(" UTC"), "times with their zone");
    }
    let index = file("as=html");
    assert!(index.contains("Index of 11 steps") && index.contains("<a href=\"#step-3\">3</a>"));
    let page = board.get("/runs/leaky/share?step=2").text().to_owned();
    for words in [
        "E-mail addresses",
        "[e-mail]",
        "Redaction can miss secrets.",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("sk-very-secret-1"), "only its ends");
    for (query, status) in [
        ("redact=yes", 400),
        ("as=pdf", 400),
        ("part=step", 400),
        ("part=half&step=1", 400),
        ("as=atif&part=step&step=1", 400),
        ("part=step&step=99", 404),
    ] {
        let answer = board.get(&format!("/runs/leaky/export?{query}"));
        assert_eq!(answer.status, status, "{query}");
    }
}

#[test]
fn child_runs_are_shared_with_their_run_if_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/r_cc_subagent_fails");
    copy(&case, dir.path());
    let board = Board::serve(dir.path());
    board.until_read();
    let runs = board.json("/api/runs");
    let keys = runs["runs"].as_array().unwrap().iter();
    let keys: Vec<&str> = keys.map(|run| run["key"].as_str().unwrap()).collect();
    let parent = keys.iter().find(|key| !key.contains("subagents")).unwrap();
    let at = format!("/runs/{}", parent.replace('/', "%2F"));
    let form = board.get(&format!("{at}/share"));
    assert!(form.text().contains("With 1 child run"), "{}", form.text());
    assert!(form.text().contains("one file, opens anywhere · ≈"));
    let saved = |query: &str| board.get(&format!("{at}/export?{query}"));
    let alone = saved("as=markdown");
    let without = "The steps of 1 child run aren't in this file.";
    assert!(alone.text().contains(without), "{}", alone.text());
    let together = saved("as=markdown&children=1");
    let text = together.text();
    assert!(text.contains("This file contains 1 child run, after the steps."));
    assert!(text.contains("Child run 1 of 1"), "{text}");
    assert!(text.matches("\n## Step 0\n").count() == 2, "{text}");
    assert!(!text.contains("/home/dev"), "the child run is redacted too");
    let page = saved("as=html&children=1");
    let html = page.text();
    for part in ["id=\"child-1\"", "id=\"child-1-step-0\"", "id=\"step-0\""] {
        assert_eq!(html.matches(part).count(), 1, "{part}");
    }
    assert!(!html.contains("/home/dev"));
    assert_eq!(saved("as=atif&children=1").status, 400);
    assert_eq!(saved("as=html&children=2").status, 400);
}

#[test]
fn a_secret_of_a_run_is_redacted_in_its_child_runs_too() {
    let dir = tempfile::tempdir().unwrap();
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/r_cc_subagent_fails");
    copy(&case, dir.path());
    let is_session = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "jsonl");
    for path in walk(dir.path()).into_iter().filter(is_session) {
        let text = fs::read_to_string(&path).unwrap();
        // The run has it as a value, the child run in its prompt.
        let prompt = text.replace("Slug expert:", "Log in with swordfish:");
        let value = "\"content\":\"{\\\"password\\\": \\\"swordfish\\\"}\"";
        let changed = prompt.replacen("\"content\":\"Ask a helper what slug() does.\"", value, 1);
        fs::write(&path, changed).unwrap();
    }
    let board = Board::serve(dir.path());
    board.until_read();
    let runs = board.json("/api/runs");
    let keys = runs["runs"].as_array().unwrap().iter();
    let mut keys = keys.map(|run| run["key"].as_str().unwrap());
    let parent = keys.find(|key| !key.contains("subagents")).unwrap();
    let at = format!("/runs/{}", parent.replace('/', "%2F"));
    let text = |path: &str| board.get(&format!("{at}/{path}")).text().to_owned();
    for form in ["html", "markdown"] {
        let plain = text(&format!("export?as={form}&children=1&redact=0"));
        assert!(plain.contains("Log in with swordfish"), "{plain}");
        let redacted = text(&format!("export?as={form}&children=1"));
        assert!(!redacted.contains("swordfish"), "{redacted}");
        assert!(redacted.contains("Log in with"), "{redacted}");
    }
    let preview = text("share");
    assert!(preview.contains("with 1 child run"), "{preview}");
}
