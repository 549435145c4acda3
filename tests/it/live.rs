//! Tests that the board follows changes on disk. Each change is announced on an open stream, and
//! afterwards the board shows the same as one freshly started on the same directory.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::board::Board;
use crate::client::{Client, differences_after};
use crate::disk::{copy, corpus, walk};
use crate::pulse::pulse_of;
use crate::soak::soak;
use crate::sse::Stream;
use crate::wait::{DEADLINE, until};
use crate::writer::{Writer, append};

/// A board that watches a directory, and an open event stream.
struct Watched {
    dir: tempfile::TempDir,
    board: Board,
    client: Client,
    stream: Stream,
}

impl Watched {
    /// Watches a directory that `prepare` has filled.
    fn start(prepare: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("runs");
        fs::create_dir(&root).unwrap();
        prepare(&root);
        let board = Board::serve(&root);
        board.until_read();
        let stream = Stream::open(board.address, "/events");
        stream.next();
        let client = Client::new(board.address, true);
        Self {
            dir,
            board,
            client,
            stream,
        }
    }

    fn root(&self) -> std::path::PathBuf {
        self.dir.path().join("runs")
    }

    /// Waits for announcements until the runs are `expected` by key and steps, and all their
    /// revisions have been announced. Requests the list only after an announcement.
    fn hears_of(&self, expected: &[(&str, u64)]) {
        loop {
            let heard = self.stream.next();
            let answer = self.board.json(LIST);
            let revision = answer["revision"].as_u64().expect("a list has a revision");
            if rows(&answer) == owned(expected) && heard >= revision {
                return;
            }
        }
    }

    /// Waits like `hears_of`, and then compares with a fresh board.
    fn shows(&mut self, expected: &[(&str, u64)]) {
        self.hears_of(expected);
        self.agrees_with_a_fresh_board();
    }

    /// Asserts that the listening client sees the same as a new client of a fresh board.
    fn agrees_with_a_fresh_board(&mut self) {
        let fresh = Board::serve(&self.root());
        fresh.until_read();
        let differences = differences_after(
            DEADLINE,
            &mut self.client,
            &mut Client::new(fresh.address, true),
        );
        assert_eq!(
            differences,
            Vec::<String>::new(),
            "the earlier listener | the new one"
        );
    }
}

/// Renumbers these steps to come `by` steps later.
fn later(lines: &str, by: u64) -> String {
    let step = |line: &str| {
        let mut step: Value = serde_json::from_str(line).unwrap();
        step["step_id"] = (step["step_id"].as_u64().unwrap() + by).into();
        format!("{step}\n")
    };
    lines.lines().map(step).collect()
}

/// An unknown number of steps.
const UNKNOWN: u64 = u64::MAX;

/// Lists all runs of a board.
const LIST: &str = "/api/runs?limit=1000&sort=run";

/// The runs that a board lists, by key and number of steps.
fn listed(board: &Board) -> Vec<(String, u64)> {
    rows(&board.json(LIST))
}

fn rows(answer: &Value) -> Vec<(String, u64)> {
    let runs = answer["runs"].as_array().expect("a list of runs");
    let mut rows: Vec<_> = runs
        .iter()
        .map(|run| {
            (
                run["key"].as_str().expect("a key").to_owned(),
                run["steps"].as_u64().unwrap_or(UNKNOWN),
            )
        })
        .collect();
    rows.sort();
    rows
}

fn owned(rows: &[(&str, u64)]) -> Vec<(String, u64)> {
    rows.iter()
        .map(|(key, steps)| ((*key).to_owned(), *steps))
        .collect()
}

#[test]
fn a_run_that_is_being_written() {
    let mut watched = Watched::start(|_| {});
    let mut writer = Writer::start(&watched.root().join("a"));
    watched.shows(&[("a", 0)]);
    writer.step("one");
    watched.shows(&[("a", 1)]);
    writer.step(&"two ".repeat(10_000));
    watched.shows(&[("a", 2)]);
    writer.finish("final");
    until("the stop reason is known", || {
        (watched.board.json("/api/runs/a")["stop_reason"] == "final").then_some(())
    });
    assert_eq!(watched.board.json("/api/runs/a")["liveness"], "finished");
    watched.agrees_with_a_fresh_board();
}

