//! Finds values in running text that follow a key that names a secret: `key=value`, `key: value`,
//! `"key": "value"`, `--key value`.
//!
//! Looks in both directions from each `:` and `=` instead of matching a pattern. In `env: PASS=x`,
//! the first pair must not hide the second.

use std::ops::Range;

use super::names::{Held, held};

/// Values that often follow a secret's key without being a secret. Blanking them elsewhere would
/// destroy half of a trace.
pub(super) const COMMON: [&str; 20] = [
    "string",
    "number",
    "integer",
    "boolean",
    "object",
    "array",
    "false",
    "undefined",
    "required",
    "optional",
    "default",
    "password",
    "secret",
    "token",
    "bearer",
    "basic",
    "passed",
    "failed",
    "hidden",
    "session",
];

/// The replacement for a blanked value. QitOS writes the same.
pub const BLANK: &str = "__redacted__";
/// Longer words aren't keys.
const MAX_KEY_BYTES: usize = 40;
/// Shorter values aren't secrets.
const MIN_VALUE_BYTES: usize = 3;
/// Schemes that precede the secret itself.
const SCHEMES: [&str; 4] = ["bearer", "basic", "token", "digest"];
/// Words that mean there's no value.
const NO_VALUES: [&str; 5] = ["true", "false", "null", "none", "nil"];

/// Last words of options that don't have the secret itself as their value.
const NOT_ITSELF: [&str; 14] = [
    "stdin", "file", "prompt", "command", "cmd", "path", "env", "store", "name", "jar", "id",
    "type", "browser", "ref",
];
/// Starts of values that say where the secret is, in quotes or not.
const PLACES: [&str; 5] = ["./", "~/", "file:", "$(", "${"];
/// Longer words of letters and digits are keys, even if they have slashes like a path.
const MIN_KEY_BYTES: usize = 20;

/// A value that follows a key that names a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) range: Range<usize>,
    /// Whether it has no quotes, so that it may be a word of the sentence, or code.
    pub(super) bare: bool,
}

/// Returns all such values, in order.
pub(super) fn values(text: &str) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    for at in memchr::memchr2_iter(b':', b'=', text.as_bytes()) {
        let free = found.last().is_none_or(|last| last.range.end <= at);
        if let Some((before, from)) = text.split_at_checked(at).filter(|_| free)
            && let Some(value) = value_between(before, from)
        {
            let range = at + value.range.start..at + value.range.end;
            found.push(Value { range, ..value });
        }
    }
    let options: Vec<Value> = options(text)
        .filter(|value| {
            let overlaps = |known: &Value| {
                known.range.start < value.range.end && value.range.start < known.range.end
            };
            let near = found.partition_point(|known| known.range.end <= value.range.start);
            !found.get(near).is_some_and(overlaps)
        })
        .collect();
    found.extend(options);
    found.sort_by_key(|value| value.range.start);
    found
}

/// Returns the values of options whose names name a secret: `--password value`.
fn options(text: &str) -> impl Iterator<Item = Value> + '_ {
    let mut done = 0;
    memchr::memmem::find_iter(text.as_bytes(), b"--").filter_map(move |at| {
        let before = text.get(..at)?;
        if at < done || before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_')) {
            return None;
        }
        let value = option_value(text.get(at + 2..)?)?;
        let range = at + 2 + value.range.start..at + 2 + value.range.end;
        done = range.end;
        Some(Value { range, ..value })
    })
}

