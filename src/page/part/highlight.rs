//! Which parts of a code are strings, comments, numbers and keywords? Stretches with a class of the style sheet each.
//!
//! Made for reading, not for compiling: one pass over the bytes, for all languages alike but for how they comment. Every
//! byte of the text is in exactly one stretch; what is not understood is plain. Must not know HTML.

use std::ops::Range;

use crate::model::json::Json;

/// A longer text is not taken apart.
const MAX_BYTES: usize = 256_000;
/// A text of more stretches is shown as plain: each is an element of the page.
const MAX_SPANS: usize = 4_000;

/// A string.
const STRING: &str = "c-s";
/// A comment.
const COMMENT: &str = "c-c";
/// A number.
const NUMBER: &str = "c-n";
/// A keyword.
const KEYWORD: &str = "c-k";
/// A key of a JSON object.
const KEY: &str = "c-a";

/// Keywords of the languages that agents write most; a word that is none in one of them is most often one in another.
const KEYWORDS: &[&str] = &[
    "abstract",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "begin",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "continue",
    "crate",
    "def",
    "default",
    "defer",
    "del",
    "delete",
    "do",
    "done",
    "double",
    "dyn",
    "elif",
    "else",
    "end",
    "enum",
    "esac",
    "except",
    "export",
    "extends",
    "extern",
    "false",
    "False",
    "fi",
    "final",
    "finally",
    "float",
    "fn",
    "for",
    "foreach",
    "from",
    "func",
    "function",
    "global",
    "go",
    "goto",
    "if",
    "impl",
    "implements",
    "import",
    "in",
    "include",
    "int",
    "interface",
    "is",
    "lambda",
    "let",
    "local",
    "long",
    "loop",
    "match",
    "mod",
    "module",
    "move",
    "mut",
    "namespace",
    "new",
    "nil",
    "None",
    "nonlocal",
    "not",
    "null",
    "of",
    "or",
    "override",
    "package",
    "pass",
    "private",
    "protected",
    "pub",
    "public",
    "raise",
    "ref",
    "require",
    "return",
    "self",
    "Self",
    "short",
    "static",
    "struct",
    "super",
    "switch",
    "then",
    "this",
    "throw",
    "throws",
    "trait",
    "true",
    "True",
    "try",
    "type",
    "typedef",
    "typeof",
    "undefined",
    "union",
    "unless",
    "unsafe",
    "until",
    "use",
    "using",
    "val",
    "var",
    "void",
    "when",
    "where",
    "while",
    "with",
    "yield",
];

/// How a language writes what is told apart.
#[derive(Debug, Clone, Copy, Default)]
struct Manner {
    /// `# to the end of the line`
    hash: bool,
    /// `// to the end of the line` and `/* ... */`
    slash: bool,
    /// `-- to the end of the line`
    dashes: bool,
    /// `<!-- ... -->`
    markup: bool,
    /// `'` is also something else than a quote.
    ticks: bool,
    /// Words in capitals may be keywords.
    any_case: bool,
}

impl Manner {
    /// That of a language by the name that a code block has for it; `None` for names that are no language.
    fn of(language: &str) -> Option<Self> {
        let manner = Self::default();
        let lower = language.to_ascii_lowercase();
        Some(match lower.as_str() {
            "python" | "py" | "python3" | "sh" | "bash" | "shell" | "zsh" | "fish" | "toml"
            | "yaml" | "yml" | "ruby" | "rb" | "perl" | "r" | "make" | "makefile"
            | "dockerfile" | "docker" | "ini" | "conf" | "elixir" | "julia" | "nix" | "cmake"
            | "hcl" | "terraform" => Self {
                hash: true,
                ..manner
            },
            "php" => Self {
                hash: true,
                slash: true,
                ..manner
            },
            "rust" | "rs" => Self {
                slash: true,
                ticks: true,
                ..manner
            },
            "c" | "h" | "cpp" | "c++" | "cc" | "hpp" | "java" | "javascript" | "js" | "jsx"
            | "ts" | "tsx" | "typescript" | "mjs" | "go" | "golang" | "swift" | "kotlin" | "kt"
            | "scala" | "cs" | "csharp" | "dart" | "css" | "scss" | "less" | "zig" | "json5"
            | "jsonc" | "groovy" | "proto" | "solidity" => Self {
                slash: true,
                ..manner
            },
            "sql" => Self {
                dashes: true,
                any_case: true,
                ..manner
            },
            "lua" | "haskell" | "hs" | "elm" => Self {
                dashes: true,
                ..manner
            },
            "html" | "xml" | "svg" | "vue" => Self {
                markup: true,
                ..manner
            },
            _ => return None,
        })
    }
}