#[test]
fn a_line_that_comes_in_pieces() {
    let mut watched = Watched::start(|root| Writer::start(&root.join("a")).step("one"));
    let steps = watched.root().join("a/steps.jsonl");
    let line = later(&fs::read_to_string(&steps).unwrap(), 1).replace("one", "zwei \u{1F600}");
    let middle = line.find('\u{1F600}').unwrap() + 2;
    let mut file = fs::OpenOptions::new().append(true).open(&steps).unwrap();
    file.write_all(&line.as_bytes()[..middle]).unwrap();
    // A run's files are read together, so growth of the other file shows that the partial line has
    // been seen.
    let events = watched.board.json("/api/runs/a")["events"].clone();
    append(&watched.root().join("a/events.jsonl"), "{}");
    until("the board has looked", || {
        (watched.board.json("/api/runs/a")["events"] != events).then_some(())
    });
    assert_eq!(listed(&watched.board), owned(&[("a", 1)]));
    file.write_all(&line.as_bytes()[middle..line.len() - 1])
        .unwrap();
    file.write_all(b"\n").unwrap();
    watched.shows(&[("a", 2)]);
    let step = watched.board.json("/api/runs/a/steps/1");
    assert!(step["step"].to_string().contains("zwei \u{1F600}"));
}

#[test]
fn a_file_that_gets_shorter() {
    let mut watched = Watched::start(|root| {
        let mut writer = Writer::start(&root.join("a"));
        (0..3).for_each(|_| writer.step("long enough"));
    });
    let steps = watched.root().join("a/steps.jsonl");
    let text = fs::read_to_string(&steps).unwrap();
    let first = text.find('\n').unwrap() + 1;
    fs::OpenOptions::new()
        .write(true)
        .open(&steps)
        .unwrap()
        .set_len(first as u64)
        .unwrap();
    // The events record more steps than there are lines now, so the number of steps is unknown.
    watched.shows(&[("a", UNKNOWN)]);
    assert_eq!(watched.board.json("/api/runs/a/steps")["total"], 1);
}

#[test]
fn a_file_rewritten_in_place_with_other_lines() {
    let mut watched = Watched::start(|root| {
        let mut writer = Writer::start(&root.join("a"));
        (0..3).for_each(|_| writer.step("old"));
    });
    let steps = watched.root().join("a/steps.jsonl");
    let text = fs::read_to_string(&steps).unwrap();
    let more = text.replace("old", "new and longer");
    fs::write(&steps, format!("{more}{}", later(&more, 3))).unwrap();
    watched.shows(&[("a", 6)]);
    let step = watched.board.json("/api/runs/a/steps/0");
    assert!(
        step["step"].to_string().contains("new and longer"),
        "{step}"
    );
}

#[test]
fn a_file_replaced_by_another() {
    let mut watched = Watched::start(|root| {
        let mut writer = Writer::start(&root.join("a"));
        (0..2).for_each(|_| writer.step("old"));
    });
    let steps = watched.root().join("a/steps.jsonl");
    let text = fs::read_to_string(&steps).unwrap().replace("old", "new");
    let beside = watched.dir.path().join("steps.new");
    fs::write(&beside, format!("{text}{}", later(&text, 2))).unwrap();
    fs::rename(&beside, &steps).unwrap();
    watched.shows(&[("a", 4)]);
    let step = watched.board.json("/api/runs/a/steps/0");
    assert!(step["step"].to_string().contains("new"), "{step}");
}

