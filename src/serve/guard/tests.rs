use std::sync::Arc;

use axum::body::Body;
use axum::http::Request as HttpRequest;
use http_body_util::BodyExt as _;
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::live::Library;
use crate::serve::guard::*;

const TOKEN: &str = "a-token-of-a-test";
const BEARER: (&str, &str) = ("authorization", "Bearer a-token-of-a-test");
const BOX: (&str, &str) = ("host", "box:8765");

/// The cookie header that a browser sends once it has presented the token.
fn cookie() -> String {
    let gate = Gate::new(Token::new(TOKEN).unwrap());
    format!("theme=dark; {}={}", gate.cookie, gate.ticket.reveal())
}

/// Sends a request to a board started with a token and `--host box`. `host` defaults to `box`.
async fn ask(path: &str, headers: &[(&str, &str)]) -> Response {
    let root = tempfile::tempdir().unwrap();
    let library = Library::load(vec![root.path().to_owned()]);
    let (_stop, stopping) = watch::channel(false);
    let state = AppState::new(Arc::new(library), "box", stopping);
    let mut request = HttpRequest::get(path);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header(BOX.0, BOX.1);
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    crate::serve::router(state, Some(Token::new(TOKEN).unwrap()))
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap()
}

async fn text(response: Response) -> String {
    String::from_utf8(
        response
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .to_vec(),
    )
    .unwrap()
}

#[test]
fn only_own_names() {
    for host in [
        "127.0.0.1:8765",
        "localhost:1",
        "LOCALHOST",
        "[::1]:80",
        "192.168.1.5",
        "box:80",
    ] {
        assert!(is_own_name(host_name(host), "box"), "{host}");
    }
    for host in [
        "evil.example",
        "127.0.0.1.evil.example:80",
        "localhost.evil.example",
        "",
        ":80",
        "[evil]",
        "127.0.0.1:8830.evil.com",
        "localhost:8830@evil.com",
        "localhost@evil.com",
        "[::1]evil.com",
        "[::1].evil.com:80",
        "[::1",
        "[127.0.0.1]",
        "[box]",
        "::1",
        "localhost:",
        "localhost:80:80",
        "localhost:123456",
    ] {
        assert!(!is_own_name(host_name(host), "box"), "{host}");
    }
}

#[tokio::test]
async fn without_the_token_there_is_only_the_page_that_asks_for_it() {
    for path in [
        "/",
        "/healthz",
        "/events",
        "/api/runs",
        "/api/runs/x/raw",
        "/runs/x",
        "/nothing",
        "/api",
        "/static",
    ] {
        let response = ask(path, &[]).await;
        assert_eq!(response.status(), 401, "{path}");
        assert_eq!(
            response.headers()["www-authenticate"],
            "Bearer realm=\"board\""
        );
        assert_eq!(response.headers()["referrer-policy"], "no-referrer");
        let api = path.starts_with("/api");
        let body = text(response).await;
        assert_eq!(
            body.contains("<form") && body.contains("name=\"token\""),
            !api,
            "{path}: {body}"
        );
        assert_eq!(body.starts_with("{\"type\""), api, "{path}: {body}");
        assert!(
            !body.contains(TOKEN) && !body.contains("/tmp"),
            "{path}: {body}"
        );
    }
    assert_eq!(ask("/static/0/board.css", &[]).await.status(), 200);
}

#[tokio::test]
async fn the_token_opens_by_cookie_and_by_header() {
    let cookie = cookie();
    assert!(!cookie.contains(TOKEN));
    for header in [
        ("cookie", cookie.as_str()),
        BEARER,
        ("authorization", "bearer  a-token-of-a-test"),
    ] {
        for path in ["/", "/healthz", "/api/runs"] {
            let response = ask(path, &[header]).await;
            assert_eq!(response.status(), 200, "{path} {header:?}");
            assert!(response.headers().get("set-cookie").is_none());
            assert!(!text(response).await.contains(TOKEN));
        }
    }
    let name = cookie.split([' ', '=']).nth(2).unwrap();
    let (with_token, empty, other) = (
        format!("{name}={TOKEN}"),
        format!("{name}="),
        cookie.replace(name, "board_0"),
    );
    let wrong = [
        ("cookie", with_token.as_str()),
        ("cookie", &empty),
        ("cookie", &other),
        ("cookie", &cookie[..cookie.len() - 1]),
        ("authorization", "Bearer a-token-of-a-tes"),
        ("authorization", "Bearer"),
        ("authorization", "Basic a-token-of-a-test"),
        ("x-forwarded-host", TOKEN),
    ];
    for header in wrong {
        assert_eq!(ask("/", &[header]).await.status(), 401, "{header:?}");
    }
    for (header, title) in [
        (("authorization", "Bearer a-token-of-a-tes"), "Wrong token"),
        (("authorization", "Bearer"), "This server requires a token"),
    ] {
        let body = ask("/api/runs", &[header]).await.into_body();
        let body = axum::body::to_bytes(body, 10_000).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(body.contains(title), "{body}");
    }
}

