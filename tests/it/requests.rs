//! Tests that the board is safe from any client that can connect. Raw bytes on local sockets get
//! the right status or a closed connection, nothing outside the root is ever returned, and the
//! board keeps serving.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use crate::board::{BINARY, Board};
use crate::disk::{copy, corpus};
use crate::http::request;
#[cfg(target_os = "linux")]
use crate::memory;
use crate::wait::{DEADLINE, until};

/// The contents of a file outside the root, which must never be in a response.
const CANARY: &str = "canary-3f9a-beside-the-root";

/// A board over one run, and a secret outside its root.
fn guarded() -> (tempfile::TempDir, Board) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("runs");
    copy(&corpus().join("q060/q060_handoff"), &root.join("a"));
    fs::write(
        dir.path().join("manifest.json"),
        format!("{{\"task\": \"{CANARY}\"}}\n"),
    )
    .unwrap();
    fs::create_dir(dir.path().join("beside")).unwrap();
    fs::write(
        dir.path().join("beside/manifest.json"),
        format!("{{\"task\": \"{CANARY}\"}}\n"),
    )
    .unwrap();
    let board = Board::serve(&root);
    board.until_read();
    (dir, board)
}

/// Sends `bytes` and returns everything received until the connection closes.
fn say(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    // The board may refuse the request before reading all of it.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert_eq!(
            error.kind(),
            ErrorKind::ConnectionReset,
            "{:?}",
            String::from_utf8_lossy(bytes)
        ),
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// A request that asks to close the connection.
fn closing(line: &str, more: &str) -> Vec<u8> {
    format!("{line}\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n").into_bytes()
}

/// The status codes in a response stream, in order.
fn statuses(answer: &str) -> Vec<u16> {
    answer
        .split("HTTP/1.")
        .skip(1)
        .filter_map(|rest| rest.get(2..5)?.parse().ok())
        .collect()
}

#[test]
fn no_spelling_of_an_address_leads_out_of_the_root() {
    let (dir, board) = guarded();
    let absolute = dir
        .path()
        .join("beside")
        .display()
        .to_string()
        .replace('/', "%2F");
    let ups = [
        "..",
        "../",
        "../beside",
        "..%2fbeside",
        "%2e%2e%2fbeside",
        "%2e%2e/beside",
        "..%252fbeside",
        "%252e%252e%252fbeside",
        "..%5cbeside",
        "..\\beside",
        "%c0%ae%c0%ae%c0%afbeside",
        "..%c0%afbeside",
        "%uff0e%uff0e%u2215beside",
        "..%00/beside",
        "a%2f..%2f..%2fbeside",
        "a/../../beside",
        "a%00",
        "./a/../../beside",
        "%2fetc%2fpasswd",
        "....//beside",
        "..;/beside",
        "a%2F%2E%2E%2F%2E%2E%2Fbeside",
        "file:%2f%2f%2fetc%2fpasswd",
        "%ff%fe",
        "%",
        "%2",
        "%zz",
    ];
    let mut tried = 0;
    for up in ups.into_iter().chain([absolute.as_str()]) {
        for place in [
            "/runs/{}",
            "/runs/{}/steps/0",
            "/runs/{}/manifest/raw",
            "/api/runs/{}",
            "/api/runs/{}/raw",
            "/static/0/{}",
            "/{}",
            "/runs/a/steps/0/assets/{}",
            "http://localhost/runs/{}/manifest/raw",
        ] {
            let answer = say(
                board.address,
                &closing(&format!("GET {} HTTP/1.1", place.replace("{}", up)), ""),
            );
            assert!(
                !answer.contains(CANARY) && !answer.contains("root:"),
                "{place} {up}: {answer}"
            );
            let status = statuses(&answer);
            assert!(
                matches!(status[..], [400 | 404]),
                "{place} {up}: {status:?}"
            );
            tried += 1;
        }
    }
    assert_eq!(tried, 28 * 9);
    for query in ["?a=..%2Fbeside&b=a", "?run=..%2Fbeside&run=a"] {
        for page in ["/compare", "/api/compare", "/scores", "/compare/replay"] {
            let answer = say(
                board.address,
                &closing(&format!("GET {page}{query} HTTP/1.1"), ""),
            );
            assert!(!answer.contains(CANARY), "{page}{query}: {answer}");
        }
    }
    assert_eq!(board.get("/runs/a").status, 200);
}