#[test]
fn directories_that_come_go_and_change_their_name() {
    let mut watched =
        Watched::start(|root| copy(&corpus().join("q060/q060_minimal"), &root.join("old")));
    copy(
        &corpus().join("q060/q060_redaction"),
        &watched.root().join("x/y/z/deep"),
    );
    watched.shows(&[("old", 1), ("x/y/z/deep", 2)]);
    fs::rename(watched.root().join("old"), watched.root().join("new")).unwrap();
    watched.shows(&[("new", 1), ("x/y/z/deep", 2)]);
    assert_eq!(watched.board.get("/api/runs/old").status, 404);
    fs::remove_dir_all(watched.root().join("x")).unwrap();
    watched.shows(&[("new", 1)]);
    // A directory moved in from elsewhere is complete at once and causes no more file events.
    copy(
        &corpus().join("q060/q060_wait_forever"),
        &watched.dir.path().join("elsewhere"),
    );
    fs::rename(
        watched.dir.path().join("elsewhere"),
        watched.root().join("moved"),
    )
    .unwrap();
    watched.shows(&[("moved", 5), ("new", 1)]);
}

#[test]
fn two_runs_that_swap_their_names() {
    let mut watched = Watched::start(|root| {
        copy(&corpus().join("q060/q060_minimal"), &root.join("one"));
        copy(&corpus().join("q060/q060_wait_forever"), &root.join("two"));
    });
    watched.agrees_with_a_fresh_board();
    let (one, two, aside) = (
        watched.root().join("one"),
        watched.root().join("two"),
        watched.dir.path().join("aside"),
    );
    fs::rename(&one, &aside).unwrap();
    fs::rename(&two, &one).unwrap();
    fs::rename(&aside, &two).unwrap();
    watched.shows(&[("one", 5), ("two", 1)]);
}

#[test]
fn what_of_a_manifest_nobody_reads_but_pages_show() {
    let mut watched =
        Watched::start(|root| copy(&corpus().join("q060/q060_minimal"), &root.join("a")));
    watched.agrees_with_a_fresh_board();
    let path = watched.root().join("a/manifest.json");
    let text = fs::read_to_string(&path)
        .unwrap()
        .replace("\"warning_ratio\": 0.8", "\"warning_ratio\": 0.7");
    fs::write(&path, text).unwrap();
    watched.shows(&[("a", 1)]);
}

#[test]
fn bytes_that_change_far_from_both_ends_of_a_file() {
    let mut watched = Watched::start(|root| {
        let mut writer = Writer::start(&root.join("a"));
        (0..20).for_each(|_| writer.step("old"));
    });
    watched.agrees_with_a_fresh_board();
    let steps = watched.root().join("a/steps.jsonl");
    let text = fs::read_to_string(&steps).unwrap();
    let time = fs::metadata(&steps).unwrap().modified().unwrap();
    let (before, after) = text.split_at(text.len() / 2);
    fs::write(
        &steps,
        format!("{before}{}", after.replacen("old", "new", 1)),
    )
    .unwrap();
    fs::File::options()
        .write(true)
        .open(&steps)
        .unwrap()
        .set_modified(time)
        .unwrap();
    watched.shows(&[("a", 20)]);
}

#[test]
fn the_stream_of_a_run_that_is_gone_ends() {
    let watched = Watched::start(|root| Writer::start(&root.join("a")).step("one"));
    let stream = Stream::open(watched.board.address, "/runs/a/events");
    stream.next();
    fs::remove_dir_all(watched.root().join("a")).unwrap();
    stream.ended();
}

#[test]
fn many_directories_made_at_once() {
    let watched = Watched::start(|_| {});
    let names: Vec<String> = (0..50).map(|n| format!("run-{n:02}")).collect();
    for name in &names {
        copy(
            &corpus().join("q060/q060_minimal"),
            &watched.root().join(name),
        );
    }
    let expected: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    watched.hears_of(&expected);
}

#[test]
fn a_root_that_appears_later() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("not/yet");
    let board = Board::serve(&root);
    assert_eq!(listed(&board), owned(&[]));
    assert_eq!(board.get("/").status, 200);
    let stream = Stream::open(board.address, "/events");
    let first = stream.next();
    Writer::start(&root.join("a")).step("one");
    until("the run is listed", || {
        (listed(&board) == owned(&[("a", 1)])).then_some(())
    });
    assert!(stream.next() > first);
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_out_of_the_root() {
    let mut watched = Watched::start(|_| {});
    let outside = watched.dir.path().join("outside");
    copy(&corpus().join("q060/q060_minimal"), &outside);
    std::os::unix::fs::symlink(&outside, watched.root().join("link")).unwrap();
    std::os::unix::fs::symlink(watched.root(), watched.root().join("loop")).unwrap();
    // Once this run is listed, the board has scanned the directory with the links.
    copy(
        &corpus().join("q060/q060_minimal"),
        &watched.root().join("inside"),
    );
    watched.shows(&[("inside", 1)]);
}