#[tokio::test]
async fn a_token_in_an_address_moves_into_a_cookie() {
    let given = [
        ("/?token=a-token-of-a-test", "/"),
        (
            "/runs/a%2Fb?step=3&token=a-token-of-a-test&tab=state",
            "/runs/a%2Fb?step=3&tab=state",
        ),
        ("/?token=a-token-of-a-test&token=old", "/"),
        (
            "http://box:8765//evil.example/?token=a-token-of-a-test",
            "/evil.example/",
        ),
    ];
    let held = cookie();
    for (path, place) in given {
        // Board redirects even if the browser has the cookie, because the token must not stay
        // in the address.
        for headers in [&[][..], &[("cookie", held.as_str())]] {
            let response = ask(path, headers).await;
            assert_eq!(response.status(), 303, "{path}");
            assert_eq!(response.headers()["location"], place);
            let set = response.headers()["set-cookie"].to_str().unwrap();
            assert_eq!(
                format!("theme=dark; {set}"),
                format!("{held}; HttpOnly; SameSite=Strict; Path=/")
            );
            assert_eq!(response.headers()["cache-control"], "no-store");
            assert_eq!(response.headers()["referrer-policy"], "no-referrer");
        }
    }
    for path in [
        "/?token=wrong-token-of-test",
        "/?token",
        "/?token=",
        "/api/runs?token=a-token-of-a-test",
    ] {
        let response = ask(path, &[]).await;
        assert_eq!(response.status(), 401, "{path}");
        assert!(!text(response).await.contains("token-of"), "{path}");
    }
}

#[tokio::test]
async fn whoever_brings_the_token_means_this_board_by_any_name() {
    let other = ("host", "other.example:8765");
    let held = cookie();
    let held = ("cookie", held.as_str());
    assert_eq!(ask("/", &[other]).await.status(), 421);
    assert_eq!(
        ask("/?token=wrong-token-of-test", &[other]).await.status(),
        421
    );
    assert_eq!(
        ask("/?token=a-token-of-a-test", &[other]).await.status(),
        303
    );
    assert_eq!(ask("/", &[other, held]).await.status(), 200);
    // Board treats another port of the same machine as a foreign site. Browsers don't, so they
    // send the cookie.
    assert_eq!(
        ask("/", &[held, ("origin", "http://box:3000")])
            .await
            .status(),
        403
    );
    assert_eq!(
        ask(
            "/",
            &[
                held,
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "no-cors")
            ]
        )
        .await
        .status(),
        403
    );
    assert_eq!(
        ask(
            "/",
            &[
                held,
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "navigate")
            ]
        )
        .await
        .status(),
        200
    );
}

#[tokio::test]
async fn a_request_names_one_host_and_has_no_body() {
    for (headers, status) in [
        (&[BOX, BOX][..], 400),
        (&[BEARER, BOX, ("host", "localhost")], 400),
        (&[BEARER, ("content-length", "5")], 400),
        (&[BEARER, ("transfer-encoding", "chunked")], 400),
        (&[BEARER, ("content-length", "0")], 200),
    ] {
        assert_eq!(ask("/", headers).await.status(), status, "{headers:?}");
    }
    let long = format!("/?q={}", "x".repeat(MAX_ADDRESS_BYTES));
    assert_eq!(ask(&long, &[BEARER]).await.status(), 414);
    for name in ["q", "%71"] {
        let search = format!("/?{name}={}", "x".repeat(MAX_SEARCH_BYTES + 1));
        assert_eq!(ask(&search, &[BEARER]).await.status(), 414, "{name}");
    }
    assert_eq!(
        ask("/", &[BEARER, ("x", &"y".repeat(MAX_HEAD_BYTES - 1_000))])
            .await
            .status(),
        200
    );
    assert_eq!(
        ask("/", &[BEARER, ("x", &"y".repeat(MAX_HEAD_BYTES))])
            .await
            .status(),
        431
    );
    // The absolute form of the address takes precedence, and the header must not name another host.
    assert_eq!(ask("http://evil.example/", &[]).await.status(), 421);
    assert_eq!(
        ask("http://box/", &[("host", "evil.example")])
            .await
            .status(),
        421
    );
}