/// Returns the value of an option, if its name names a secret. `rest` starts with the name.
fn option_value(rest: &str) -> Option<Value> {
    let in_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    // A longer name isn't a key. Looking further would take long in a text of hyphens.
    let mut name = rest.bytes().take(MAX_KEY_BYTES + 1);
    let len = name.position(|byte| !in_name(byte))?;
    let (name, after) = rest.split_at_checked(len)?;
    let other = name.rsplit(['-', '_']).next()?;
    if name.starts_with("no-") || NOT_ITSELF.contains(&other) {
        return None;
    }
    let held = held(name);
    let word = after.trim_start_matches(' ');
    let spaces = after.len() - word.len();
    // `${NAME}` and `$(command)` are places for a value.
    let is_filled_in = word.starts_with("${") || word.starts_with("$(");
    let is_other = is_filled_in || word.starts_with(['-', '<', '[', '{', '|', '(']);
    if held == Held::Open || spaces == 0 || is_other {
        return None;
    }
    let (place, bare) =
        quoted(word).map_or_else(|| (bare(word, false), true), |place| (place, false));
    let value = word.get(place.clone())?;
    // `--token TOKEN` and `--password string` describe the option.
    let first = value.split(' ').next().unwrap_or_default();
    let is_description = first.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
        || COMMON.contains(&first)
        || NO_VALUES.contains(&first);
    let is_count = held == Held::Texts && value.parse::<f64>().is_ok();
    let next = word.get(place.end..)?;
    // `` `pass show db` `` is a command, `id=npmrc` has its own key, and a help text has its
    // descriptions in a column.
    let is_elsewhere = PLACES.iter().any(|place| value.starts_with(place))
        || word.starts_with('`')
        || is_placeholder(value)
        || bare && (is_path(value) || has_own_key(value) || spaces > 1 && are_words(next));
    let is_kept = is_description || is_count || is_elsewhere || is_place(value);
    if value.len() < MIN_VALUE_BYTES || is_kept {
        return None;
    }
    // In a sentence, another word follows; in a command, another option or nothing.
    let next = next.trim_start_matches(' ');
    let in_sentence = bare
        && value.chars().all(char::is_alphabetic)
        && next.starts_with(|c: char| {
            c.is_alphanumeric() || matches!(c, '.' | ',' | ';' | ':' | '\'' | '’')
        });
    let range = len + spaces + place.start..len + spaces + place.end;
    (!in_sentence).then_some(Value { range, bare })
}

/// Returns whether a word without quotes is a file: `/run/pw`, `@body.json`. A password may begin
/// with the same signs, and an access key may have slashes.
fn is_path(word: &str) -> bool {
    let Some(rest) = word.strip_prefix(['/', '@']) else {
        return false;
    };
    let is_key = word.len() >= MIN_KEY_BYTES
        && !word.contains(['.', '-', '_'])
        && word.bytes().any(|byte| byte.is_ascii_uppercase())
        && word.bytes().any(|byte| byte.is_ascii_lowercase())
        && word.bytes().any(|byte| byte.is_ascii_digit());
    let is_file = rest.rsplit_once('.').is_some_and(|(name, ending)| {
        !name.is_empty()
            && (1..=5).contains(&ending.len())
            && ending.bytes().all(|byte| byte.is_ascii_lowercase())
    });
    !is_key && (rest.contains('/') || is_file)
}

/// Returns whether a word is `name=rest`. Padding of base64 has no rest.
fn has_own_key(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, rest)| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
            && !rest.trim_matches('=').is_empty()
    })
}

/// Returns whether a value is `<name>`.
fn is_placeholder(value: &str) -> bool {
    value
        .strip_prefix('<')
        .and_then(|rest| rest.strip_suffix('>'))
        .is_some_and(|name| {
            name.chars()
                .all(|c| c.is_alphabetic() || matches!(c, ' ' | '-' | '_'))
        })
}

/// Returns whether at least two words of letters follow, as in a description.
fn are_words(next: &str) -> bool {
    // A longer word doesn't describe anything.
    let is_word = |word: &str| {
        word.len() <= MAX_KEY_BYTES
            && word
                .trim_end_matches(['.', ',', ';', ':'])
                .chars()
                .all(char::is_alphabetic)
    };
    let mut words = next.strip_prefix(' ').unwrap_or_default().splitn(3, ' ');
    let mut is_next_word = || {
        let word = words.next().and_then(|word| word.lines().next());
        word.is_some_and(|word| !word.is_empty() && is_word(word))
    };
    is_next_word() && is_next_word()
}