#[test]
fn a_name_that_is_pointed_at_this_machine_gets_nothing() {
    let (_dir, board) = guarded();
    let port = board.address.port();
    let evil = format!("evil.example:{port}");
    let own = format!("127.0.0.1:{port}");
    for (head, status) in [
        (format!("GET / HTTP/1.1\r\nHost: {evil}\r\n"), 421),
        (
            format!(
                "GET /api/runs HTTP/1.1\r\nHost: {evil}\r\nX-Forwarded-Host: {own}\r\nForwarded: host={own}\r\n"
            ),
            421,
        ),
        (
            format!("GET http://{evil}/ HTTP/1.1\r\nHost: {own}\r\n"),
            421,
        ),
        (
            format!("GET http://{own}/ HTTP/1.1\r\nHost: {evil}\r\n"),
            421,
        ),
        (
            format!("GET http://{own}@{evil}/ HTTP/1.1\r\nHost: {own}\r\n"),
            421,
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: {own}\r\nHost: {evil}\r\n"),
            400,
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: {own}\r\nHost: {own}\r\n"),
            400,
        ),
        (format!("GET / HTTP/1.1\r\nHost: {own}, {evil}\r\n"), 421),
        ("GET / HTTP/1.1\r\nHost:\r\n".to_owned(), 421),
        ("GET / HTTP/1.1\r\n".to_owned(), 421),
        (format!("CONNECT {evil} HTTP/1.1\r\nHost: {evil}\r\n"), 405),
        (
            format!("GET / HTTP/1.1\r\nHost: {own}\r\nOrigin: http://{evil}\r\n"),
            403,
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: {own}\r\nOrigin: null\r\n"),
            403,
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: {own}\r\nOrigin: http://127.0.0.1:1\r\n"),
            403,
        ),
        (
            format!(
                "GET / HTTP/1.1\r\nHost: {own}\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n"
            ),
            403,
        ),
        (
            format!(
                "GET / HTTP/1.1\r\nHost: {own}\r\nOrigin: http://{own}\r\nX-Forwarded-Host: {evil}\r\n"
            ),
            200,
        ),
        (
            format!("GET http://{own}/ HTTP/1.1\r\nHost: {own}\r\n"),
            200,
        ),
    ] {
        let answer = say(
            board.address,
            format!("{head}Connection: close\r\n\r\n").as_bytes(),
        );
        assert_eq!(statuses(&answer), [status], "{head}");
        // Neither runs nor directories are revealed to another site.
        assert!(
            status == 200 || !answer.contains("/tmp/") && !answer.contains("handoff"),
            "{head}{answer}"
        );
    }
}

#[test]
fn only_get_and_head_are_understood_and_no_body_is_taken() {
    let (_dir, board) = guarded();
    for method in [
        "POST", "PUT", "DELETE", "TRACE", "OPTIONS", "get", "GETS", "PROPFIND",
    ] {
        let answer = say(
            board.address,
            &closing(
                &format!("{method} / HTTP/1.1"),
                "X-HTTP-Method-Override: GET\r\n",
            ),
        );
        assert_eq!(statuses(&answer), [405], "{method}");
    }
    let answer = say(
        board.address,
        &closing("GET / HTTP/1.1", "X-HTTP-Method-Override: DELETE\r\n"),
    );
    assert_eq!(statuses(&answer), [200]);
    // A request's body is never parsed as another request.
    let hidden = "GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (more, body) in [
        (
            format!("Content-Length: {}\r\n", hidden.len()),
            hidden.to_owned(),
        ),
        (
            "Transfer-Encoding: chunked\r\n".to_owned(),
            format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len()),
        ),
        (
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n".to_owned(),
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n".to_owned(),
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "Transfer-Encoding: identity\r\n".to_owned(),
            hidden.to_owned(),
        ),
        (
            "Content-Length: 5\r\nContent-Length: 6\r\n".to_owned(),
            hidden.to_owned(),
        ),
        ("Content-Length: -1\r\n".to_owned(), hidden.to_owned()),
        (
            "Content-Length: 999999999999\r\nExpect: 100-continue\r\n".to_owned(),
            String::new(),
        ),
    ] {
        let answer = say(
            board.address,
            &[closing("GET / HTTP/1.1", &more), body.into_bytes()].concat(),
        );
        assert!(
            statuses(&answer).iter().all(|status| *status == 400),
            "{more}{answer}"
        );
        assert!(!answer.contains("/hidden"), "{more}{answer}");
    }
    assert_eq!(board.get("/").status, 200);
}

