//! Finds what tells who wrote a trace, and keys that have no name next to them: home directories, user
//! names in paths, e-mail addresses, private keys, and passwords in addresses.
//!
//! Looks around a few marks (`@`, `/home/`, `://`), and no further than a fixed number of bytes, so
//! that a long line takes no more than linear time.

use std::borrow::Cow;
use std::ops::Range;

use super::text::{BLANK, is_place};

/// The longest name of a user, part of an address before `@`, and host name; bytes.
const MAX_NAME: usize = 64;
const MAX_HOST: usize = 253;
/// The longest user and password in an address, together; bytes.
const MAX_LOGIN: usize = 1 << 10;
/// The longest private key. A key without an end is blanked up to there.
const MAX_KEY: usize = 16 << 10;
/// The directories of all users. Case counts, because `/users/` is often part of an address.
const HOMES: [&str; 7] = [
    "/home/",
    "/var/home/",
    "/Users/",
    ":/Users/",
    ":\\Users\\",
    ":\\\\Users\\\\",
    "\\/home\\/",
];
/// The same in the names of directories that agents make of paths: `-home-me-project`.
const DASHED: [&str; 2] = ["-home-", "-Users-"];
/// Directories next to those of users.
const NOBODY: [&str; 4] = ["Shared", "Public", "Default", "All"];
/// Addresses that are no one's, and `git@github.com`.
const NO_PERSON: [&str; 4] = ["git", "noreply", "no-reply", "hg"];

/// Ends of hosts that are no methods, as `x@y.reshape(1)` has one; `.to` and `.mm` are.
const TOPS: [&str; 36] = [
    "com", "org", "net", "edu", "gov", "mil", "info", "biz", "dev", "io", "ai", "co", "eu", "de",
    "uk", "fr", "it", "es", "nl", "pl", "ch", "at", "be", "se", "no", "dk", "fi", "cz", "ru", "cn",
    "jp", "kr", "br", "au", "ca", "us",
];
/// Names of files of programs and documents, without their ending.
const STEMS: [&str; 16] = [
    "main",
    "lib",
    "mod",
    "index",
    "setup",
    "init",
    "test",
    "tests",
    "readme",
    "changelog",
    "utils",
    "app",
    "cli",
    "build",
    "config",
    "conftest",
];

/// The kind of a value that was found by its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The value of a key that names a secret.
    Named,
    /// A key or token of a well-known service, or a signed token.
    Token,
    /// A private key.
    PrivateKey,
    /// A password in an address: `https://user:password@host`.
    InAddress,
    /// A home directory.
    Home,
    /// A user name in the name of a directory.
    User,
    /// An e-mail address.
    Email,
}

impl Kind {
    /// All kinds, in the order in which they're listed.
    pub const ALL: [Self; 7] = [
        Self::Named,
        Self::Token,
        Self::PrivateKey,
        Self::InAddress,
        Self::Home,
        Self::User,
        Self::Email,
    ];

    /// Returns the name for lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Named => "Values of secret-looking keys",
            Self::Token => "API keys and tokens",
            Self::PrivateKey => "Private keys",
            Self::InAddress => "Passwords in addresses",
            Self::Home => "Home directories",
            Self::User => "User names in paths",
            Self::Email => "E-mail addresses",
        }
    }

    /// Returns the text that replaces such a value.
    pub fn replacement(self) -> &'static str {
        match self {
            Self::Home => "~",
            Self::User => "user",
            Self::Email => "[e-mail]",
            Self::Named | Self::Token | Self::PrivateKey | Self::InAddress => BLANK,
        }
    }
}

/// Returns the values in a text, in order. They don't overlap.
pub(super) fn found(text: &str) -> Vec<(Range<usize>, Kind)> {
    let mut all: Vec<(Range<usize>, Kind)> = Vec::new();
    private_keys(text, &mut all);
    in_addresses(text, &mut all);
    emails(text, &mut all);
    homes(text, &mut all);
    dashed(text, &mut all);
    all.sort_by_key(|(range, kind)| (range.start, *kind));
    let mut end = 0;
    all.retain(|(range, _)| {
        let is_free = range.start >= end;
        if is_free {
            end = range.end;
        }
        is_free
    });
    all
}

/// Returns the text with all such values replaced.
pub fn without_private(text: &str) -> String {
    replaced(text, found(text))
}

/// Returns the text with only the private keys replaced.
pub(super) fn without_keys(text: &str) -> Cow<'_, str> {
    let mut keys = Vec::new();
    private_keys(text, &mut keys);
    if keys.is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(replaced(text, keys))
}