/// The stretches of a code in `language`, in order, each with its class, which is empty for plain text; `None` where the
/// text is too long, or the language is not known and the text is no JSON.
pub(crate) fn code<'t>(text: &'t str, language: &str) -> Option<Vec<(&'static str, &'t str)>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    match language {
        "" | "json" | "jsonl" | "JSON" => json(text),
        _ => stretches(text, Manner::of(language)?),
    }
}

/// The stretches of a JSON text; `None` where it is none, or has nothing to tell apart.
pub(crate) fn json(text: &str) -> Option<Vec<(&'static str, &str)>> {
    let is_container = text.trim_start().starts_with(['{', '[']);
    if text.len() > MAX_BYTES || !is_container || Json::parse(text).is_none() {
        return None;
    }
    let mut out = Stretches::new(text);
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = quoted(bytes, at, b'"');
                let rest = bytes.get(end..).unwrap_or_default();
                let next = rest.iter().find(|byte| !byte.is_ascii_whitespace());
                out.push(at..end, if next == Some(&b':') { KEY } else { STRING })?;
                at = end;
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| {
                    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
                };
                at = out.take(at, is_part, NUMBER)?;
            }
            byte if byte.is_ascii_alphabetic() => {
                at = out.take(at, u8::is_ascii_alphabetic, KEYWORD)?
            }
            _ => at += 1,
        }
    }
    out.end()
}

fn stretches(text: &str, manner: Manner) -> Option<Vec<(&'static str, &str)>> {
    let mut out = Stretches::new(text);
    let bytes = text.as_bytes();
    let mut at = 0;
    // What stands before decides whether a sign begins a comment or a number.
    let mut before = b'\n';
    while let Some(byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        let begins = |words: &str| rest.starts_with(words.as_bytes());
        let is_free = before.is_ascii_whitespace();
        let end = match byte {
            b'#' if manner.hash && is_free => out.push(at..line_end(bytes, at), COMMENT)?,
            b'/' if manner.slash && begins("//") && before != b':' => {
                out.push(at..line_end(bytes, at), COMMENT)?
            }
            b'/' if manner.slash && begins("/*") => {
                out.push(at..after(bytes, at + 2, b"*/"), COMMENT)?
            }
            b'-' if manner.dashes && begins("--") => out.push(at..line_end(bytes, at), COMMENT)?,
            b'<' if manner.markup && begins("<!--") => {
                out.push(at..after(bytes, at + 4, b"-->"), COMMENT)?
            }
            b'"' if begins("\"\"\"") => out.push(at..after(bytes, at + 3, b"\"\"\""), STRING)?,
            b'\'' if begins("'''") => out.push(at..after(bytes, at + 3, b"'''"), STRING)?,
            b'\'' if manner.ticks => match quoted(bytes, at, b'\'') {
                // `'x'` and `'\n'`, and no lifetime.
                end if end - at <= 8
                    && bytes.get(end - 1) == Some(&b'\'')
                    && end > at + 1
                    && !begins_life(rest) =>
                {
                    out.push(at..end, STRING)?
                }
                _ => at + 1,
            },
            b'"' | b'\'' | b'`' => {
                let end = quoted(bytes, at, *byte);
                // One that is alone on its line is no quote.
                let is_closed = end > at + 1 && bytes.get(end - 1) == Some(byte);
                if is_closed {
                    out.push(at..end, STRING)?
                } else {
                    at + 1
                }
            }
            b'0'..=b'9' => {
                let is_part =
                    |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
                out.take(at, is_part, NUMBER)?
            }
            byte if is_word(byte) => {
                let end = at + rest.iter().take_while(|byte| is_word(byte)).count();
                let word = text.get(at..end).unwrap_or_default();
                let is_keyword = |word: &str| KEYWORDS.contains(&word);
                let lower = manner.any_case.then(|| word.to_ascii_lowercase());
                if is_keyword(word)
                    || lower.is_some_and(|word| is_keyword(&word) || SQL.contains(&word.as_str()))
                {
                    out.push(at..end, KEYWORD)?;
                }
                end
            }
            _ => at + 1,
        };
        before = bytes.get(end - 1).copied().unwrap_or(b'\n');
        at = end;
    }
    out.end()
}

/// Words of SQL that are none of the others.
const SQL: &[&str] = &[
    "select", "insert", "into", "update", "set", "values", "table", "create", "drop", "alter",
    "join", "left", "right", "inner", "outer", "on", "group", "by", "order", "having", "limit",
    "offset", "distinct", "primary", "key", "index", "view", "exists", "between", "like", "desc",
    "asc",
];

/// Whether a byte is a part of a name; the bytes of letters beyond ASCII are.
fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii()
}

/// Whether a tick is followed by a name that no tick ends: `'a>` and not `'a'`.
fn begins_life(rest: &[u8]) -> bool {
    let name = rest.iter().skip(1).take_while(|byte| is_word(byte)).count();
    name > 0 && rest.get(name + 1) != Some(&b'\'')
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    memchr::memchr(b'\n', rest).map_or(bytes.len(), |end| at + end)
}

