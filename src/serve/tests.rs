use std::sync::{Arc, Condvar, Mutex};

use tokio::sync::watch;

use crate::live::Library;
use std::path::Path;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use crate::serve::*;

/// Requests `path` from a board over `root`. Returns the status, the content type and the body.
async fn ask(root: &Path, path: &str) -> (StatusCode, String, String) {
    let library = Library::load(vec![root.to_owned()]);
    let (_stop, stopping) = watch::channel(false);
    let router = router(
        AppState::new(Arc::new(library), "localhost", stopping),
        None,
    );
    let request = Request::get(path)
        .header("host", "localhost")
        .body(Body::empty())
        .unwrap();
    let response = router.oneshot(request).await.unwrap();
    let kind = response.headers()["content-type"]
        .to_str()
        .unwrap()
        .to_owned();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, kind, String::from_utf8(body.to_vec()).unwrap())
}

/// Before the first scan, a run may exist that isn't known. The time of the wait passes at once.
#[tokio::test(start_paused = true)]
async fn a_run_is_awaited_and_then_not_read_yet_before_the_first_scan() {
    let root = tempfile::tempdir().unwrap();
    let library = Library::unscanned(&[root.path().to_owned()]);
    let (_stop, stopping) = watch::channel(false);
    let router = router(
        AppState::new(Arc::new(library), "localhost", stopping),
        None,
    );
    for path in ["/runs/a", "/api/runs/a/steps", "/compare?a=a&b=b"] {
        let begun = tokio::time::Instant::now();
        let request = Request::get(path)
            .header("host", "localhost")
            .body(Body::empty())
            .unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert_eq!(response.headers()["retry-after"], "2", "{path}");
        let waited = begun.elapsed().as_secs();
        assert!((5..7).contains(&waited), "{path}: {waited} s");
    }
    assert_eq!(ask(root.path(), "/runs/a").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn every_error_below_api_is_a_problem_document() {
    let root = tempfile::tempdir().unwrap();
    for path in [
        "/api",
        "/api/",
        "/api/x",
        "/api//runs",
        "/api/runs/",
        "/api/runs/%FF",
        "/api/runs/..%2F..%2Fetc",
    ] {
        let (status, kind, _) = ask(root.path(), path).await;
        assert_eq!(
            (status, kind.as_str()),
            (StatusCode::NOT_FOUND, "application/problem+json"),
            "{path}"
        );
    }
    for path in [
        "/apix",
        "/runs/..%2F..%2Fetc",
        "/runs/%FF",
        "/static/0/../etc",
    ] {
        let (status, kind, _) = ask(root.path(), path).await;
        assert_eq!(
            (status, kind.as_str()),
            (StatusCode::NOT_FOUND, "text/html; charset=utf-8"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_board_that_gets_no_news_says_so() {
    let root = tempfile::tempdir().unwrap();
    write_old_run(root.path(), "a");
    let library = Arc::new(Library::load(vec![root.path().to_owned()]));
    let run = library.run("a").unwrap().revision();
    let (_stop, stopping) = watch::channel(false);
    let router = router(
        AppState::new(Arc::clone(&library), "localhost", stopping),
        None,
    );
    let ask = async |path: &str| {
        let request = Request::get(path)
            .header("host", "localhost")
            .body(Body::empty())
            .unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    let (status, body) = ask("/healthz").await;
    assert_eq!(
        (status, body.contains("\"status\":\"ok\"")),
        (StatusCode::OK, true),
        "{body}"
    );
    const SAID: &str = "not up to date";
    const PAGES: [&str; 5] = [
        "/runs/a",
        "/runs/a?tab=state",
        "/runs/a/live",
        "/runs/a/whatif",
        "/runs/a/scores",
    ];
    for page in PAGES {
        assert!(!ask(page).await.1.contains(SAID), "{page}");
    }
    assert!(!run.has_changed().unwrap());
    library.stall("no progress for more than 10 s: a/b");
    assert!(
        run.has_changed().unwrap(),
        "followers of the run are notified"
    );
    for page in PAGES {
        let (_, html) = ask(page).await;
        assert!(
            html.contains(SAID) && html.contains("no progress for more than 10 s: a/b"),
            "{page}: {html}"
        );
    }
    let (status, body) = ask("/healthz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
    assert!(
        body.contains("\"status\":\"stalled\"") && body.contains("more than 10 s: a/b"),
        "{body}"
    );
    let (_, page) = ask("/").await;
    assert!(
        page.contains("not up to date: no progress for more than 10 s: a/b"),
        "{page}"
    );
}

#[tokio::test]
async fn directories_that_are_no_runs_are_counted_and_the_first_are_named() {
    let root = tempfile::tempdir().unwrap();
    for n in 0..300 {
        std::fs::create_dir(root.path().join(format!("no-run-{n}"))).unwrap();
    }
    let (_, _, body) = ask(root.path(), "/api/runs?limit=1").await;
    let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (
            answer["skipped"].as_array().unwrap().len(),
            &answer["skipped_total"]
        ),
        (100, &300.into())
    );
}

#[tokio::test]
async fn a_line_that_is_not_parsed_costs_no_page() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("a")).unwrap();
    let line = format!(
        "{{\"step_id\": 0, \"decision\": {{}}, \"x\": \"{}\"}}\n",
        "y".repeat(9 << 20)
    );
    std::fs::write(root.path().join("a/steps.jsonl"), line).unwrap();
    for (path, words) in [
        ("/runs/a", "more than"),
        ("/runs/a/steps/0", "more than board can parse"),
        (
            "/runs/a/steps/0/value?at=%2Fx",
            "The line is longer than board parses.",
        ),
    ] {
        let (_, _, body) = ask(root.path(), path).await;
        assert!(body.len() < 100_000, "{path}");
        assert!(body.contains(words), "{path}: {words}");
        assert!(body.contains("/runs/a/steps/0/raw"), "{path}");
    }
}

/// Writes a run that ended an hour ago, so that board parks it.
fn write_old_run(root: &Path, key: &str) {
    let dir = root.join(key);
    std::fs::create_dir(&dir).unwrap();
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    for (file, text) in [
        (
            "manifest.json",
            "{\"run_id\": \"a\", \"schema_version\": \"v1\", \"status\": \"completed\", \"summary\": {}}",
        ),
        ("steps.jsonl", "{\"step_id\": 0}\n"),
        ("events.jsonl", "{\"phase\": \"END\"}\n"),
    ] {
        std::fs::write(dir.join(file), text).unwrap();
        std::fs::File::options()
            .append(true)
            .open(dir.join(file))
            .unwrap()
            .set_modified(hour_ago)
            .unwrap();
    }
}

#[tokio::test]
async fn lists_of_changed_files_wait_for_each_other_and_no_other_page_does() {
    let root = tempfile::tempdir().unwrap();
    write_old_run(root.path(), "a");
    let (_stop, stopping) = watch::channel(false);
    let state = AppState::new(
        Arc::new(Library::load(vec![root.path().to_owned()])),
        "localhost",
        stopping,
    );
    let router = router(state.clone(), None);
    let ask = |path: &'static str| {
        let request = Request::get(path)
            .header("host", "localhost")
            .body(Body::empty())
            .unwrap();
        let router = router.clone();
        async move { router.oneshot(request).await.unwrap().status() }
    };
    let mut turns = Vec::new();
    for _ in 0..crate::page::app::MAX_WALKS {
        turns.push(state.walk().await.unwrap());
    }
    let lists = ["/runs/a?tab=files", "/api/runs/a/files"].map(|path| tokio::spawn(ask(path)));
    for page in ["/runs/a", "/runs/a?tab=events", "/"] {
        assert_eq!(ask(page).await, StatusCode::OK, "{page}");
    }
    assert!(lists.iter().all(|list| !list.is_finished()));
    drop(turns);
    for list in lists {
        assert_eq!(list.await.unwrap(), StatusCode::OK);
    }
}

#[cfg(feature = "cloud")]
#[tokio::test]
async fn an_answer_that_began_ends_with_the_files_that_it_began_with_and_what_never_came_is_named()
{
    use std::time::Duration;

    use crate::live::Options;
    use crate::mirror::fake::{Fake, settled};

    let (store, cache, root) = (
        Fake::new(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let put = |key: &str, hours: u32| {
        write_old_run(root.path(), key);
        for file in ["manifest.json", "events.jsonl", "steps.jsonl"] {
            store.put_at(
                &format!("runs/{key}/{file}"),
                &std::fs::read(root.path().join(key).join(file)).unwrap(),
                hours,
            );
        }
    };
    put("a", 1);
    let size = std::fs::read_dir(root.path().join("a")).unwrap();
    let size: u64 = size
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    let mirror = Arc::new(store.follow(Some(cache.path()), size + 20));
    settled(&mirror);
    let options = Options {
        poll: Some(Duration::from_millis(20)),
        mirrors: vec![Arc::clone(&mirror)],
        ..Options::default()
    };
    let library = Arc::new(Library::open(vec![mirror.dir().to_owned()], options));
    let known = async |key: &str| {
        let mut news = library.revision();
        while library
            .run(key)
            .is_none_or(|run| !run.is_known() || run.summary().partial)
        {
            news.changed().await.unwrap();
        }
        library.run(key).unwrap()
    };
    let run = known("a").await;
    // Add a newer run that doesn't fit next to `a`, and one that exceeds the whole cache.
    put("b", 2);
    store.put_at("runs/large/x.jsonl", &vec![b'x'; size as usize + 21], 3);
    settled(&mirror);
    known("b").await;
    assert!(run.is_evicted());
    let (_stop, stopping) = watch::channel(false);
    let router = router(
        AppState::new(Arc::clone(&library), "localhost", stopping),
        None,
    );
    let ask = |path: &str| {
        let request = Request::get(path)
            .header("host", "localhost")
            .body(Body::empty())
            .unwrap();
        let router = router.clone();
        async move { router.oneshot(request).await.unwrap() }
    };
    let answer = ask("/runs/a/export.html").await;
    assert_eq!(answer.status(), StatusCode::OK);
    // Opening `b` would evict `a`.
    let other = ask("/api/runs/b").await;
    let status = other.status();
    let other = other.into_body().collect().await.unwrap().to_bytes();
    let other = String::from_utf8_lossy(&other);
    // The cache can't hold both, so `b` either loads or is reported as missing.
    assert!(
        status == StatusCode::OK || other.contains("Not available locally"),
        "{status} {other}"
    );
    settled(&mirror);
    assert!(
        !run.is_evicted() && run.dir().has_files(),
        "the response may still read it"
    );
    let page = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(
        page.ends_with(b"</html>\n") || page.ends_with(b"</html>"),
        "the response is complete"
    );

    for path in ["/healthz", "/api/runs"] {
        let body = ask(path)
            .await
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(
            body.contains("large/x.jsonl") && body.contains("exceed the cache limit"),
            "{path}: {body}"
        );
    }
}

#[tokio::test]
async fn one_reader_of_many_downloads_keeps_nobody_from_the_board() {
    use crate::page::{app::MAX_DOWNLOADS, turns::MAX_WAITING};
    let root = tempfile::tempdir().unwrap();
    write_old_run(root.path(), "a");
    let (_stop, stopping) = watch::channel(false);
    let state = AppState::new(
        Arc::new(Library::load(vec![root.path().to_owned()])),
        "localhost",
        stopping,
    );
    let router = router(state.clone(), None);
    let ask = |path: &'static str| {
        let request = Request::get(path)
            .header("host", "localhost")
            .body(Body::empty())
            .unwrap();
        let router = router.clone();
        async move { router.oneshot(request).await.unwrap().status() }
    };
    // Stalled readers hold every turn, and there are more requests than responses that may be held.
    let mut turns = Vec::new();
    for _ in 0..MAX_DOWNLOADS {
        turns.push(state.downloads.take().await.unwrap());
    }
    let downloads: Vec<_> = (0..300).map(|_| tokio::spawn(ask("/runs.csv"))).collect();
    for page in ["/", "/runs/a", "/api/runs"] {
        assert_eq!(ask(page).await, StatusCode::OK, "{page}");
    }
    // Requests beyond the waiting limit are refused.
    while downloads
        .iter()
        .filter(|download| !download.is_finished())
        .count()
        > MAX_WAITING
    {
        tokio::task::yield_now().await;
    }
    drop(turns);
    let mut done = 0;
    for download in downloads {
        done += usize::from(download.await.unwrap() == StatusCode::OK);
    }
    assert_eq!(done, MAX_WAITING);
}

#[test]
fn requests_that_wait_for_runs_to_be_read_hold_neither_threads_nor_places() {
    /// Whether reads of run files may proceed, and the signal that this changed.
    static GATE: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
    const RUNS: usize = 14;
    let root = tempfile::tempdir().unwrap();
    (0..RUNS).for_each(|n| write_old_run(root.path(), &format!("r{n}")));
    let library = Arc::new(Library::load(vec![root.path().to_owned()]));
    for run in library.runs() {
        assert!(run.is_parked());
        run.set_fault(|| drop(GATE.1.wait_while(GATE.0.lock().unwrap(), |open| !*open)));
    }
    let (_stop, stopping) = watch::channel(false);
    let router = router(AppState::new(library, "localhost", stopping), None);
    let ask = move |path: String| {
        let request = Request::get(path)
            .header("host", "localhost")
            .body(Body::empty())
            .unwrap();
        let router = router.clone();
        async move {
            let response = router.oneshot(request).await.unwrap();
            let status = response.status();
            response.into_body().collect().await.unwrap();
            status
        }
    };
    // One more than the threads that reload runs.
    let threads = crate::page::app::MAX_RELOADS + 1;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(threads)
        .build();
    runtime.unwrap().block_on(async {
        let addresses = |n: usize| match n % 4 {
            0 => format!("/runs/r{}", n % RUNS),
            1 => format!("/api/runs/r{}/steps", n % RUNS),
            2 => format!("/compare?a=r{}&b=r{}", n % RUNS, (n + 1) % RUNS),
            _ => format!("/scores?run=r{}&run=r{}", n % RUNS, (n + 3) % RUNS),
        };
        let waiting: Vec<_> = (0..560).map(|n| tokio::spawn(ask(addresses(n)))).collect();
        // Aborted requests must not leave anything that accumulates.
        for n in 0..560 {
            let leaving = tokio::spawn(ask(addresses(n)));
            tokio::task::yield_now().await;
            leaving.abort();
        }
        assert_eq!(ask("/".to_owned()).await, StatusCode::OK);
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        *GATE.0.lock().unwrap() = true;
        GATE.1.notify_all();
        for answer in waiting {
            assert_eq!(answer.await.unwrap(), StatusCode::OK);
        }
    });
}
