use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;

use crate::live::Library;
use crate::page::app::AppState;
use crate::serve::listen::connections::connection_pool::in_turn;
use crate::serve::listen::connections::*;

/// A generous timeout. Everything the tests wait for happens much sooner.
const DEADLINE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_millis(100);
const HELLO: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A server of `app` with `limits`.
struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    async fn start(app: Router, limits: Limits) -> Self {
        let root = tempfile::tempdir().unwrap();
        let library = Arc::new(Library::load(vec![root.path().to_owned()]));
        let state = AppState::new(library, "localhost", watch::channel(false).1);
        let app = app.layer(from_fn_with_state(state, in_turn));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopping) = watch::channel(false);
        let task = tokio::spawn(accept(listener, app, limits, stopping));
        Self {
            address,
            stop,
            task,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Whether a request on a new connection gets its whole response.
    async fn answers(&self) -> bool {
        let mut stream = self.connect().await;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
        rest(&mut stream).await.ends_with("hello")
    }
}

/// Reads until the server closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    match timeout(DEADLINE, stream.read_to_end(&mut text))
        .await
        .expect("the connection ends")
    {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    String::from_utf8(text).unwrap()
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

fn limits() -> Limits {
    let (connections, requests, streams, of_machine, of_this_machine) = (100, 90, 60, 100, 100);
    let (head, stalled) = (DEADLINE * 2, DEADLINE * 2);
    Limits {
        connections,
        requests,
        streams,
        of_machine,
        of_this_machine,
        head,
        stalled,
    }
}

#[tokio::test]
async fn whoever_sends_no_whole_head_in_time_is_dropped() {
    let server = Server::start(
        hello(),
        Limits {
            head: SOON,
            ..limits()
        },
    )
    .await;
    // Nothing, a partial head, a longer partial head, and an answered request followed by nothing.
    for (sent, answer) in [
        (&b""[..], ""),
        (b"GET / HT", ""),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: y", ""),
        (HELLO, "hello"),
    ] {
        let mut stream = server.connect().await;
        stream.write_all(sent).await.unwrap();
        let said = rest(&mut stream).await;
        assert!(
            said.contains(answer)
                && said.matches("200 OK").count() == usize::from(!answer.is_empty()),
            "{said}"
        );
    }
    // Sending single bytes must not extend the deadline.
    let (mut read, mut write) = server.connect().await.into_split();
    let drip = tokio::spawn(async move {
        while write.write_all(b"X").await.is_ok() {
            tokio::time::sleep(SOON / 20).await;
        }
    });
    let mut text = Vec::new();
    let ended = timeout(DEADLINE, read.read_to_end(&mut text))
        .await
        .expect("the connection ends");
    assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    timeout(DEADLINE, drip)
        .await
        .expect("the client notices")
        .unwrap();
    assert!(server.answers().await);
}

#[tokio::test]
async fn whoever_takes_nothing_is_dropped_and_holds_little_meanwhile() {
    let (given, mut bodies) = mpsc::channel(1);
    let endless = get(move || async move {
        let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(1);
        given.send(sender).await.unwrap();
        Body::from_stream(ReceiverStream::new(receiver))
    });
    let server = Server::start(
        hello().route("/endless", endless),
        Limits {
            stalled: SOON,
            ..limits()
        },
    )
    .await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    let body = timeout(DEADLINE, bodies.recv())
        .await
        .expect("the request arrives")
        .unwrap();
    // The body is endless. It ends only because the server gives up on the reader.
    let piece = Bytes::from(vec![b'x'; 64 << 10]);
    let mut pieces = 0;
    while timeout(DEADLINE, body.send(Ok(piece.clone())))
        .await
        .expect("the stalled reader is dropped")
        .is_ok()
    {
        pieces += 1;
        assert!(pieces < 1_000, "unread pieces pile up");
    }
    assert!(pieces > 0);
    drop(stream);
    assert!(server.answers().await);
}

#[tokio::test]
async fn only_so_many_are_open_and_the_others_wait() {
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (opened, highest) = (Arc::clone(&open), Arc::clone(&most));
    let app = Router::new().route(
        "/",
        get(move || async move {
            highest.fetch_max(opened.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // Long enough for other requests to start if the limit allowed it.
            tokio::time::sleep(SOON / 10).await;
            opened.fetch_sub(1, Ordering::SeqCst);
            "hello"
        }),
    );
    let limits = Limits {
        connections: 30,
        requests: 2,
        head: SOON,
        ..limits()
    };
    let server = Arc::new(Server::start(app, limits).await);
    // Two silent connections must not block requests.
    let silent = [server.connect().await, server.connect().await];
    let ask = |_| {
        let server = Arc::clone(&server);
        tokio::spawn(async move { server.answers().await })
    };
    let asked: Vec<_> = (0..20).map(ask).collect();
    for answer in asked {
        assert!(
            timeout(DEADLINE, answer)
                .await
                .expect("it gets its turn")
                .unwrap()
        );
    }
    assert!((1..=2).contains(&most.load(Ordering::SeqCst)));
    drop(silent);
}

#[tokio::test]
async fn those_who_say_nothing_make_room_for_a_new_connection() {
    let server = Server::start(
        hello(),
        Limits {
            connections: 4,
            requests: 3,
            ..limits()
        },
    )
    .await;
    // An answered request, a partial request, and a silent connection.
    let mut held = Vec::new();
    for sent in [HELLO, &HELLO[..10], b""].into_iter().cycle().take(12) {
        let mut stream = server.connect().await;
        let _ = stream.write_all(sent).await;
        held.push(stream);
        assert!(
            timeout(DEADLINE, server.answers())
                .await
                .expect("a connection is displaced")
        );
    }
}

#[tokio::test]
async fn health_is_answered_while_one_client_takes_all_there_is() {
    let hang = get(|| async { Body::from_stream(tokio_stream::pending::<io::Result<Bytes>>()) });
    let app = hello()
        .route("/hang", hang)
        .route("/healthz", get(|| async { "hello" }));
    let server = Server::start(
        app,
        Limits {
            connections: 6,
            requests: 4,
            ..limits()
        },
    )
    .await;
    let ask = async |path: &str| {
        let mut stream = server.connect().await;
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
            .await
            .unwrap();
        stream
    };
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut stream = ask("/hang").await;
        timeout(DEADLINE, stream.read_exact(&mut [0; 8]))
            .await
            .expect("it is answered")
            .unwrap();
        held.push(stream);
    }
    for _ in 0..30 {
        held.push(ask("/hang").await);
    }
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /healthz HTTP/1.0\r\n\r\n")
        .await
        .unwrap();
    assert!(rest(&mut stream).await.ends_with("hello"));
    // The request that has waited longest for a turn is refused to make room.
    let refused = rest(&mut held.remove(4)).await;
    assert!(
        refused.starts_with("HTTP/1.1 503") && refused.contains("connection: close"),
        "{refused}"
    );
    // A freed turn goes to a waiting request.
    held.remove(0);
    let mut last = held.pop().unwrap();
    let mut first = [0; 12];
    timeout(DEADLINE, last.read_exact(&mut first))
        .await
        .expect("it is answered")
        .unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
}

#[tokio::test]
async fn one_machine_leaves_room_for_others() {
    let limits = Limits {
        of_this_machine: 2,
        ..limits()
    };
    let server = Server::start(hello(), limits).await;
    let from = async |address: &str| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket
            .bind(format!("{address}:0").parse().unwrap())
            .unwrap();
        let mut stream = socket.connect(server.address).await.unwrap();
        // The connection may be closed already.
        let _ = stream.write_all(HELLO).await;
        let mut first = [0; 8];
        (stream.read_exact(&mut first).await.is_ok(), stream)
    };
    let (first, second) = (from("127.0.0.1").await, from("127.0.0.1").await);
    assert!(first.0 && second.0);
    assert!(!from("127.0.0.1").await.0, "closed without an answer");
    assert!(from("127.0.0.2").await.0, "another machine");
    drop(first);
    timeout(DEADLINE, async { while !from("127.0.0.1").await.0 {} })
        .await
        .expect("a place is free again");
}