/// Where the next `close` ends, from `from` on; the end of the text where there is none.
fn after(bytes: &[u8], from: usize, close: &[u8]) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    memchr::memmem::find(rest, close).map_or(bytes.len(), |end| from + end + close.len())
}

/// Where the quote that begins at `at` ends: behind its partner, at the end of the line, or of the text; a backtick goes on
/// over lines.
fn quoted(bytes: &[u8], at: usize, quote: u8) -> usize {
    let mut end = at + 1;
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'\\' => end += 1,
            b'\n' if quote != b'`' => return end,
            byte if *byte == quote => return end + 1,
            _ => {}
        }
        end += 1;
    }
    end.min(bytes.len())
}

/// The stretches found so far.
struct Stretches<'t> {
    text: &'t str,
    found: Vec<(&'static str, &'t str)>,
    /// How much of the text they are.
    end: usize,
}

impl<'t> Stretches<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            found: Vec::new(),
            end: 0,
        }
    }

    /// Adds a stretch with a class, and what is plain before it; where it ends. `None` where there are too many.
    fn push(&mut self, range: Range<usize>, class: &'static str) -> Option<usize> {
        if self.found.len() >= MAX_SPANS {
            return None;
        }
        if range.start > self.end {
            self.found.push(("", self.text.get(self.end..range.start)?));
        }
        self.end = range.end;
        self.found.push((class, self.text.get(range)?));
        Some(self.end)
    }

    /// Adds the bytes from `at` on that `is_part` takes.
    fn take(
        &mut self,
        at: usize,
        is_part: impl Fn(&u8) -> bool,
        class: &'static str,
    ) -> Option<usize> {
        let rest = self.text.as_bytes().get(at..)?;
        let len = rest.iter().take_while(|byte| is_part(byte)).count();
        self.push(at..at + len.max(1), class)
    }

    fn end(mut self) -> Option<Vec<(&'static str, &'t str)>> {
        let rest = self.text.get(self.end..)?;
        if !rest.is_empty() {
            self.found.push(("", rest));
        }
        Some(self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn marked(text: &str, language: &str) -> String {
        let mark = |(class, text): &(&str, &str)| match *class {
            "" => (*text).to_owned(),
            class => format!("<{} {text}>", &class[2..]),
        };
        code(text, language).unwrap().iter().map(mark).collect()
    }

    #[test]
    fn json_tells_keys_from_texts() {
        assert_eq!(
            marked(r#"{"a" : ["b\"", -1.5e3, true]}"#, ""),
            r#"{<a "a"> : [<s "b\"">, <n -1.5e3>, <k true>]}"#
        );
        assert!(
            code("plain words", "").is_none()
                && code("{no json}", "").is_none()
                && code("\"text\"", "").is_none()
        );
    }

    #[test]
    fn languages_comment_in_their_own_way() {
        assert_eq!(
            marked("def f(): # it's 1\n    return 'x'", "python"),
            "<k def> f(): <c # it's 1>\n    <k return> <s 'x'>"
        );
        assert_eq!(
            marked("a // b\n/* c\nd */ 12", "js"),
            "a <c // b>\n<c /* c\nd */> <n 12>"
        );
        assert_eq!(
            marked("fn f<'a>(x: &'a str) -> char { 'x' }", "rust"),
            "<k fn> f<'a>(x: &'a str) -> <k char> { <s 'x'> }"
        );
        assert_eq!(
            marked("SELECT a FROM b -- c", "sql"),
            "<k SELECT> a <k FROM> b <c -- c>"
        );
        assert_eq!(
            marked("echo https://a.b/#c don't", "sh"),
            "echo https://a.b/#c don't"
        );
        assert_eq!(
            marked("x = \"\"\"a\nb\"\"\"", "py"),
            "x = <s \"\"\"a\nb\"\"\">"
        );
        assert!(
            code("for you and me", "text").is_none() && code("words", "no-such-language").is_none()
        );
    }

    #[test]
    fn long_texts_and_many_stretches_stay_plain() {
        assert!(code(&"1 ".repeat(MAX_BYTES), "py").is_none());
        assert!(code(&"1 ".repeat(MAX_SPANS), "py").is_none());
        assert!(json(&format!("[{}0]", "0,".repeat(MAX_SPANS))).is_none());
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in "[ \\n'\"`#/*<!\\-\\\\a-z0-9é\u{202e}]{0,80}", language in "py|rust|js|sql|html|php|") {
            if let Some(found) = code(&text, &language) {
                let joined: String = found.iter().map(|(_, text)| *text).collect();
                prop_assert_eq!(joined, text);
            }
        }
    }
}
