//! Which keys name a secret? Only by their words; knows no values.

/// Words that make a key's value a secret.
const WORDS: [&str; 15] = [
    "password",
    "passwords",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "secret",
    "secrets",
    "authorization",
    "bearer",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "apikey",
];
/// The same at the end of a word that is written without a break: `dbpassword`.
const ENDINGS: [&str; 4] = ["password", "passwd", "secret", "apikey"];
/// Words that do so only as the last one: `DB_PASS`, not `pass_rate` or `pin_memory`.
const LAST: [&str; 2] = ["pass", "pin"];
/// The words before `key` or `keys` that make it one.
const KEYS: [&str; 7] = [
    "api",
    "access",
    "private",
    "secret",
    "signing",
    "encryption",
    "ssh",
];

/// What of a value is secret because of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Held {
    /// Nothing.
    Open,
    /// Texts; its numbers are counts.
    Texts,
    /// Texts and numbers.
    All,
}

/// What the name says: all of `password`, `API_KEY`, the texts of `accessToken`; nothing of `tokens`, `token_budget`, `key`.
pub(super) fn held(key: &str) -> Held {
    let words = words(key);
    let Some(last) = words.last() else {
        return Held::Open;
    };
    let token = last.ends_with("token");
    let named = |word: &String| {
        WORDS.contains(&word.as_str()) || ENDINGS.iter().any(|ending| word.ends_with(ending))
    };
    let pair = |pair: &[String]| match pair {
        [first, second] => {
            KEYS.contains(&first.as_str()) && matches!(second.as_str(), "key" | "keys")
        }
        _ => false,
    };
    let secret = token
        || LAST.contains(&last.as_str())
        || words.iter().any(named)
        || words.windows(2).any(pair);
    match secret {
        false => Held::Open,
        // So many tokens, cookies or tests that pass.
        true if token || last.ends_with('s') => Held::Texts,
        true => Held::All,
    }
}

/// The words of a name, in small letters: `accessToken` and `access_token` are the same two.
fn words(key: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for letter in key.chars() {
        let breaks = !letter.is_alphanumeric() || (letter.is_uppercase() && small);
        if breaks {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        small = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}