#[test]
fn one_stream_per_run_hears_of_its_run_only() {
    let watched = Watched::start(|root| {
        Writer::start(&root.join("a")).step("one");
        Writer::start(&root.join("b")).step("one");
    });
    let stream = Stream::open(watched.board.address, "/runs/b/events");
    let first = stream.next();
    append(&watched.root().join("b/events.jsonl"), "{}");
    assert!(stream.next() > first);
}

#[test]
fn a_signal_ends_streams_and_the_board() {
    for signal in ["-TERM", "-INT"] {
        let mut watched = Watched::start(|_| {});
        let status = watched.board.terminate(signal);
        watched.stream.ended();
        assert_eq!(status.code(), Some(0), "{signal}");
    }
}

#[test]
fn only_a_page_that_shows_the_end_gets_new_rows() {
    let mut writer = None;
    let watched = Watched::start(|root| {
        let mut run = Writer::start(&root.join("run"));
        (0..250).for_each(|n| run.step(&format!("line {n}")));
        writer = Some(run);
    });
    let get = |path: &str| watched.board.get(path).text().to_owned();
    let (end, middle, events) = (
        get("/runs/run"),
        get("/runs/run?step=3"),
        get("/runs/run?tab=events"),
    );
    writer.unwrap().step("one more");
    until("the step is known", || {
        (watched.board.json("/api/runs/run")["steps"] == 251).then_some(())
    });
    assert!(
        get(&pulse_of(&end)).contains("id=\"step-250\""),
        "the end of the list continues"
    );
    let answer = get(&pulse_of(&middle));
    assert!(
        !answer.contains("id=\"step-250\"") && answer.contains("251"),
        "only the counts change: {answer}"
    );
    let answer = get(&pulse_of(&events));
    assert!(
        answer.contains("hx-target=\"#events\"") && !answer.contains("id=\"step-250\""),
        "{answer}"
    );
}

#[test]
fn the_end_of_a_run_is_said_once() {
    let mut writer = None;
    let watched = Watched::start(|root| {
        let mut run = Writer::start(&root.join("run"));
        run.step("one");
        writer = Some(run);
    });
    let get = |path: &str| watched.board.get(path).text().to_owned();
    let page = get("/runs/run");
    writer.unwrap().finish("final");
    until("the run is finished", || {
        (watched.board.json("/api/runs/run")["liveness"] == "finished").then_some(())
    });
    let first = get(&pulse_of(&page));
    assert!(first.contains("Run ended"), "{first}");
    assert!(
        !get(&pulse_of(&first)).contains("Run ended"),
        "the next update doesn't repeat it"
    );
    assert!(
        !get(&pulse_of(&get("/runs/run"))).contains("Run ended"),
        "a page opened after the end doesn't announce it"
    );
}

