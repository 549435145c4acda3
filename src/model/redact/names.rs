//! Decides which keys name a secret, by their words alone. Knows no values.

/// Words that mark a key's value as a secret.
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
/// Endings with the same effect in words written without a break: `dbpassword`.
const ENDINGS: [&str; 4] = ["password", "passwd", "secret", "apikey"];
/// Words with the same effect only at the end of a key: `DB_PASS`, not `pass_rate` or `pin_memory`.
const LAST: [&str; 2] = ["pass", "pin"];
/// Words with the same effect before `key` or `keys`.
const KEYS: [&str; 7] = [
    "api",
    "access",
    "private",
    "secret",
    "signing",
    "encryption",
    "ssh",
];

/// Which parts of a value are secret because of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Held {
    /// Nothing.
    Open,
    /// Texts. Numbers are counts.
    Texts,
    /// Texts and numbers.
    All,
}

/// Returns what a key's name implies: everything for `password` and `API_KEY`, texts for
/// `accessToken`, and nothing for `tokens`, `token_budget` or `key`.
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
        // A number is a count of tokens, cookies or passed tests.
        true if token || last.ends_with('s') => Held::Texts,
        true => Held::All,
    }
}

/// Splits a name into lowercase words. `accessToken` and `access_token` have the same two.
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
