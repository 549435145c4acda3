//! Tests changing files, and staying inside the workspace.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use super::super::{ListDir, ReadFile, ReplaceLines, Search, WriteFile};
use super::{Place, call, call_beside};
use crate::engine::OffLimits;

#[tokio::test]
async fn a_file_is_written_whole_with_the_directories_on_the_way() {
    let place = Place::new();
    let write = WriteFile::new(place.workspace.clone());
    let new = call(&write, json!({"path": "a/b/c.txt", "text": "first"}))
        .await
        .unwrap();
    assert_eq!((new.created, new.bytes), (true, 5));
    let again = call(&write, json!({"path": "a/b/c.txt", "text": ""}))
        .await
        .unwrap();
    assert_eq!((again.created, again.bytes), (false, 0));
    assert_eq!(place.text("a/b/c.txt"), "");
    let left: Vec<_> = fs::read_dir(place.root().join("a/b"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left, ["c.txt"], "no temporary file is left");
}

#[tokio::test]
async fn what_cannot_be_a_file_is_refused() {
    let place = Place::new();
    place.write("dir/file", "kept");
    let write = WriteFile::new(place.workspace.clone());
    let wrong = async |path: &str| {
        call(&write, json!({"path": path, "text": "x"}))
            .await
            .unwrap_err()
            .message
    };
    assert_eq!(wrong("dir").await, "dir: a directory, not a file");
    assert_eq!(wrong("new/").await, "new/: names no file");
    assert_eq!(wrong(".").await, ".: names no file");
    assert!(
        wrong("dir/file/below")
            .await
            .starts_with("dir/file/below: ")
    );
    assert_eq!(place.text("dir/file"), "kept");
}

#[tokio::test]
async fn a_script_stays_executable_and_a_link_stays_a_link() {
    let place = Place::new();
    place.write("run.sh", "old");
    fs::set_permissions(
        place.root().join("run.sh"),
        fs::Permissions::from_mode(0o750),
    )
    .unwrap();
    symlink("run.sh", place.root().join("link")).unwrap();
    let write = WriteFile::new(place.workspace.clone());
    call(&write, json!({"path": "run.sh", "text": "new"}))
        .await
        .unwrap();
    assert_eq!(
        fs::metadata(place.root().join("run.sh"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o750
    );
    let written = call(&write, json!({"path": "link", "text": "newer"}))
        .await
        .unwrap();
    assert!(!written.created && place.root().join("link").is_symlink());
    assert_eq!(place.text("run.sh"), "newer");
    let edit = json!({"path": "link", "start_line": 1, "end_line": 1, "text": "newest"});
    call(&ReplaceLines::new(place.workspace.clone()), edit)
        .await
        .unwrap();
    assert_eq!(
        (
            place.text("run.sh").trim_end(),
            place.root().join("link").is_symlink()
        ),
        ("newest", true)
    );
    symlink("nothing", place.root().join("dangling")).unwrap();
    let refused = call(&write, json!({"path": "dangling", "text": "x"}))
        .await
        .unwrap_err();
    assert_eq!(
        refused.message,
        "dangling: there is no such file or directory"
    );
}

/// Returns the content after replacing lines, or the error.
async fn spliced(old: &str, start: u64, end: u64, text: &str) -> Result<String, String> {
    let place = Place::new();
    place.write("f", old);
    let replace = ReplaceLines::new(place.workspace.clone());
    let args = json!({"path": "f", "start_line": start, "end_line": end, "text": text});
    let replaced = call(&replace, args).await.map_err(|error| error.message)?;
    let new = place.text("f");
    assert_eq!(
        new.split_inclusive('\n').count() as u64,
        replaced.total_lines
    );
    Ok(new)
}

#[tokio::test]
async fn lines_are_replaced_inserted_appended_and_deleted() {
    let ok = async |old, start, end, text| spliced(old, start, end, text).await.unwrap();
    assert_eq!(ok("a\nb\nc\n", 2, 2, "x\ny").await, "a\nx\ny\nc\n");
    assert_eq!(ok("a\nb\nc\n", 1, 3, "x\n").await, "x\n");
    assert_eq!(ok("a\nb\n", 2, 1, "x").await, "a\nx\nb\n");
    assert_eq!(ok("a\nb\n", 3, 2, "x").await, "a\nb\nx\n");
    assert_eq!(ok("a\nb\n", 1, 1, "").await, "b\n");
    assert_eq!(ok("", 1, 0, "x").await, "x\n");
    // The last line keeps its ending, and lines aren't joined.
    assert_eq!(ok("a\nb", 2, 2, "x").await, "a\nx");
    assert_eq!(ok("a\nb", 3, 2, "x").await, "a\nb\nx\n");
    assert_eq!(ok("a\r\nb\r\n", 2, 2, "x\ny").await, "a\r\nx\r\ny\r\n");
}

#[tokio::test]
async fn lines_that_are_not_there_cannot_be_replaced() {
    for (start, end) in [(0, 1), (1, 3), (4, 3), (2, 0), (u64::MAX, u64::MAX)] {
        let wrong = spliced("a\nb\n", start, end, "x").await.unwrap_err();
        assert_eq!(
            wrong,
            format!("f: has 2 lines; lines {start} to {end} cannot be replaced")
        );
    }
}

#[tokio::test]
async fn a_stale_edit_changes_nothing() {
    let place = Place::new();
    place.write("f", "a\nchanged\n");
    let replace = ReplaceLines::new(place.workspace.clone());
    let edit = |expect: &str| json!({"path": "f", "start_line": 2, "end_line": 2, "text": "x", "expect": expect});
    let stale = call(&replace, edit("b")).await.unwrap_err();
    assert_eq!(
        stale.message,
        "f: line 2 is \"changed\\n\", not the expected text; the file was not changed"
    );
    assert_eq!(place.text("f"), "a\nchanged\n");
    call(&replace, edit("changed")).await.unwrap();
    assert_eq!(place.text("f"), "a\nx\n");
}

#[tokio::test]
async fn bytes_that_are_no_text_survive_an_edit_elsewhere() {
    let place = Place::new();
    place.write("f", b"caf\xe9\nb\n");
    let replace = ReplaceLines::new(place.workspace.clone());
    call(
        &replace,
        json!({"path": "f", "start_line": 2, "end_line": 2, "text": "x"}),
    )
    .await
    .unwrap();
    assert_eq!(fs::read(place.root().join("f")).unwrap(), b"caf\xe9\nx\n");
}

#[tokio::test]
async fn no_path_leads_out() {
    let place = Place::new();
    place.write("dir/file", "x\n");
    let secret = place.outside().join("secret.txt").display().to_string();
    let mut ways = vec![
        "../outside/secret.txt".to_owned(),
        "dir/../../outside/secret.txt".to_owned(),
        secret,
    ];
    symlink(place.outside(), place.root().join("away")).unwrap();
    symlink("../../outside", place.root().join("dir/up")).unwrap();
    symlink(
        place.outside().join("secret.txt"),
        place.root().join("direct"),
    )
    .unwrap();
    ways.extend(["away/secret.txt", "dir/up/secret.txt", "direct"].map(str::to_owned));
    let workspace = || place.workspace.clone();
    for way in &ways {
        let read = call(&ReadFile::new(workspace(), 1000), json!({"path": way}))
            .await
            .unwrap_err();
        assert!(read.message.contains("the workspace"), "{}", read.message);
        let edit = json!({"path": way, "start_line": 1, "end_line": 1, "text": "x"});
        assert!(
            call(&ReplaceLines::new(workspace()), edit).await.is_err(),
            "{way}"
        );
        let searched = call(
            &Search::new(workspace()),
            json!({"pattern": "secret", "path": way}),
        )
        .await;
        assert!(searched.is_err(), "{way}: {searched:?}");
        let written = call(
            &WriteFile::new(workspace()),
            json!({"path": way, "text": "overwritten"}),
        )
        .await;
        assert!(
            written.unwrap_err().message.contains("the workspace"),
            "{way}"
        );
        assert_eq!(
            fs::read_to_string(place.outside().join("secret.txt")).unwrap(),
            "the secret\n",
            "{way}"
        );
    }
    assert!(
        call(&ListDir::new(workspace()), json!({"path": ".."}))
            .await
            .is_err()
    );
    let everywhere = call(&Search::new(workspace()), json!({"pattern": "the secret"}))
        .await
        .unwrap();
    assert_eq!(everywhere.hits, []);
}

#[tokio::test]
async fn no_tool_writes_where_the_run_is_recorded() {
    let place = Place::new();
    place.write("runs/this/steps.jsonl", "{}\n");
    place.write("runs/other/steps.jsonl", "{}\n");
    place.write("own.txt", "{}\n");
    symlink("runs/this", place.root().join("alias")).unwrap();
    symlink("../runs/this/steps.jsonl", place.root().join("runs/line")).unwrap();
    symlink("runs/line", place.root().join("line")).unwrap();
    let runs = place.root().join("runs");
    let off_limits = OffLimits::new([
        &*runs,
        &*runs.join("this"),
        &*place.root().join("not there"),
    ]);
    // The directory is recognized under another name.
    fs::rename(&runs, place.root().join("renamed")).unwrap();
    symlink("renamed", &runs).unwrap();
    let (write, edit) = (
        WriteFile::new(place.workspace.clone()),
        ReplaceLines::new(place.workspace.clone()),
    );
    let absolute = place
        .root()
        .join("renamed/this/steps.jsonl")
        .display()
        .to_string();
    let ways = [
        "runs/this/steps.jsonl",
        "renamed/other/steps.jsonl",
        "alias/steps.jsonl",
        "line",
        &absolute,
    ];
    for way in ways.into_iter().chain([
        "runs/new/deep/steps.jsonl",
        "alias/../other/x",
        "renamed/../runs/x",
    ]) {
        let wrong = call_beside(&write, json!({"path": way, "text": "forged"}), &off_limits)
            .await
            .unwrap_err();
        assert_eq!(
            wrong.message,
            format!("{way}: runs are recorded there, so tools can't write to it")
        );
    }
    let args =
        json!({"path": "alias/steps.jsonl", "start_line": 1, "end_line": 1, "text": "forged"});
    assert!(call_beside(&edit, args, &off_limits).await.is_err());
    assert_eq!(place.text("renamed/this/steps.jsonl"), "{}\n");
    assert!(!place.root().join("renamed/new").exists());
    call_beside(
        &write,
        json!({"path": "own.txt", "text": "{}\n"}),
        &off_limits,
    )
    .await
    .unwrap();

    let search = Search::new(place.workspace.clone());
    let found = call_beside(&search, json!({"pattern": "[{]"}), &off_limits)
        .await
        .unwrap();
    assert_eq!(
        found.hits.iter().map(|hit| &*hit.path).collect::<Vec<_>>(),
        ["own.txt"]
    );
    let named = call_beside(
        &search,
        json!({"pattern": "[{]", "path": "renamed"}),
        &off_limits,
    )
    .await
    .unwrap();
    assert_eq!(
        named.hits.len(),
        1,
        "only `other`: a record may be searched if it is named: {named:?}"
    );
    let listed = call_beside(
        &ListDir::new(place.workspace.clone()),
        json!({}),
        &off_limits,
    )
    .await
    .unwrap();
    let names: Vec<_> = listed.entries.iter().map(|entry| &*entry.name).collect();
    assert_eq!(
        names,
        ["alias", "line", "own.txt", "runs"],
        "the links are listed, the directory is skipped"
    );
}

#[tokio::test]
async fn a_workspace_below_the_records_is_a_workspace() {
    let place = Place::new();
    let off_limits = OffLimits::new([place.root().parent().unwrap(), place.root()]);
    let write = WriteFile::new(place.workspace.clone());
    call_beside(
        &write,
        json!({"path": "dir/own.txt", "text": "mine"}),
        &off_limits,
    )
    .await
    .unwrap();
    assert_eq!(place.text("dir/own.txt"), "mine");
}

#[tokio::test]
async fn an_absolute_path_into_the_workspace_is_understood() {
    let place = Place::new();
    place.write("dir/file", "x\n");
    let absolute = place.root().join("dir/file").display().to_string();
    let read = call(
        &ReadFile::new(place.workspace.clone(), 1000),
        json!({"path": absolute}),
    )
    .await
    .unwrap();
    assert_eq!(read.text, "x\n");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_comes_and_goes_leads_nowhere() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let place = Place::new();
    place.write("dir/secret.txt", "harmless\n");
    symlink(place.outside(), place.root().join("link")).unwrap();
    // `dir` alternates between the directory and the link, and is never missing.
    let over = Arc::new(AtomicBool::new(false));
    let (a, b, until) = (
        place.root().join("dir"),
        place.root().join("link"),
        over.clone(),
    );
    let swapper = std::thread::spawn(move || {
        while !until.load(Ordering::Relaxed) {
            renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
        }
    });
    let read = ReadFile::new(place.workspace.clone(), 1000);
    let write = WriteFile::new(place.workspace.clone());
    for _ in 0..500 {
        if let Ok(lines) = call(&read, json!({"path": "dir/secret.txt"})).await {
            assert_eq!(lines.text, "harmless\n");
        }
        let _ = call(&write, json!({"path": "dir/new.txt", "text": "x"})).await;
    }
    over.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    let outside: Vec<_> = fs::read_dir(place.outside())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(outside, ["secret.txt"]);
}