#[test]
fn a_second_start_with_a_cache_says_the_same() {
    let (dir, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = dir.path().join("runs");
    // Runs of every layout; in soak tests, all runs.
    for group in ["q010", "q030", "q060", "emulated", "model_driven"] {
        if soak() || group != "q060" {
            copy(&corpus().join(group), &root.join(group));
        }
    }
    for file in walk(&root).iter().filter(|path| path.is_file()) {
        let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        fs::File::options()
            .append(true)
            .open(file)
            .unwrap()
            .set_modified(hour_ago)
            .unwrap();
    }
    let serve = || {
        let board = Board::serve_with_cache(&root, cache.path());
        board.until_read();
        let client = Client::that_has_read(board.address);
        (board, client)
    };
    let (mut board, mut first) = serve();
    assert_eq!(board.terminate("-TERM").code(), Some(0));
    assert!(
        walk(cache.path())
            .iter()
            .any(|path| path.extension().is_some_and(|kind| kind == "jsonl"))
    );
    let (_board, mut second) = serve();
    let differences = differences_after(DEADLINE, &mut first, &mut second);
    assert_eq!(
        differences,
        Vec::<String>::new(),
        "the first start | the second"
    );
}

/// A session of another tool starts as an empty file and grows by pieces that may end anywhere.
#[test]
fn a_session_of_another_tool_is_followed_while_it_grows() {
    const NAME: &str = "-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl";
    let sample = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("sample_runs/tools/claude-code")
        .join(NAME);
    let text = fs::read(sample).unwrap();
    let add = |path: &Path, piece: &[u8]| {
        let file = fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(piece))
            .expect("written");
    };
    let mut watched = Watched::start(|root| fs::create_dir(root.join("-home-me-ledger")).unwrap());
    let path = watched.root().join(NAME);
    let lines: Vec<usize> = text
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    // First two lines, which identify the tool; then up to the middle of the second reply, up to
    // the middle of the last line, and to the end.
    add(&path, &text[..lines[3]]);
    watched.hears_of(&[(NAME, 1)]);
    add(&path, &text[lines[3]..lines[8] + 40]);
    watched.hears_of(&[(NAME, 2)]);
    add(&path, &text[lines[8] + 40..text.len() - 100]);
    watched.hears_of(&[(NAME, 5)]);
    add(&path, &text[text.len() - 100..]);
    watched.shows(&[(NAME, 5)]);
    let key = NAME.replace('/', "%2F");
    let run = watched.board.answered(&format!("/api/runs/{key}"));
    assert_eq!(
        run["verdict"],
        "Finished at step 4 (inferred from \"end_turn\")"
    );
    assert_eq!(
        (run["cost_usd"].as_f64(), run["tokens"].as_u64()),
        (Some(0.041225), Some(29_174))
    );
}

/// An evaluation log is rewritten after each finished sample, at first without any.
#[test]
fn a_log_that_gets_samples() {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools/inspect");
    let (none, whole) = (
        tools.join("before-any-sample.json"),
        tools.join("ledger.json"),
    );
    let (running, ended) = (tools.join("running.eval"), tools.join("ledger.eval"));
    let mut watched = Watched::start(|root| fs::create_dir(root.join("logs")).unwrap());
    let (json, eval) = (
        watched.root().join("logs/a.json"),
        watched.root().join("b.eval"),
    );
    let replace = |from: &Path, to: &Path| {
        let beside = to.with_extension("part");
        fs::copy(from, &beside)
            .and_then(|_| fs::rename(&beside, to))
            .expect("replaced");
    };
    replace(&none, &json);
    watched.hears_of(&[("logs/a.json", 0)]);
    replace(&running, &eval);
    watched.hears_of(&[("b.eval/rent_epoch_2", 2), ("logs/a.json", 0)]);
    let of = |log: &str| {
        let runs = [
            ("food/a b_epoch_1", 2),
            ("rent_epoch_1", 4),
            ("rent_epoch_2", 2),
        ];
        runs.map(|(run, steps)| (format!("{log}/{run}"), steps))
    };
    let (of_b, of_a) = (of("b.eval"), of("logs/a.json"));
    let known = |runs: &[(String, u64)]| {
        runs.iter()
            .map(|(key, steps)| (&*key.clone().leak(), *steps))
            .collect::<Vec<(&str, u64)>>()
    };
    let with_b = [known(&of_b), vec![("logs/a.json", 0)]].concat();
    replace(&ended, &eval);
    watched.hears_of(&with_b);
    // Rewritten in place, as the program itself does.
    fs::write(&json, fs::read(&whole).expect("the sample")).expect("written");
    // The archive contains the same samples, so each counts once.
    watched.shows(&known(&of_b));
    let runs = watched.board.json(LIST);
    for ((key, _), (copy, _)) in of_b.iter().zip(&of_a) {
        let row = runs["runs"]
            .as_array()
            .and_then(|rows| rows.iter().find(|row| row["key"] == key.as_str()));
        assert_eq!(
            row.map(|row| &row["also_at"]),
            Some(&serde_json::json!([copy])),
            "{key}"
        );
    }
}

