//! Tests that the board serves what the settings name, and opens nothing else.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::board::{BINARY, Board};
use crate::disk::{copy, corpus};

/// A command in the directory `home`, which is also the user's home.
fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command
        .args(args)
        .current_dir(home)
        .env("HOME", home)
        .env("USERPROFILE", home)
        .env("NO_COLOR", "1");
    [
        "XDG_CONFIG_HOME",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "APPDATA",
    ]
    .iter()
    .for_each(|name| {
        command.env_remove(name);
    });
    command
}

fn serve(home: &Path, args: &[&str]) -> Board {
    let all = [&["serve", "--port", "0", "--no-cache"], args].concat();
    let board = Board::spawn(command(home, &all), home);
    board.until_read();
    board
}

fn keys(board: &Board) -> Vec<String> {
    let runs = board.json("/api/runs?sort=run");
    let runs = runs["runs"].as_array().unwrap().iter();
    runs.map(|run| run["key"].as_str().unwrap().to_owned())
        .collect()
}

fn run_in(dir: &Path) {
    copy(&corpus().join("q060/q060_handoff"), &dir.join("a"));
}

#[test]
fn the_settings_name_what_is_served_unless_the_command_line_does() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    for dir in ["one/runs", "two/runs", "three"] {
        run_in(&home.join(dir));
    }
    fs::create_dir_all(home.join(".config/board")).unwrap();
    fs::write(
        home.join(".config/board/config.toml"),
        "roots = [\"~/one/runs\", \"../../two/runs\"]\n",
    )
    .unwrap();
    assert_eq!(keys(&serve(home, &[])), ["runs-2/a", "runs/a"]);
    assert_eq!(keys(&serve(home, &["three"])), ["a"]);
    fs::write(home.join("other.toml"), "roots = [\"three\"]").unwrap();
    assert_eq!(keys(&serve(home, &["--config", "other.toml"])), ["a"]);

    fs::write(home.join("bad.toml"), "roots = [\"three\"]\nport = 1\n").unwrap();
    let said = command(home, &["serve", "--config", "bad.toml"])
        .output()
        .unwrap();
    let text = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(2));
    assert!(
        text.starts_with("board: bad.toml:2: unknown key `port`; use one of"),
        "{text}"
    );
    let said = command(home, &["serve", "--config", "none.toml"])
        .output()
        .unwrap();
    assert_eq!(said.status.code(), Some(3));
}

#[test]
fn sessions_in_the_home_are_named_and_opened_only_when_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let sessions = home.join(".codex/sessions");
    fs::create_dir_all(&sessions).unwrap();
    run_in(&sessions);
    let board = serve(home, &[]);
    assert_eq!(keys(&board), [""; 0]);
    let page = board.get("/").text().to_owned();
    assert!(
        page.contains(&*sessions.to_string_lossy()) && page.contains("board serve --sessions"),
        "{page}"
    );
    drop(board);
    assert_eq!(keys(&serve(home, &["--sessions"])), ["a"]);
    fs::write(home.join("with.toml"), "sessions = true").unwrap();
    assert_eq!(keys(&serve(home, &["--config", "with.toml"])), ["a"]);
    run_in(&home.join("runs"));
    assert_eq!(keys(&serve(home, &[])), ["a"], "./runs alone");
    assert_eq!(
        keys(&serve(home, &["--config", "with.toml"])),
        ["runs/a", "sessions/a"]
    );
    fs::remove_dir_all(home.join(".codex")).unwrap();
    assert_eq!(
        keys(&serve(home, &["--config", "with.toml"])),
        ["a"],
        "missing sessions aren't an error"
    );
}

/// Two steps of a session without recorded cost: 1,360 input, 8,700 cached and 173 output tokens.
const SESSION: &str = "5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a02.jsonl";

#[test]
fn prices_make_estimates_that_say_so() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let sample =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools/claude-code/-home-me-ledger");
    fs::create_dir(home.join("runs")).unwrap();
    fs::copy(sample.join(SESSION), home.join("runs").join(SESSION)).unwrap();
    let table = "[prices.\"claude-sonnet-*\"]\ninput = 3\ncached = 0.3\noutput = 15\n";
    fs::write(home.join("prices.toml"), table).unwrap();
    let said = |args: &[&str]| {
        let output = command(home, args).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        String::from_utf8(output.stdout).unwrap()
    };
    let row = |args: &[&str]| {
        let list: serde_json::Value =
            serde_json::from_str(&said(&[&["list", "--json"], args].concat())).unwrap();
        let row = &list["runs"][0];
        (row["cost_usd"].clone(), row["cost_estimated"].as_f64())
    };
    assert_eq!(row(&["--no-prices"]), (serde_json::Value::Null, None));
    // The list also has a price for cache writes.
    assert_eq!(row(&[]), (serde_json::Value::Null, Some(0.00951)));
    assert_eq!(
        row(&["--prices", "prices.toml"]),
        (serde_json::Value::Null, Some(0.009285))
    );
    let text = said(&["list", "--prices", "prices.toml"]);
    assert!(
        text.contains("≈$0.0093") && text.contains("≈ estimated from prices.toml"),
        "{text}"
    );
    let run = format!("runs/{SESSION}");
    let text = said(&[
        "whatif",
        &run,
        "--rule",
        "max_cost=0.001",
        "--prices",
        "prices.toml",
    ]);
    assert!(text.contains("(estimated)"), "{text}");
    assert!(
        said(&["show", &run, "--prices", "prices.toml"])
            .contains("≈$0.0093, estimated from prices.toml")
    );
    assert!(
        said(&["why", &run, "--prices", "prices.toml"])
            .contains("estimated from tokens and prices")
    );

    // The user's own settings contain prices as well.
    fs::create_dir_all(home.join(".config/board")).unwrap();
    fs::rename(
        home.join("prices.toml"),
        home.join(".config/board/config.toml"),
    )
    .unwrap();
    assert_eq!(row(&[]).1, Some(0.009285));
    let board = serve(home, &[]);
    let row = &board.json("/api/runs?q=cost%3E0.009")["runs"][0];
    assert_eq!(
        (&row["cost_usd"], row["cost_estimated"].as_f64()),
        (&serde_json::Value::Null, Some(0.009285))
    );
    let page = board.get("/").text().to_owned();
    assert!(
        page.contains("≈$0.0093") && page.contains("title=\"estimated from "),
        "{page}"
    );
    assert!(
        board
            .get(&format!("/runs/{SESSION}"))
            .text()
            .contains("≈$0.0093, estimated from")
    );
}