fn replaced(text: &str, values: Vec<(Range<usize>, Kind)>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (range, kind) in values {
        out.push_str(text.get(done..range.start).unwrap_or_default());
        out.push_str(kind.replacement());
        done = range.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

fn private_keys(text: &str, all: &mut Vec<(Range<usize>, Kind)>) {
    const BEGIN: &str = "-----BEGIN ";
    const LABEL: usize = 40;
    let mut done = 0;
    for (at, _) in text.match_indices(BEGIN) {
        let rest = text.get(at..).unwrap_or_default();
        let label = head(rest.get(BEGIN.len()..).unwrap_or_default(), LABEL);
        let is_private =
            label.split("-----").next().is_some_and(|label| {
                label.ends_with("PRIVATE KEY") || label.ends_with("KEY BLOCK")
            }) && label.contains("PRIVATE KEY");
        if at < done || !is_private {
            continue;
        }
        let block = head(rest, MAX_KEY);
        let end = block.find("-----END ").and_then(|end| {
            let tail = block.get(end + 9..)?;
            Some(end + 9 + tail.find("-----")? + 5)
        });
        done = at + end.unwrap_or(block.len());
        all.push((at..done, Kind::PrivateKey));
    }
}

fn in_addresses(text: &str, all: &mut Vec<(Range<usize>, Kind)>) {
    for (at, mark) in text.match_indices("://") {
        let from = at + mark.len();
        let rest = head(text.get(from..).unwrap_or_default(), MAX_LOGIN + MAX_HOST);
        let end = rest.find(|c: char| {
            c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '`' | '<' | '>' | '\\')
        });
        let host = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let Some((user, _)) = host.rsplit_once('@') else {
            continue;
        };
        let Some((name, password)) = user.split_once(':') else {
            continue;
        };
        if !password.is_empty() && !is_place(password) {
            let start = from + name.len() + 1;
            all.push((start..start + password.len(), Kind::InAddress));
        }
    }
}

fn emails(text: &str, all: &mut Vec<(Range<usize>, Kind)>) {
    // Later scripts have no spaces between words, so that a sentence may end at the name.
    let is_letter = |c: char| c.is_alphanumeric() && c < '\u{590}';
    let is_local = |c: char| is_letter(c) || matches!(c, '.' | '_' | '%' | '+' | '-');
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    for (at, _) in text.match_indices('@') {
        let before = tail(text.get(..at).unwrap_or_default(), MAX_NAME + 1);
        let kept = before.trim_end_matches(is_local).len();
        let local = before.get(kept..).unwrap_or_default();
        let after = head(text.get(at + 1..).unwrap_or_default(), MAX_HOST);
        let host_end = after.find(|c| !is_host(c)).unwrap_or(after.len());
        let host = after
            .get(..host_end)
            .unwrap_or_default()
            .trim_end_matches(['.', '-']);
        let Some((domain, top)) = host.rsplit_once('.') else {
            continue;
        };
        let is_top = (2..=24).contains(&top.len()) && top.bytes().all(|b| b.is_ascii_alphabetic());
        let is_person = !NO_PERSON
            .iter()
            .any(|name| name.eq_ignore_ascii_case(local));
        // `example.com` is made for examples.
        let is_example = domain.eq_ignore_ascii_case("example")
            || domain.to_ascii_lowercase().ends_with(".example")
            || ["example", "test", "invalid"].contains(&top);
        // In `name@version.tar` and `tool@main.rs` the host is no host. Of these endings, some are
        // also countries.
        let is_file = ["js", "ts", "json", "png", "gz", "tgz", "service"].contains(&top)
            || (["py", "rs", "md"].contains(&top) && !is_full_name(local) && is_stem(domain));
        // `self.a@b.reshape(1)` multiplies matrices.
        let is_called = after
            .get(host_end..)
            .is_some_and(|rest| rest.starts_with('('));
        // `x@df.at(3)` calls a method, unless the name looks like a person's.
        let is_call = is_called && (!TOPS.contains(&top) || local.len() < 3 && top != "org");
        let is_code = local.contains("self.") || is_call;
        let starts = local.starts_with(is_letter);
        let fits = local.len() <= MAX_NAME && !domain.is_empty() && !domain.starts_with(['.', '-']);
        if is_top && is_person && !is_example && !is_file && !is_code && starts && fits {
            all.push((at - local.len()..at + 1 + host.len(), Kind::Email));
        }
    }
}

/// Returns whether the part before the ending is likely that of a file.
fn is_stem(domain: &str) -> bool {
    domain.len() < 3 || STEMS.iter().any(|stem| stem.eq_ignore_ascii_case(domain))
}

/// Returns whether the part of an address before `@` is a first and a last name: `ann.lee`.
fn is_full_name(local: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.chars().all(char::is_alphabetic);
    let words = local.trim_end_matches(|c: char| c.is_ascii_digit());
    words.contains('.') && words.split('.').all(is_word)
}

/// Returns whether a character may be part of a user's name.
fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn homes(text: &str, all: &mut Vec<(Range<usize>, Kind)>) {
    for mark in HOMES {
        for (at, _) in text.match_indices(mark) {
            let before = text.get(..at).unwrap_or_default();
            let drive = mark.starts_with(':');
            let mounted = (mark == "/Users/").then(|| before_drive(before)).flatten();
            let start = match (drive, before.chars().next_back()) {
                (false, _) if mounted.is_some() => mounted.unwrap_or(at),
                (true, Some(letter)) if letter.is_ascii_alphabetic() => at - 1,
                (true, _) => continue,
                // A directory inside another one isn't a home.
                (false, Some(letter)) if is_name(letter) || letter == '~' => {
                    continue;
                }
                (false, _) => at,
            };
            let rest = head(
                text.get(at + mark.len()..).unwrap_or_default(),
                MAX_NAME + 1,
            );
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let name = rest.get(..end).unwrap_or_default().trim_end_matches('.');
            let starts = name
                .chars()
                .next()
                .is_some_and(|c| c.is_alphanumeric() || c == '_');
            if starts && !NOBODY.contains(&name) {
                all.push((start..at + mark.len() + name.len(), Kind::Home));
            }
        }
    }
}

/// Returns where `/mnt/c`, `/cygdrive/c` or `/c` at the end of a text starts: a drive of Windows.
fn before_drive(before: &str) -> Option<usize> {
    let path = before
        .strip_suffix(|c: char| c.is_ascii_alphabetic())?
        .strip_suffix('/')?;
    let path = path
        .strip_suffix("/mnt")
        .or_else(|| path.strip_suffix("/cygdrive"))
        .unwrap_or(path);
    is_free(path).then_some(path.len())
}

/// Returns whether a path can begin after this text. A directory inside another one isn't a home.
fn is_free(before: &str) -> bool {
    !before.ends_with(|c: char| is_name(c) || c == '~')
}

/// Returns whether the text ends with a drive as in `C--Users-me`, `-C--Users-me` and
/// `-mnt-c-Users-me`.
fn ends_with_drive(before: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic();
    let colon = before
        .strip_suffix('-')
        .and_then(|text| text.strip_suffix(letter));
    if let Some(rest) = colon {
        return is_free(rest) || rest.strip_suffix('-').is_some_and(is_free);
    }
    before
        .strip_suffix(letter)
        .and_then(|text| text.strip_suffix('-'))
        .is_some_and(|rest| is_free(rest.strip_suffix("-mnt").unwrap_or(rest)))
}

fn dashed(text: &str, all: &mut Vec<(Range<usize>, Kind)>) {
    for mark in DASHED {
        for (at, _) in text.match_indices(mark) {
            let before = text.get(..at).unwrap_or_default();
            let in_var = before.strip_suffix("-var").is_some_and(is_free);
            if before.ends_with(is_name) && !in_var && !ends_with_drive(before) {
                continue;
            }
            let from = at + mark.len();
            let rest = head(text.get(from..).unwrap_or_default(), MAX_NAME + 1);
            let end = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let name = rest.get(..end).unwrap_or_default();
            if !name.is_empty() && name != Kind::User.replacement() {
                all.push((from..from + name.len(), Kind::User));
            }
        }
    }
}

/// Returns at most `max` bytes from the start, at a character boundary.
fn head(text: &str, max: usize) -> &str {
    crate::model::names::cut_at(text, max)
}

/// Returns at most `max` bytes from the end, at a character boundary.
fn tail(text: &str, max: usize) -> &str {
    let mut from = text.len().saturating_sub(max);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_directories_become_a_tilde() {
        let cases = [
            ("cd /home/dev/project && ls", "cd ~/project && ls"),
            ("/Users/dain/x", "~/x"),
            ("/home/dev", "~"),
            ("HOME=/home/dev:/home/other/bin", "HOME=~:~/bin"),
            (r"C:\Users\Ann Lee\x", r"~ Lee\x"),
            (r"C:\\Users\\ann\\x", r"~\\x"),
            ("file:///home/é.b/x", "file://~/x"),
            ("D:/Users/ann/x", "~/x"),
            ("/Users/Shared/x", "/Users/Shared/x"),
            ("/mnt/home/x", "/mnt/home/x"),
            ("/api/users/12", "/api/users/12"),
            ("/home/", "/home/"),
            (
                "/Users/dain/.claude/projects/-Users-dain-workspace-x/a.jsonl",
                "~/.claude/projects/-Users-user-workspace-x/a.jsonl",
            ),
            ("a-home-run", "a-home-run"),
            ("/mnt/c/Users/ann/x", "~/x"),
            ("cd /c/Users/ann/x", "cd ~/x"),
            ("a/c/Users/ann/x", "a/c/Users/ann/x"),
            ("/var/home/ann/x", "~/x"),
            ("-C--Users-ann-x", "-C--Users-user-x"),
            ("a/C--Users-ann-x", "a/C--Users-user-x"),
            ("-mnt-c-Users-ann-x", "-mnt-c-Users-user-x"),
            ("-var-home-ann-x", "-var-home-user-x"),
            ("abC--Users-ann-x", "abC--Users-ann-x"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_private(text), expected);
            let once = without_private(text);
            assert_eq!(without_private(&once), once, "{text}");
        }
    }

    #[test]
    fn addresses_of_people_are_found() {
        let cases = [
            ("Ann <ann.lee+x@mail.co.uk>.", "Ann <[e-mail]>."),
            ("git@github.com:a/b", "git@github.com:a/b"),
            ("noreply@github.com", "noreply@github.com"),
            ("me@example.com", "me@example.com"),
            ("left-pad@1.2.3", "left-pad@1.2.3"),
            ("@app.route", "@app.route"),
            ("vue@next.js", "vue@next.js"),
            ("a@b", "a@b"),
            ("ééé@mail.org", "[e-mail]"),
            ("an André: andré@mail.org", "an André: [e-mail]"),
            ("请写信给ann@mail.org", "请写信给[e-mail]"),
            ("ann.lee@firma.rs, b.lee2@x.md", "[e-mail], [e-mail]"),
            ("ann.lee@firma.py", "[e-mail]"),
            ("tool@main.rs, v1.2@x.py", "tool@main.rs, v1.2@x.py"),
            ("ann@firma.rs", "[e-mail]"),
            ("mail bo@kontora.py now", "mail [e-mail] now"),
            ("a@b.org(x)", "[e-mail](x)"),
            ("ann@b.com(work)", "[e-mail](work)"),
            ("x@w.to(device)", "x@w.to(device)"),
            ("q@k.T.softmax(1)", "q@k.T.softmax(1)"),
            ("x@y.transpose(1)", "x@y.transpose(1)"),
            ("self.w@x.weight", "self.w@x.weight"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_private(text), expected);
        }
    }

    #[test]
    fn private_keys_and_passwords_in_addresses_are_blanked() {
        let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----";
        assert_eq!(
            without_private(&format!("a {key} b")),
            format!("a {BLANK} b")
        );
        assert_eq!(
            without_private("x -----BEGIN OPENSSH PRIVATE KEY-----\\nb3Bl"),
            format!("x {BLANK}")
        );
        let public = "-----BEGIN PUBLIC KEY-----\nMIIE\n-----END PUBLIC KEY-----";
        assert_eq!(without_private(public), public);
        assert_eq!(
            without_private("postgres://app:s3cret@db.local/x and https://u:$P@h/"),
            format!("postgres://app:{BLANK}@db.local/x and https://u:$P@h/")
        );
    }

    #[test]
    fn only_places_for_a_password_stay_in_addresses() {
        for place in ["%s", "%(pw)s", "$PW", "${PW}", "{pw}", "***", BLANK] {
            let text = format!("postgres://app:{place}@db/x");
            assert_eq!(without_private(&text), text);
        }
        let long = "x1".repeat(400);
        for password in [
            "%40dminpassword1",
            "$1x-y",
            "$secret123",
            "*a*",
            "{ab",
            &long,
        ] {
            assert_eq!(
                without_private(&format!("postgres://app:{password}@db/x")),
                format!("postgres://app:{BLANK}@db/x")
            );
        }
    }

    #[test]
    fn long_lines_of_marks_take_linear_time() {
        for text in ["@", "://", "/home/", "-----BEGIN ", "a@b.cc/", "\u{e9}@"] {
            let long = text.repeat(200_000);
            without_private(&long);
        }
    }
}