/// A program commits rows to a database. They're in its log, and only that file changes.
#[test]
fn sessions_in_a_database_are_followed_and_counted_once() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools/opencode");
    let mut watched = Watched::start(|root| {
        for name in ["opencode.db", "opencode.db-wal"] {
            fs::copy(sample.join(name), root.join(name)).expect("copied");
        }
    });
    let rows = |killed: u64, added: &[(&'static str, u64)]| {
        let known = [
            ("opencode.db/ses_help0001", 1),
            ("opencode.db/ses_kill0001", killed),
            ("opencode.db/ses_main0001", 5),
            ("opencode.db/ses_stop0001", 1),
        ];
        let mut rows = known.to_vec();
        rows.extend(added);
        rows.sort_unstable();
        rows
    };
    watched.agrees_with_a_fresh_board();
    let db = rusqlite::Connection::open(watched.root().join("opencode.db")).expect("opened");
    let reply = r#"{"role":"assistant","finish":"stop","time":{"created":1777885300000,"completed":1777885301000}}"#;
    let add = |session: &str, id: &str| {
        let commit = db.unchecked_transaction().expect("begun");
        let row = "INSERT INTO message VALUES(?1,?2,1777885300000,1777885300000,?3)";
        db.execute(row, (id, session, reply)).expect("written");
        let count =
            "INSERT INTO event_sequence VALUES(?1,1,NULL) ON CONFLICT DO UPDATE SET seq=seq+1";
        db.execute(count, [session]).expect("written");
        commit.commit().expect("written");
    };
    add("ses_kill0001", "msg_9001");
    watched.hears_of(&rows(2, &[]));
    let session =
        "INSERT INTO session(id,project_id,slug,directory,title,version,time_created,time_updated)
        VALUES('ses_new','p1','s','/home/me/ledger','New','1',1777885300000,1777885300000)";
    db.execute(session, []).expect("written");
    add("ses_new", "msg_9002");
    watched.hears_of(&rows(2, &[("opencode.db/ses_new", 1)]));
    // All rows move to the database, and the log starts over.
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .expect("moved");
    add("ses_new", "msg_9003");
    watched.shows(&rows(2, &[("opencode.db/ses_new", 2)]));
    let run = watched
        .board
        .answered("/api/runs/opencode.db%2Fses_kill0001");
    assert_eq!(
        run["verdict"],
        "Turn ended without an answer after step 1 (inferred from \"stop\")"
    );
    db.execute("DELETE FROM session WHERE id = 'ses_new'", [])
        .expect("deleted");
    watched.shows(&rows(2, &[]));
}

/// The program writes each message and part to a separate file. The file of the session stays the same.
#[test]
fn a_session_in_files_is_followed() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools/opencode-files");
    let mut watched = Watched::start(|root| crate::disk::copy(&sample, root));
    let rows = |killed: u64| {
        let key = |n: u8| &*format!("storage/session/4a1f00c2d3/ses_file000{n}.json").leak();
        vec![(key(1), 4), (key(2), 1), (key(3), killed)]
    };
    watched.agrees_with_a_fresh_board();
    let storage = watched.root().join("storage");
    let parts = storage.join("part/msg_0011");
    fs::create_dir(&parts).expect("created");
    let message = |text: &str| {
        let path = storage.join("message/ses_file0003/msg_0011.json");
        fs::write(path, text).expect("written");
    };
    // A request without a reply is an event, not a step.
    message(r#"{"id":"msg_0011","role":"assistant","time":{"created":1767345700000}}"#);
    watched.hears_of(&rows(2));
    let part = r#"{"id":"prt_9001","type":"text","text":"It is built."}"#;
    fs::write(parts.join("prt_9001.json"), part).expect("written");
    message(
        r#"{"id":"msg_0011","role":"assistant","finish":"stop",
        "time":{"created":1767345700000,"completed":1767345701000}}"#,
    );
    watched.shows(&rows(3));
    let key = "storage%2Fsession%2F4a1f00c2d3%2Fses_file0003.json";
    let run = watched.board.answered(&format!("/api/runs/{key}"));
    assert_eq!(
        run["verdict"],
        "Finished at step 2 (inferred from \"stop\")"
    );
}