/// Returns the text with all such values blanked.
pub(super) fn without_values(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for value in values(text) {
        out.push_str(text.get(done..value.range.start).unwrap_or_default());
        out.push_str(BLANK);
        done = value.range.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

/// Returns the part after a scheme such as `Bearer`.
pub(super) fn after_scheme(text: &str) -> Option<&str> {
    SCHEMES.iter().find_map(|scheme| {
        let (first, rest) = text.split_at_checked(scheme.len())?;
        let rest = rest
            .strip_prefix(' ')
            .filter(|_| scheme.eq_ignore_ascii_case(first))?;
        Some(rest.trim_start_matches(|letter: char| letter.is_whitespace() && !ends_line(letter)))
    })
}

/// Returns the value in `from`, which starts with the separator, if the key before it names a
/// secret.
fn value_between(before: &str, from: &str) -> Option<Value> {
    // Characters allowed between a key and its separator: `headers["token"] =`, `**token**:`.
    let named = before.trim_end_matches([' ', '\t', '"', '\'', '`', '*', '\\', ']']);
    let in_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let key = named.get(named.trim_end_matches(in_name).len()..)?;
    let colon = from.starts_with(':');
    // Test runners print `PASS: it_works`.
    let passed = colon && named.len() == before.len() && key.eq_ignore_ascii_case("pass");
    if key.len() > MAX_KEY_BYTES || from.starts_with("::") || passed {
        return None;
    }
    let held = held(key);
    if held == Held::Open {
        return None;
    }
    let rest = from.trim_start_matches([':', '=', '>', ' ', '\t', '*']);
    if rest.starts_with(BLANK) {
        return None;
    }
    let cookie = colon && key.to_ascii_lowercase().ends_with("cookie");
    let (place, bare) =
        quoted(rest).map_or_else(|| (bare(rest, cookie), true), |place| (place, false));
    let value = rest.get(place.clone())?;
    let none = NO_VALUES
        .iter()
        .any(|none| none.eq_ignore_ascii_case(value))
        || value.starts_with(BLANK);
    let count = held == Held::Texts && value.parse::<f64>().is_ok();
    let next_key = bare && value.ends_with(':') && value.len() <= MAX_KEY_BYTES + 1;
    if value.len() < MIN_VALUE_BYTES || none || count || next_key {
        return None;
    }
    let skipped = from.len() - rest.len();
    Some(Value {
        range: skipped + place.start..skipped + place.end,
        bare,
    })
}

/// Returns the range between quotes of any kind, escaped or not, that close on the same line.
fn quoted(rest: &str) -> Option<Range<usize>> {
    let slashes = rest.len() - rest.trim_start_matches('\\').len();
    let quote = rest
        .get(slashes..)?
        .chars()
        .next()
        .filter(|letter| matches!(letter, '"' | '\'' | '`'))?;
    let (opening, inside) = rest.split_at_checked(slashes + 1)?;
    let len = if slashes > 0 {
        inside.find(opening)
    } else {
        unescaped(inside, quote)
    };
    let len = len.filter(|len| {
        inside
            .get(..*len)
            .is_some_and(|value| !value.contains('\n'))
    })?;
    Some(opening.len()..opening.len() + len)
}

fn unescaped(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return Some(at),
            _ => {}
        }
    }
    None
}

/// Returns whether `letter` ends a cookie or any unquoted word.
fn ends_line(letter: char) -> bool {
    matches!(letter, '\n' | '\r' | '"' | '\'' | '`')
}

/// Returns the word at the start of `rest`, or two words if the first is a scheme. A cookie extends
/// to the end of its line.
///
/// Looks no further than the end of the word, because a line of a megabyte may contain a hundred
/// thousand of them.
fn bare(rest: &str, cookie: bool) -> Range<usize> {
    let text = rest.trim_start_matches(['\\', '"', '\'', '`', '{', '[', '(', '<']);
    let word = |text: &str| {
        text.find(|c: char| ends_line(c) || c.is_whitespace() || matches!(c, ',' | ';' | '&'))
            .unwrap_or(text.len())
    };
    let len = match after_scheme(text) {
        _ if cookie => text.find(ends_line).unwrap_or(text.len()),
        Some(secret) => text.len() - secret.len() + word(secret),
        None => word(text),
    };
    let value = text
        .get(..len)
        .unwrap_or_default()
        .trim_end_matches([')', ']', '}', '>', '.', '\\', ' ', '\t']);
    let start = rest.len() - text.len();
    start..start + value.len()
}
/// Returns whether a word is a place for a password: `%s`, `%(name)s`, `$NAME`, `${NAME}`, `{name}`
/// or `***`.
pub(super) fn is_place(word: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let in_braces = |word: &str| word.starts_with('{') && word.ends_with('}');
    // `$secret123` is more likely a password than a variable.
    let is_variable = |name: &str| {
        let bytes = name.as_bytes();
        is_name(name)
            && (!bytes.iter().any(u8::is_ascii_lowercase) || !bytes.iter().any(u8::is_ascii_digit))
    };
    word == BLANK
        || word == "%s"
        || word.starts_with("%(")
        || in_braces(word)
        || word
            .strip_prefix('$')
            .is_some_and(|name| is_variable(name) || in_braces(name))
        || word.bytes().all(|b| b == b'*')
}