#[test]
fn bytes_that_are_no_request_end_only_their_own_connection() {
    let (_dir, board) = guarded();
    let noise: Vec<u8> = (0..20_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let many = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        "X: y\r\n".repeat(1_000)
    );
    let large = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "y".repeat(200_000)
    );
    let long = format!(
        "GET /?q={} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "q".repeat(40_000)
    );
    let longer = format!(
        "GET /?q={} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "q".repeat(2_000_000)
    );
    for (bytes, allowed) in [
        (
            &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
            &[400_u16][..],
        ),
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
            &[400],
        ),
        (b"GET /\r\n\r\n", &[400]),
        (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", &[400]),
        (
            b"GET / HTTP/1.1\nHost: localhost\nConnection: close\n\n",
            &[200, 400],
        ),
        (
            b"GET  / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            &[400],
        ),
        (b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", &[400]),
        (
            b"GET / HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n",
            &[400],
        ),
        (b"GET / HTTP/1.1\r\nHost: local\0host\r\n\r\n", &[400]),
        (
            b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            &[400, 404],
        ),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n\r\n", &[400]),
        (&noise, &[400]),
        (many.as_bytes(), &[431]),
        (large.as_bytes(), &[431]),
        (long.as_bytes(), &[414]),
        (longer.as_bytes(), &[414, 431]),
    ] {
        let shown = String::from_utf8_lossy(bytes.get(..60).unwrap_or(bytes)).into_owned();
        let status = statuses(&say(board.address, bytes));
        assert!(
            status.iter().all(|status| allowed.contains(status)) && status.len() <= 1,
            "{shown:?}: {status:?}"
        );
    }
    assert_eq!(board.get("/").status, 200);
}

