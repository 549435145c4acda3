//! Finds secrets in a text by their shape alone. Keys of well-known services have distinctive
//! prefixes, so a key pasted into a prompt is recognized without a name next to it.

/// The prefixes of such keys, and their minimum lengths.
const SHAPES: [(&str, usize); 24] = [
    ("sk-", 20),
    ("sk_live_", 20),
    ("sk_test_", 20),
    ("rk_live_", 20),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghu_", 30),
    ("ghs_", 30),
    ("ghr_", 30),
    ("github_pat_", 30),
    ("glpat-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("xoxa-", 20),
    ("xapp-", 20),
    ("AKIA", 20),
    ("ASIA", 20),
    ("AIza", 35),
    ("ya29.", 20),
    ("hf_", 30),
    ("npm_", 30),
    ("pypi-", 40),
    ("dop_v1_", 40),
    // A signed token: two Base64 objects and the signature.
    ("eyJ", 40),
];

/// Returns the words of this shape, in order.
pub(super) fn keys(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    // 20 is the shortest minimum length.
    let words = text
        .split(move |c: char| !is_part(c))
        .filter(|word| word.len() >= 20);
    words
        .map(|word| word.trim_matches('.'))
        .filter(|word| is_key(word))
}

fn is_key(word: &str) -> bool {
    let shape = SHAPES.iter().find_map(|(start, least)| {
        Some((
            *start,
            word.strip_prefix(start).filter(|_| word.len() >= *least)?,
        ))
    });
    let Some((start, rest)) = shape else {
        return false;
    };
    match start {
        "eyJ" => word.split('.').count() == 3,
        "AKIA" | "ASIA" => {
            word.len() == 20
                && rest
                    .chars()
                    .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        }
        // A name of words with dashes between them isn't a key.
        _ => {
            rest.bytes().any(|byte| byte.is_ascii_digit())
                || rest.bytes().any(|byte| byte.is_ascii_uppercase())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::keys;

    #[test]
    fn keys_are_known_among_other_words() {
        let text = "Use sk-ant-api03-AbC123dEf456-xyz, not \"ghp_0123456789abcdefABCDEF0123456789abcd\".\n\
            AKIAABCDEFGHIJKLMNOP eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl ü";
        let found: Vec<&str> = keys(text).collect();
        assert_eq!(
            found,
            [
                "sk-ant-api03-AbC123dEf456-xyz",
                "ghp_0123456789abcdefABCDEF0123456789abcd",
                "AKIAABCDEFGHIJKLMNOP",
                "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl"
            ]
        );
        let none = "sk-learn-contrib-packages-of-old a-sk-0123456789012345678 AKIAabcdefghijklmnop eyJhbGciOiJIUzI1NiJ9 \
            sk-short1 hf_transformers npm_config_registry_of_the_project_here";
        assert_eq!(keys(none).count(), 0);
    }
}
