use super::*;

/// Returns the lines with all secrets found in them blanked.
fn blanked(lines: &[&str]) -> Vec<String> {
    let secrets = secrets(lines);
    lines
        .iter()
        .map(|line| secrets.blank(line.as_bytes()))
        .collect()
}

fn secrets(lines: &[&str]) -> Secrets {
    let mut search = Search::default();
    lines.iter().for_each(|line| search.read(line.as_bytes()));
    search.end()
}

/// Returns a text with its secrets blanked.
fn said(text: &str) -> String {
    match Json::parse(&blanked(&[&quote(text)])[0]) {
        Some(Json::String(text)) => text.into_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_that_are_secrets() {
    for key in [
        "password",
        "DB_PASSWORD",
        "dbpassword",
        "DBPassword",
        "DB_PASS",
        "passcode",
        "pin",
        "card_pin",
        "api_key",
        "apiKey",
        "API-KEY",
        "ssh_key",
        "bearer",
        "Authorization",
        "client_secret",
        "clientsecret",
        "myapikey",
    ] {
        assert_ne!(held(key), Held::Open, "{key}");
    }
    for key in [
        "token",
        "accessToken",
        "authtoken",
        "accesstoken",
        "pass",
        "cookies",
    ] {
        assert_eq!(held(key), Held::Texts, "{key}");
    }
    for key in [
        "tokens",
        "token_budget",
        "input_tokens",
        "max_tokens",
        "key",
        "keys",
        "state_key",
        "author",
        "passed",
        "pass_rate",
        "bypass",
        "pin_memory",
        "spin",
        "",
    ] {
        assert_eq!(held(key), Held::Open, "{key}");
    }
}

#[test]
fn what_is_blanked_in_json() {
    for (line, expected) in [
        // In place, where repeated, and in JSON inside a text.
        (
            r#"{"api_key": "sk-12345678", "tokens": 5, "note": "use sk-12345678 twice", "raw": "{\"password\": \"x\"}", "token": 7}"#,
            r#"{"api_key": "__redacted__", "tokens": 5, "note": "use __redacted__ twice", "raw": "{\"password\": \"__redacted__\"}", "token": 7}"#,
        ),
        // Whole objects, and state changes.
        (
            r#"{"state_diff": {"token": {"before": "aaaaaaaa", "after": "bbbbbbbb"}}, "said": "bbbbbbbb!"}"#,
            r#"{"state_diff": {"token": "__redacted__"}, "said": "__redacted__!"}"#,
        ),
        // A secret that is a prefix of another.
        (
            r#"{"password": "hunter22", "secret": "hunter22-more", "said": "hunter22-more, hunter22"}"#,
            r#"{"password": "__redacted__", "secret": "__redacted__", "said": "__redacted__, __redacted__"}"#,
        ),
        // A short value only as a word, a very short value or a common word nowhere else.
        (
            r#"{"password": "hello", "pwd": "abcd", "secret": {"type": "string"}, "said": "hello, hellos abcd a string xhello _hello_"}"#,
            r#"{"password": "__redacted__", "pwd": "__redacted__", "secret": "__redacted__", "said": "__redacted__, hellos abcd a string xhello ___redacted___"}"#,
        ),
        // Numbers: secrets are blanked and searched for, counts aren't.
        (
            r#"{"password": 1234567, "pin": 42, "access_token": 20000, "same": 1234567, "said": "1234567 and 20000, 42"}"#,
            r#"{"password": "__redacted__", "pin": "__redacted__", "access_token": 20000, "same": "__redacted__", "said": "__redacted__ and 20000, 42"}"#,
        ),
        (
            r#"{"pass": true, "tests": {"pass": 12}, "secret": false}"#,
            r#"{"pass": true, "tests": {"pass": 12}, "secret": false}"#,
        ),
        // The part after a scheme.
        (
            r#"{"authorization": "Bearer abcdef-1234", "auth": {"cookie": "Basic dXNlcjpw"}, "said": "abcdef-1234 dXNlcjpw"}"#,
            r#"{"authorization": "__redacted__", "auth": {"cookie": "__redacted__"}, "said": "__redacted__ __redacted__"}"#,
        ),
        // The JSON-escaped form.
        (
            r#"{"secret": "two\n\"lines\"", "said": "print 'two\\n\\\"lines\\\"' or two\n\"lines\""}"#,
            r#"{"secret": "__redacted__", "said": "print '__redacted__' or __redacted__"}"#,
        ),
        // Already blanked, or empty.
        (
            r#"{"token": "__redacted__", "secret": "", "pwd": {}}"#,
            r#"{"token": "__redacted__", "secret": "", "pwd": {}}"#,
        ),
        // A key that contains it.
        (
            r#"{"password": "swordfish", "swordfish": 1}"#,
            r#"{"password": "__redacted__", "__redacted__": 1}"#,
        ),
        // No secrets: the text is unchanged.
        (
            r#"{"a": [1, 2.50, null], "s": "{ \"b\":1 }"}"#,
            r#"{"a": [1, 2.50, null], "s": "{ \"b\":1 }"}"#,
        ),
    ] {
        assert_eq!(blanked(&[line]), [expected]);
    }
    assert_eq!(
        Secrets::default().blank(b"login with sk-12345678"),
        "\"__redacted__\""
    );
    assert_eq!(Secrets::default().blank_json(b"login with"), None);
}

#[test]
fn what_is_blanked_in_text() {
    for (text, expected) in [
        ("PASS=abc-123 sh run.sh", "PASS=__redacted__ sh run.sh"),
        ("env: DB_PASS: abc-123", "env: DB_PASS: __redacted__"),
        (
            "--password=abc-123 --user=me",
            "--password=__redacted__ --user=me",
        ),
        ("?token=abc-123&user=me", "?token=__redacted__&user=me"),
        (
            "curl -H \"Authorization: Bearer abc-123\" x",
            "curl -H \"Authorization: __redacted__\" x",
        ),
        (
            "Authorization: Basic abc== then",
            "Authorization: __redacted__ then",
        ),
        (
            "Set-Cookie: a=b; c=d\nnext",
            "Set-Cookie: __redacted__\nnext",
        ),
        (
            "so {\"password\": \"correct horse\\\" battery\", \"n\": 1}",
            "so {\"password\": \"__redacted__\", \"n\": 1}",
        ),
        (
            "{\\\"password\\\": \\\"correct horse\\\"}",
            "{\\\"password\\\": \\\"__redacted__\\\"}",
        ),
        ("{'token': 'abc 123'}", "{'token': '__redacted__'}"),
        (
            "os.environ['API_KEY'] = 'abc 123'",
            "os.environ['API_KEY'] = '__redacted__'",
        ),
        (
            "**Password:** `abc 123`, yes",
            "**Password:** `__redacted__`, yes",
        ),
        ("password = \"cut of", "password = \"__redacted__ of"),
        (
            "password: abc-123). abc-123",
            "password: __redacted__). __redacted__",
        ),
        ("token=abc\\nnext=1 abc", "token=__redacted__ abc"),
        ("pin: 12345, 12345", "pin: __redacted__, __redacted__"),
        // The word is blanked here, but may be any word there.
        (
            "password: admin, the admin",
            "password: __redacted__, the admin",
        ),
        // No secrets.
        ("PASS: it_works", "PASS: it_works"),
        ("pass: 12, pass=3", "pass: 12, pass=3"),
        (
            "token: 512, max_tokens=20000",
            "token: 512, max_tokens=20000",
        ),
        (
            "password: None, secret=true, token='' and token:",
            "password: None, secret=true, token='' and token:",
        ),
        ("credentials: {user: bob}", "credentials: {user: bob}"),
        (
            "token::Token and key=value; author: me",
            "token::Token and key=value; author: me",
        ),
        (
            "12:30:45 https://example.org/?a=b",
            "12:30:45 https://example.org/?a=b",
        ),
        ("ünï: ß=ü, passwörd: ünï", "ünï: ß=ü, passwörd: ünï"),
    ] {
        assert_eq!(said(text), expected);
    }
}

#[test]
fn a_secret_of_a_text_or_a_torn_line_is_blanked_in_others_too() {
    let lines = [
        "{\"said\": \"PASS=swordfish sh\"}",
        "{\"said\": \"a swordfish, trout-77\"}",
        "{\"token\": \"trout-77",
    ];
    let expected = [
        "{\"said\": \"PASS=__redacted__ sh\"}",
        "{\"said\": \"a __redacted__, __redacted__\"}",
        "\"__redacted__\"",
    ];
    assert_eq!(blanked(&lines), expected);
    assert_eq!(
        secrets(&lines).blanked(),
        Blanked {
            kinds: [2, 0, 0, 0, 0, 0, 0],
            not_sought: 0
        }
    );
}

#[test]
fn values_that_are_too_many_to_look_for_are_counted() {
    let line = |n: usize| format!("{{\"token\": \"secret-{n:04}\"}}");
    let mut search = Search::default();
    for n in (0..=MAX_SOUGHT).chain(0..=MAX_SOUGHT) {
        search.read(line(n).as_bytes());
    }
    let secrets = search.end();
    assert_eq!(
        secrets.blanked(),
        Blanked {
            kinds: [2 * (MAX_SOUGHT + 1), 0, 0, 0, 0, 0, 0],
            not_sought: 1
        }
    );
    assert_eq!(
        secrets.blank(line(MAX_SOUGHT).as_bytes()),
        "{\"token\": \"__redacted__\"}"
    );
    assert_eq!(
        secrets.blank(b"\"secret-0007, secret-1000\""),
        "\"__redacted__, secret-1000\""
    );
}

#[test]
fn who_wrote_a_trace_is_replaced_in_texts_and_keys() {
    let lines = [
        r#"{"cwd": "/home/ann/p", "args": "{\"path\": \"/home/ann/p/a.rs\"}", "files": {"/home/ann/p": 1}}"#,
        r#"{"said": "mail ann@lee.org from C:\\Users\\ann\\p"}"#,
    ];
    assert_eq!(
        blanked(&lines),
        [
            r#"{"cwd": "~/p", "args": "{\"path\": \"~/p/a.rs\"}", "files": {"~/p": 1}}"#,
            r#"{"said": "mail [e-mail] from ~\\p"}"#,
        ]
    );
    let secrets = secrets(&lines);
    let counts: Vec<_> = secrets
        .blanked()
        .each()
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(counts, [(Kind::Home, 3), (Kind::Email, 1)]);
    let sample = secrets
        .samples()
        .iter()
        .find(|sample| sample.kind == Kind::Email)
        .unwrap();
    assert_eq!(sample.value, "ann@lee.org");
}

#[test]
fn a_private_key_after_its_name_is_blanked_as_a_whole() {
    let (begin, end) = (
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----END RSA PRIVATE KEY-----",
    );
    for name in ["private_key=", "SSH_PRIVATE_KEY=", "key=", "key: '"] {
        for newline in ["\n", "\\n"] {
            let key = format!("{begin}{newline}MIIEabc+/={newline}{end}");
            assert_eq!(
                said(&format!("{name}{key}{newline}more")),
                format!("{name}{BLANK}{newline}more")
            );
            let json = format!(r#"{{"cmd": "export {name}{key}"}}"#).replace('\n', "\\n");
            assert_eq!(said(&json), format!(r#"{{"cmd": "export {name}{BLANK}"}}"#));
            // A key that isn't closed, too.
            assert_eq!(
                said(&format!("{name}{begin}{newline}MIIEabc")),
                format!("{name}{BLANK}")
            );
        }
    }
    let public = "-----BEGIN PUBLIC KEY-----";
    assert_eq!(
        blanked(&[
            &quote(&format!("private_key={begin}MII{end}")),
            &quote(public)
        ])[1],
        quote(public)
    );
}

#[test]
fn a_password_of_an_address_is_blanked_elsewhere() {
    let lines = [
        r#"{"url": "postgres://app:%40dmin-pass1@db/x", "same": "postgres://postgres:postgres@db"}"#,
        r#"{"said": "use @dmin-pass1 or %40dmin-pass1 for postgres"}"#,
    ];
    assert_eq!(
        blanked(&lines),
        [
            r#"{"url": "postgres://app:__redacted__@db/x", "same": "postgres://postgres:__redacted__@db"}"#,
            r#"{"said": "use __redacted__ or __redacted__ for postgres"}"#,
        ]
    );
}

/// Passwords in commands and texts that were missed, and words that only look like them.
#[test]
fn passwords_behind_options_are_found_and_words_are_not() {
    let secrets = [
        "password=$secret123",
        "PASSWORD: $secret123",
        "mysql --password $secret123 -h db",
        "mysql --password hunter2",
        "mysql --password 'correct horse'",
        "mysql --password \"correct horse\"",
        "psql --password swordfish -h db",
        "psql --password swordfish",
        "curl --token abc123def",
        "curl --api-key abc123def",
        "curl --access_token abc123def && ls",
        "tool --client-secret s3cr3t!x",
        "tool --db-password p@ssw0rd",
        "tool --passphrase open-sesame",
        "tool\n  --password hunter2\n",
        "curl --token c2VjcmV0cGFzcw==",
        "curl --token c2VjcmV0cGFzc3c=",
        "x --password '@dm1n2024'",
        "x --password @dm1n2024",
        "x --password \"<Xy!9\"",
        "aws --secret-access-key /aB3kL9mN2pQ7rS4tU6vW8xY1zA5bC0dE/fG2hI3",
        "aws --secret-access-key '/aB3kL9'",
        "x --password '/run/pw1'",
        "x --password  hunter2",
        "x --password  hunter2 -h db",
    ];
    let marks = [
        "$secret123",
        "$secret123",
        "$secret123",
        "hunter2",
        "correct horse",
        "correct horse",
        "swordfish",
        "swordfish",
        "abc123def",
        "abc123def",
        "abc123def",
        "s3cr3t!x",
        "p@ssw0rd",
        "open-sesame",
        "hunter2",
        "c2VjcmV0cGFzcw",
        "c2VjcmV0cGFzc3c",
        "@dm1n2024",
        "@dm1n2024",
        "<Xy!9",
        "/aB3kL9mN2pQ7rS4tU6vW8xY1zA5bC0dE/fG2hI3",
        "/aB3kL9",
        "/run/pw1",
        "hunter2",
        "hunter2",
    ];
    assert_eq!(secrets.len(), marks.len());
    for (text, mark) in secrets.iter().zip(marks) {
        let mut search = Search::default();
        let line = quote(text);
        search.read(line.as_bytes());
        let blanked = search.end().blank(line.as_bytes());
        assert!(!blanked.contains(mark), "{text}: {blanked}");
    }
    let harmless = [
        "use --token to authenticate",
        "--token TOKEN  the token",
        "--password string   set it",
        "--password-stdin and go",
        "--password-file /run/pw1",
        "--no-password x1y2z3",
        "--max-tokens 4096",
        "--token 4096",
        "--password $DB_PASSWORD -h db",
        "--password ${PW} -h db",
        "--password <password>",
        "--password",
        "a --password --verbose",
        "--tokenizer gpt2-xl",
        "----------- token abc123",
    ];
    for text in harmless {
        let mut search = Search::default();
        let line = quote(text);
        search.read(line.as_bytes());
        assert_eq!(search.end().blank(line.as_bytes()), line);
    }
}

#[test]
fn options_are_found_in_linear_time_and_values_that_are_no_secrets_stay() {
    // Each of these took time that grew with the square of the length.
    for unit in ["_--", "--_", "-- a", "--key=", "--password \\\""] {
        let text = unit.repeat(100_000);
        assert!(super::text::without_values(&text).len() >= 300_000);
    }
    for kept in [
        "curl --cookie-jar /tmp/cookies.txt",
        "deploy --credentials ./service-account.json",
        "deploy --credentials '~/service-account.json'",
        "deploy --credentials /run/secrets/db",
        "curl --token @token.txt",
        "curl --token @/run/token",
        "x --password '<your password>'",
        "run --token file:///run/secrets/t",
        "yt --cookies-from-browser firefox",
        "build --secret id=npmrc,src=x",
        "aws --secret-id my-app/prod",
        "--token        OAuth2 token to use",
        "The option --password isn't set",
        "the --token argument's value",
        r#"x --password "$(pass show db)""#,
        "x --password `cat pw.txt`",
    ] {
        assert_eq!(super::text::without_values(kept), kept);
    }
    assert_eq!(
        super::text::without_values("psql --password hunter2 -h db"),
        format!("psql --password {BLANK} -h db")
    );
}