#[tokio::test]
async fn a_head_is_bounded_and_bytes_that_are_no_request_end_one_connection() {
    let server = Server::start(hello(), limits()).await;
    let long = format!(
        "GET / HTTP/1.1\r\nX: {}\r\n\r\n",
        "y".repeat(2 * MAX_HEAD_BYTES)
    );
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(1_000));
    let endless = format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(2 * MAX_HEAD_BYTES));
    for request in [long, many, endless] {
        let mut stream = server.connect().await;
        // The server may refuse the request before all of it is sent.
        let _ = stream.write_all(request.as_bytes()).await;
        let said = rest(&mut stream).await;
        assert!(
            said.is_empty() || said.starts_with("HTTP/1.1 431"),
            "{said}"
        );
    }
    for request in [
        &b"\x16\x03\x01\x02\x00\x01"[..],
        b"\0\0\0\0",
        b"hello\r\n\r\n",
        b"GET /\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut stream = server.connect().await;
        stream.write_all(request).await.unwrap();
        let said = rest(&mut stream).await;
        assert!(
            !said.contains("hello") && !said.contains("200 OK"),
            "{request:?}: {said}"
        );
    }
    assert!(server.answers().await);
}

#[tokio::test]
async fn idle_connections_do_not_keep_the_server() {
    let server = Server::start(hello(), limits()).await;
    let mut asked = server.connect().await;
    asked.write_all(HELLO).await.unwrap();
    let mut first = [0; 8];
    asked.read_exact(&mut first).await.unwrap();
    let mut silent = server.connect().await;
    server.stop.send(true).unwrap();
    timeout(DEADLINE, server.task)
        .await
        .expect("the server ends")
        .unwrap();
    rest(&mut asked).await;
    rest(&mut silent).await;
    assert!(TcpStream::connect(server.address).await.is_err());
}