#[tokio::test]
async fn a_header_that_says_who_asks_is_given_once() {
    let own = ("origin", "http://box:8765");
    let same = ("sec-fetch-site", "same-origin");
    let headers = [
        own,
        same,
        ("sec-fetch-mode", "cors"),
        ("sec-fetch-dest", "empty"),
    ];
    assert_eq!(
        ask(
            "/",
            &[BEARER, headers[0], headers[1], headers[2], headers[3]]
        )
        .await
        .status(),
        200
    );
    for header in headers {
        assert_eq!(
            ask("/", &[BEARER, header, header]).await.status(),
            400,
            "{header:?}"
        );
    }
    for (first, second) in [
        (own, ("origin", "http://evil.example")),
        (same, ("sec-fetch-site", "cross-site")),
    ] {
        assert_eq!(
            ask("/", &[BEARER, first, second]).await.status(),
            400,
            "{second:?}"
        );
        assert_eq!(
            ask("/", &[BEARER, second, first]).await.status(),
            400,
            "{second:?}"
        );
    }
}

#[tokio::test]
async fn names_and_words_are_compared_without_regard_to_case() {
    for (host, origin, status) in [
        ("BOX:8765", "http://box:8765", 200),
        ("box:8765", "HTTP://Box:8765", 200),
        ("LocalHost:8765", "http://localhost:8765", 200),
        ("box:8765", "https://box:8765", 200),
        ("box:8765", "http://box", 403),
        ("box:8765", "app://box:8765", 403),
        ("box:8765", "http://box:8765, http://evil.example", 403),
        ("box:8765", "NULL", 403),
    ] {
        assert_eq!(
            ask("/", &[BEARER, ("host", host), ("origin", origin)])
                .await
                .status(),
            status,
            "{host} {origin}"
        );
    }
    for (site, mode, dest, status) in [
        ("Same-Origin", "cors", "empty", 200),
        ("NONE", "navigate", "document", 200),
        ("Cross-Site", "no-cors", "image", 403),
        ("CROSS-SITE", "Navigate", "Document", 200),
        ("cross-site", "Navigate", "IFrame", 403),
        ("same-origin, cross-site", "no-cors", "image", 403),
        ("", "no-cors", "image", 403),
    ] {
        let headers = [
            BEARER,
            ("sec-fetch-site", site),
            ("sec-fetch-mode", mode),
            ("sec-fetch-dest", dest),
        ];
        assert_eq!(
            ask("/", &headers).await.status(),
            status,
            "{site:?} {mode} {dest}"
        );
    }
}

#[tokio::test]
async fn refusals_tell_strangers_no_directory() {
    for headers in [
        &[("host", "evil.example")][..],
        &[("origin", "http://evil.example")],
        &[],
    ] {
        let response = ask("/", headers).await;
        assert!([401, 403, 421].contains(&response.status().as_u16()));
        let body = text(response).await;
        assert!(
            !body.contains(&std::env::temp_dir().display().to_string()),
            "{body}"
        );
    }
    assert!(
        text(ask("/nothing", &[BEARER]).await)
            .await
            .contains(&std::env::temp_dir().display().to_string())
    );
}

#[tokio::test(start_paused = true)]
async fn guesses_are_slow_and_keep_nobody_else_waiting() {
    let start = tokio::time::Instant::now();
    let guesses = (0..10)
        .map(|n| async move { ask(&format!("/?token=wrong-token-{n}"), &[]).await.status() });
    for guess in guesses.collect::<Vec<_>>() {
        assert_eq!(guess.await, 401);
    }
    assert!(start.elapsed() >= 10 * GUESS_PAUSE);
    let start = tokio::time::Instant::now();
    assert_eq!(
        (
            ask("/", &[BEARER]).await.status(),
            ask("/", &[]).await.status()
        ),
        (StatusCode::OK, StatusCode::UNAUTHORIZED)
    );
    assert!(start.elapsed() < GUESS_PAUSE);
}