#[test]
fn requests_in_one_go_are_answered_in_order() {
    let (_dir, board) = guarded();
    let mut all = Vec::new();
    for n in 0..200 {
        all.extend_from_slice(
            format!("GET /nothing-{n} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes(),
        );
    }
    all.extend(closing("GET /healthz HTTP/1.1", ""));
    let answer = say(board.address, &all);
    let statuses = statuses(&answer);
    assert_eq!(
        (
            statuses.len(),
            statuses.iter().filter(|status| **status == 404).count(),
            statuses.last()
        ),
        (201, 200, Some(&200))
    );
    let places: Vec<_> = (0..200)
        .map(|n| answer.find(&format!("<code>/nothing-{n}</code>")))
        .collect();
    assert!(places.is_sorted() && places.iter().all(Option::is_some));
}

#[test]
fn a_part_of_an_answer_is_not_to_be_had() {
    let (_dir, board) = guarded();
    let whole = board.get("/api/runs/a/raw");
    for range in [
        "bytes=0-0",
        "bytes=-1",
        "bytes=0-,0-,0-,0-",
        "bytes=99999999999999999999-",
        "lines=1",
    ] {
        let answer = request(board.address, "GET", "/api/runs/a/raw", &[("Range", range)]);
        assert_eq!(
            (answer.status, answer.body.len()),
            (200, whole.body.len()),
            "{range}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn thousands_of_connections_are_held_while_others_are_served() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    )
    .unwrap();
    let room = maximum.is_none_or(|files| files > 5_000);
    let count = if room {
        2_000
    } else {
        current.unwrap_or(256) as usize / 4
    };
    let (_dir, board) = guarded();
    let memory_kib = || memory::now_kib(board.pid()).expect("Linux tells it");
    let before = memory_kib();
    let half = b"GET / HTTP/1.1\r\nHost: localhost\r\n";
    let mut held = Vec::new();
    for n in 0..count {
        let mut stream = TcpStream::connect(board.address).unwrap();
        // Half of the connections send nothing, the others half of a request.
        if n % 2 == 0 {
            stream.write_all(half).unwrap();
        }
        held.push(stream);
    }
    assert_eq!(board.get("/").status, 200);
    let more = memory_kib().saturating_sub(before);
    assert!(
        more < 200 << 10,
        "{} MiB for {count} connections",
        more >> 10
    );
    // These exceed the board's limit, so they just wait.
    for _ in 0..count / 20 {
        held.push(TcpStream::connect(board.address).unwrap());
    }
    drop(held);
    assert_eq!(board.get("/runs/a").status, 200);
}

#[cfg(target_os = "linux")]
#[test]
fn a_board_with_few_descriptors_goes_on() {
    let (dir, _) = guarded();
    let root = dir.path().join("runs");
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -n 40 && exec \"$@\"", "sh", BINARY, "serve"])
        .arg(&root)
        .args(["--no-cache", "--port", "0"]);
    let board = Board::spawn(command, &root);
    board.until_read();
    for _ in 0..3 {
        let held: Vec<_> = (0..100)
            .map(|_| TcpStream::connect(board.address).unwrap())
            .collect();
        drop(held);
        assert_eq!(board.get("/runs/a").status, 200);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_board_with_too_few_descriptors_says_so() {
    let dir = tempfile::tempdir().unwrap();
    for files in [6, 8, 10, 20] {
        let script = format!("ulimit -n {files} && exec \"$@\"");
        let run = Command::new("sh")
            .args(["-c", &script, "sh", BINARY, "serve"])
            .arg(dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(3), "{files}: {said}");
        assert!(
            said.contains(&format!("only {files} open files")) && said.contains("hint: "),
            "{said}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn readers_that_never_read_hold_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("big");
    fs::create_dir(&run).unwrap();
    // Many lines of the maximum length that is read whole.
    let line = format!(
        "{{\"step_id\": 0, \"decision\": {{}}, \"x\": \"{}\"}}\n",
        "y".repeat((8 << 20) - 100)
    );
    fs::write(run.join("steps.jsonl"), line.repeat(12)).unwrap();
    let board = Board::serve(dir.path());
    board.until_read();
    let memory_kib = || memory::now_kib(board.pid()).expect("Linux tells it");
    let before = memory_kib();
    let open = |path: &str| {
        let mut stream = TcpStream::connect(board.address).unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
            .unwrap();
        // The response has started once its first byte arrives. The rest is left unread.
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.peek(&mut [0]).unwrap();
        stream
    };
    let silent: Vec<_> = (0..8).map(|_| open("/api/runs/big/raw")).collect();
    let streams: Vec<_> = (0..200).map(|_| open("/events")).collect();
    // Each change is announced to all of them.
    for n in 0..100 {
        fs::write(
            run.join("manifest.json"),
            format!("{{\"run_id\": \"big\", \"n\": {n}}}"),
        )
        .unwrap();
        let _ = board.json("/healthz");
    }
    assert_eq!(board.get("/").status, 200);
    let more = memory_kib().saturating_sub(before);
    // About one line for each of the eight.
    assert!(more < 160 << 10, "{} MiB", more >> 10);
    drop((silent, streams));
}

#[cfg(target_os = "linux")]
#[test]
fn a_line_and_a_manifest_of_any_length_are_sent_in_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("big");
    fs::create_dir(&run).unwrap();
    let text = format!(
        "{{\"step_id\": 0, \"decision\": {{}}, \"x\": \"{}\"}}",
        "y".repeat(60 << 20)
    );
    fs::write(run.join("steps.jsonl"), format!("{text}\n")).unwrap();
    let board = Board::serve(dir.path());
    board.until_read();
    // Measured after the board has read as much of such a file as it ever does.
    let before = memory::now_kib(board.pid()).expect("Linux tells it");
    let silent: Vec<_> = (0..12)
        .map(|_| {
            let mut stream = TcpStream::connect(board.address).unwrap();
            stream
                .write_all(b"GET /runs/big/steps/0/raw HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .unwrap();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.peek(&mut [0]).unwrap();
            stream
        })
        .collect();
    let raw = board.json("/api/runs/big/raw");
    assert_eq!(raw["steps"], serde_json::json!([{"too_long": text.len()}]));
    for path in [
        "/runs/big",
        "/runs/big/steps/0",
        "/api/runs/big",
        "/api/runs/big/state/0",
        "/runs/big?tab=manifest",
    ] {
        assert_eq!(board.get(path).status, 200, "{path}");
    }
    let whole = board.get("/runs/big/steps/0/raw");
    assert!(
        whole.body == text.as_bytes(),
        "{} of {} bytes",
        whole.body.len(),
        text.len()
    );
    let most = memory::most_kib(board.pid()).expect("Linux tells it");
    assert!(
        most.saturating_sub(before) < 64 << 10,
        "{} MiB more",
        most.saturating_sub(before) >> 10
    );
    drop(silent);
}

/// A board on all interfaces of this machine, which generates a token unless `token` is set. `more`
/// is passed to the command.
fn open_to_all(root: &Path, more: &[&str], token: Option<&str>) -> Board {
    let mut command = Command::new(BINARY);
    command
        .arg("serve")
        .arg(root)
        .args(["--no-cache", "--port", "0"])
        .args(more)
        .env_remove("BOARD_TOKEN");
    if let Some(token) = token {
        command.env("BOARD_TOKEN", token);
    }
    let mut board = Board::spawn(command, root);
    board.address = SocketAddr::from(([127, 0, 0, 1], board.address.port()));
    board
}

#[test]
fn a_board_that_others_can_reach_makes_a_token_and_prints_it() {
    let (dir, _) = guarded();
    let root = dir.path().join("runs");
    let board = open_to_all(&root, &["--host", "0.0.0.0"], None);
    let port = board.address.port();
    let second = until("the second line", || {
        board.said().lines().find_map(|line| {
            line.split_once("board: open ")
                .map(|(_, url)| url.to_owned())
        })
    });
    let url = second
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once("/?token="));
    let (address, token) = url.unwrap_or_else(|| panic!("{second}"));
    // An address that a browser can open, on this machine and elsewhere.
    let printed: SocketAddr = address.parse().unwrap();
    assert_eq!(
        (printed.port(), printed.ip().is_unspecified()),
        (port, false),
        "{second}"
    );
    assert_eq!(request(printed, "GET", "/healthz", &[]).status, 401);
    assert_eq!(token.len(), 32);
    for path in ["/", "/api/runs", "/healthz", "/events"] {
        assert_eq!(board.get(path).status, 401, "{path}");
    }
    let welcome = board.get(&format!("/?token={token}"));
    assert_eq!((welcome.status, welcome.header("location")), (303, "/"));
    let cookie = welcome
        .header("set-cookie")
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    // The board may not have found its runs yet.
    let page = || request(board.address, "GET", "/runs/a", &[("Cookie", &cookie)]);
    until("the cookie opens the run", || {
        (page().status == 200).then_some(())
    });
    let bearer = format!("Bearer {token}");
    assert_eq!(
        request(
            board.address,
            "GET",
            "/api/runs",
            &[("Authorization", &bearer)]
        )
        .status,
        200
    );
    assert_eq!(
        request(
            board.address,
            "GET",
            "/",
            &[("Authorization", &bearer), ("Host", "box.example")]
        )
        .status,
        200
    );
    // The token is printed once, and appears nowhere else.
    assert_eq!(board.said().matches(token).count(), 1, "{}", board.said());
    let again = Command::new(BINARY)
        .arg("serve")
        .arg(&root)
        .args(["--port", &port.to_string()])
        .output()
        .unwrap();
    assert_eq!(again.status.code(), Some(3));
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("another board is already running there"),
        "{again:?}"
    );
}

#[test]
fn a_given_token_is_asked_for_and_never_printed() {
    let (dir, _) = guarded();
    let root = dir.path().join("runs");
    let token = "given-by-the-person";
    for (more, env) in [
        (&["--token", token][..], None),
        (&[], Some(token)),
        (&["--token", token], Some("another-one-of-them")),
    ] {
        let board = open_to_all(&root, more, env);
        assert_eq!(board.get("/").status, 401, "{more:?}");
        let bearer = format!("Bearer {token}");
        assert_eq!(
            request(
                board.address,
                "GET",
                "/api/runs",
                &[("Authorization", &bearer)]
            )
            .status,
            200,
            "{more:?}"
        );
        assert!(!board.said().contains(token), "{}", board.said());
    }
    // A loopback address needs no token, however it's spelled.
    for host in ["127.0.0.1", "localhost", "127.0.0.2"] {
        let mut command = Command::new(BINARY);
        command
            .arg("serve")
            .arg(&root)
            .args(["--no-cache", "--port", "0", "--host", host])
            .env_remove("BOARD_TOKEN");
        let output = command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn();
        let mut child = output.unwrap();
        let mut first = [0; 64];
        let read = child.stdout.take().unwrap().read(&mut first).unwrap();
        let line = String::from_utf8_lossy(&first[..read]).into_owned();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(
            line.starts_with("board: listening on http://") && !line.contains("token"),
            "{line}"
        );
    }
}

#[test]
fn a_token_that_can_be_guessed_is_refused_and_not_repeated() {
    for (args, env) in [
        (&["--token", "hunter2"][..], None),
        (&[], Some("hunter2")),
        (&["--token", "hunter2 hunter2 hunter2"], None),
    ] {
        let mut command = Command::new(BINARY);
        command
            .args(["serve", ".", "--port", "0"])
            .args(args)
            .env_remove("BOARD_TOKEN")
            .env("NO_COLOR", "1");
        if let Some(token) = env {
            command.env("BOARD_TOKEN", token);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            output.stdout.is_empty()
                && said.starts_with("board: the token ")
                && said.contains("hint: "),
            "{said}"
        );
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn half_a_connection_is_no_trouble() {
    let (_dir, board) = guarded();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(board.address).unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        stream.shutdown(Shutdown::Read).unwrap();
        drop(stream);
    }
    assert_eq!(board.get("/").status, 200);
}
