//! Colors code: splits it into spans, each with a class of the style sheet.
//!
//! The grammars are those of bat (`two-face`), read by `syntect`. Any text takes bounded time: long texts, long lines
//! and lines that take the grammar too long are left plain. Every byte of the text is in exactly one span.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use crate::model::json::Json;

/// Longer texts are left plain.
const MAX_BYTES: usize = 256_000;
/// Longer lines are left plain: some grammars take quadratic time.
const MAX_LINE: usize = 1_000;
/// A text with more spans is left plain, since each span is an element of the page.
const MAX_SPANS: usize = 4_000;
/// Once a thread has worked this long on grammars within `WINDOW`, it leaves the rest plain. A page of code takes a
/// few milliseconds. A line made to confuse a grammar takes up to a second. The time that other programs take doesn't count:
/// a page is the same on a busy machine.
const MAX_TIME: Duration = Duration::from_secs(2);
const WINDOW: Duration = Duration::from_secs(10);

thread_local! {
    /// When the window of this thread began, and the time spent since.
    static SPENT: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// A limit of the colors of a thread, and what it has colored under that limit.
#[derive(Debug, Clone, Copy, Default)]
struct Limit {
    left: Duration,
    /// The colored bytes and their spans, and the bytes that were left plain.
    colored: usize,
    spans: usize,
    plain: usize,
}

thread_local! {
    static LIMIT: Cell<Option<Limit>> = const { Cell::new(None) };
}

/// Does some work that may use grammars for at most `time`, such as to write a text without colors. Also returns how
/// many spans were left out because of that, judging by the rest.
pub(crate) fn limited<T>(time: Duration, work: impl FnOnce() -> T) -> (T, usize) {
    struct Clear;
    impl Drop for Clear {
        fn drop(&mut self) {
            LIMIT.set(None);
        }
    }
    LIMIT.set(Some(Limit {
        left: time,
        ..Limit::default()
    }));
    let clear = Clear;
    let out = work();
    let limit = LIMIT.get().unwrap_or_default();
    drop(clear);
    let each = limit.spans as f64 / limit.colored.max(1) as f64;
    (out, (limit.plain as f64 * each) as usize)
}

/// Returns whether the limit is reached, so that the next `bytes` are left plain.
fn is_over(bytes: usize) -> bool {
    let Some(limit) = LIMIT.get().filter(|limit| limit.left.is_zero()) else {
        return false;
    };
    let plain = limit.plain + bytes;
    LIMIT.set(Some(Limit { plain, ..limit }));
    true
}

/// Returns how long this thread has been running on a processor. Elsewhere than on Unix, returns the time since the first
/// call.
fn thread_time() -> Duration {
    #[cfg(unix)]
    {
        use rustix::time::{ClockId, clock_gettime};
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.try_into().unwrap_or_default()
    }
    #[cfg(not(unix))]
    {
        static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
        FIRST.elapsed()
    }
}

/// Returns the time that this thread has spent within its window.
fn spent() -> Duration {
    match SPENT.get() {
        Some((since, spent)) if since.elapsed() < WINDOW => spent,
        _ => Duration::ZERO,
    }
}

fn spend(time: Duration) {
    let spent = match SPENT.get() {
        Some((since, spent)) if since.elapsed() < WINDOW => (since, spent + time),
        _ => (Instant::now(), time),
    };
    SPENT.set(Some(spent));
}

/// A string.
const STRING: &str = "c-s";
/// A comment.
const COMMENT: &str = "c-c";
/// A number or an escape in a string.
const NUMBER: &str = "c-n";
/// A keyword, a constant of the language, or the name of an element.
const KEYWORD: &str = "c-k";
/// A key, an attribute, or the name in a definition.
const KEY: &str = "c-a";

/// The class of each kind of scope. Scopes are searched from the innermost outwards, and the first matching row counts.
/// See <https://www.sublimetext.com/docs/scope_naming.html> for the names.
const CLASSES: &[(&str, &str)] = &[
    ("comment", COMMENT),
    ("punctuation.definition.comment", COMMENT),
    ("constant.numeric", NUMBER),
    ("constant.character", NUMBER),
    ("constant", KEYWORD),
    ("string", STRING),
    ("meta.interpolation", ""),
    ("meta.embedded", ""),
    ("keyword.operator", ""),
    ("keyword", KEYWORD),
    ("storage", KEYWORD),
    ("variable.language", KEYWORD),
    ("entity.name.tag", KEYWORD),
    ("entity.name", KEY),
    ("entity.other.attribute-name", KEY),
    ("support.type.property-name", KEY),
    ("markup.heading", KEYWORD),
    ("markup.inserted", STRING),
    ("markup.deleted", NUMBER),
];

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

static SCOPES: LazyLock<Vec<(Scope, &'static str)>> = LazyLock::new(|| {
    let scope = |(name, class): &(&str, &'static str)| Some((Scope::new(name).ok()?, *class));
    CLASSES.iter().filter_map(scope).collect()
});

/// Reading a line for longer than this never ends. Its grammar isn't used for other lines then, so that at most one
/// request hangs.
const STUCK: Duration = Duration::from_secs(5);

/// The grammars of the lines that are being read, and since when.
static READING: Mutex<Vec<Reading>> = Mutex::new(Vec::new());

/// A line that is being read, until it's dropped.
#[derive(Debug, Clone, PartialEq)]
struct Reading {
    grammar: &'static str,
    since: Instant,
}

impl Reading {
    fn begin(grammar: &'static str) -> Guard {
        Self::since(grammar, Instant::now())
    }

    fn since(grammar: &'static str, since: Instant) -> Guard {
        let own = Self { grammar, since };
        READING
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(own.clone());
        Guard(own)
    }

    /// Returns whether reading a line with this grammar never ends.
    fn is_stuck(grammar: &str) -> bool {
        let all = READING.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .any(|other| other.grammar == grammar && other.since.elapsed() > STUCK)
    }
}

/// Forgets a line once it's read.
struct Guard(Reading);

impl Drop for Guard {
    fn drop(&mut self) {
        let mut all = READING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = all.iter().position(|other| *other == self.0) {
            all.swap_remove(at);
        }
    }
}

/// The grammars with which the parser repeats itself forever, without a character read: `0 /*` is enough. One is
/// that of JavaScript, the other embeds it. Random texts of 100 tokens showed no other, among 220.
const ENDLESS: [&str; 2] = [JAVASCRIPT, "Svelte"];
const JAVASCRIPT: &str = "JavaScript";
/// The grammar for files of JavaScript instead, which all other languages embed.
const INSTEAD_OF_JAVASCRIPT: &str = "JavaScript (Babel)";

/// Highlights the lines of one text in one language.
pub(crate) struct Highlighter {
    syntax: &'static SyntaxReference,
    state: ParseState,
    scopes: ScopeStack,
    /// A line could not be parsed, so the meaning of the following lines is unknown.
    is_lost: bool,
}

impl Highlighter {
    /// Creates a highlighter for a language, given the name in a code block or a file extension. Returns `None` for
    /// plain text and unknown languages.
    pub(crate) fn of_language(name: &str) -> Option<Self> {
        let name = name.trim();
        if name.is_empty() || name.len() > 40 {
            return None;
        }
        Self::new(SYNTAXES.find_syntax_by_token(name)?)
    }

    /// Creates a highlighter for a file, given its name. Returns `None` as [`Self::of_language`] does.
    pub(crate) fn of_file(path: &str) -> Option<Self> {
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        let ending = name.rsplit_once('.').map(|(_, ending)| ending);
        // Makefile, Dockerfile and the like are recognized by their whole name.
        let by_name = SYNTAXES.find_syntax_by_extension(name);
        Self::new(by_name.or_else(|| SYNTAXES.find_syntax_by_extension(ending?))?)
    }

    fn new(syntax: &'static SyntaxReference) -> Option<Self> {
        let is_endless = ENDLESS.contains(&&*syntax.name);
        let other = || SYNTAXES.find_syntax_by_name(INSTEAD_OF_JAVASCRIPT);
        let syntax = match is_endless {
            true => other().filter(|_| syntax.name == JAVASCRIPT)?,
            false => syntax,
        };
        let is_plain = std::ptr::eq(syntax, SYNTAXES.find_syntax_plain_text());
        (!is_plain).then(|| Self::start(syntax))
    }

    fn start(syntax: &'static SyntaxReference) -> Self {
        Self {
            syntax,
            state: ParseState::new(syntax),
            scopes: ScopeStack::new(),
            is_lost: false,
        }
    }

    /// Starts again, for a line that doesn't follow the last one.
    pub(crate) fn restart(&mut self) {
        *self = Self::start(self.syntax);
    }

    /// Returns the spans of the next line, which includes its line end. Each has a class, which is empty for plain
    /// text.
    pub(crate) fn line(&mut self, line: &str) -> Vec<(&'static str, Range<usize>)> {
        let plain = vec![("", 0..line.len())];
        if is_over(line.len()) {
            return plain;
        }
        if self.is_lost
            || line.len() > MAX_LINE
            || spent() > MAX_TIME
            || Reading::is_stuck(&self.syntax.name)
        {
            self.is_lost = true;
            return plain;
        }
        let begun = thread_time();
        let reading = Reading::begin(&self.syntax.name);
        let changes = self.state.parse_line(line, &SYNTAXES);
        drop(reading);
        let took = thread_time().saturating_sub(begun);
        spend(took);
        let Ok(changes) = changes else {
            self.is_lost = true;
            return plain;
        };
        let mut found: Vec<(&'static str, Range<usize>)> = Vec::new();
        let mut add = |class: &'static str, range: Range<usize>| match found.last_mut() {
            _ if range.is_empty() || line.get(range.clone()).is_none() => {}
            Some((before, last)) if *before == class && last.end == range.start => {
                last.end = range.end
            }
            _ => found.push((class, range)),
        };
        let mut at = 0;
        for (place, change) in &changes {
            add(class(self.scopes.as_slice()), at..*place);
            at = *place;
            if self.scopes.apply(change).is_err() {
                self.is_lost = true;
                return plain;
            }
        }
        add(class(self.scopes.as_slice()), at..line.len());
        if let Some(limit) = LIMIT.get() {
            let spans = found.iter().filter(|(class, _)| !class.is_empty()).count();
            LIMIT.set(Some(Limit {
                left: limit.left.saturating_sub(took),
                colored: limit.colored + line.len(),
                spans: limit.spans + spans,
                ..limit
            }));
        }
        let is_whole = found.iter().map(|(_, range)| range.len()).sum::<usize>() == line.len();
        if is_whole { found } else { plain }
    }
}

fn class(scopes: &[Scope]) -> &'static str {
    let of = |scope: &Scope| SCOPES.iter().find(|(kind, _)| kind.is_prefix_of(*scope));
    scopes
        .iter()
        .rev()
        .find_map(of)
        .map_or("", |(_, class)| class)
}

/// Returns the spans of code in `language`, in order. Each has a class, which is empty for plain text. Returns `None`
/// if the text is too long, or if the language is unknown and the text is not JSON.
pub(crate) fn code<'t>(text: &'t str, language: &str) -> Option<Vec<(&'static str, &'t str)>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    match language {
        "" | "json" | "jsonl" | "JSON" => json(text),
        _ => lines(text, Highlighter::of_language(language)?),
    }
}

/// Returns the spans of a file's text or its beginning, with or without line numbers. Otherwise like [`code`].
pub(crate) fn file<'t>(text: &'t str, path: &str) -> Option<Vec<(&'static str, &'t str)>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    lines(text, Highlighter::of_file(path)?)
}

fn lines(text: &str, mut highlighter: Highlighter) -> Option<Vec<(&'static str, &str)>> {
    let mut out = Stretches::new(text);
    let is_numbered = text
        .lines()
        .take(20)
        .all(|line| line.is_empty() || number(line) > 0);
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let from = if is_numbered { number(line) } else { 0 };
        for (class, range) in highlighter.line(line.get(from..).unwrap_or_default()) {
            if !class.is_empty() {
                out.push(at + from + range.start..at + from + range.end, class)?;
            }
        }
        at += line.len();
    }
    out.end()
}

/// Returns the length of a line number that a tool put before a line: spaces, digits, and a tab, an arrow or a bar.
fn number(line: &str) -> usize {
    let digits = line.trim_start_matches(' ');
    let sign = digits.trim_start_matches(|sign: char| sign.is_ascii_digit());
    let behind = sign
        .strip_prefix(['\t', '→', '|'])
        .filter(|_| sign.len() < digits.len());
    behind.map_or(0, |behind| line.len() - behind.len())
}

/// Returns the spans of a JSON text. Returns `None` if it is not a JSON object or list, or is too long.
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

/// Returns the end of the quoted text that begins at `at`: after the closing quote, or at the end of the line or text.
/// Text in backticks may span lines.
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

/// The spans found so far.
struct Stretches<'t> {
    text: &'t str,
    found: Vec<(&'static str, &'t str)>,
    /// How many bytes of the text they cover.
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

    /// Adds a span with a class, and the plain text before it. Returns where the span ends, or `None` if there are too
    /// many.
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

    /// Adds the bytes from `at` that `is_part` accepts.
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
    #[test]
    fn a_limit_leaves_the_rest_plain_and_says_how_many_spans_it_has() {
        let text = "let a = \"b\"; // c\n".repeat(50);
        let count = || code(&text, "rust").map_or(0, |spans| colored(&spans));
        let all = count();
        assert!(all > 100, "{all}");
        assert_eq!(limited(Duration::ZERO, count), (0, 0));
        assert_eq!(limited(Duration::MAX, count), (all, 0));
        let (spans, more) = limited(Duration::from_nanos(1), count);
        assert!(
            spans < all && (all / 2..all * 2).contains(&(spans + more)),
            "{spans} {more}"
        );
        assert_eq!(count(), all);
    }

    fn colored(spans: &[(&'static str, &str)]) -> usize {
        spans.iter().filter(|(class, _)| !class.is_empty()).count()
    }

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
    fn code_is_told_apart_in_any_language() {
        assert_eq!(
            marked("def f(): # it's 1\n    return 'x'", "python"),
            "<k def> <a f>(): <c # it's 1\n>    <k return> <s 'x'>"
        );
        assert_eq!(
            marked("a // b\n/* c\nd */ 12", "js"),
            "a <c // b\n><c /* c\n><c d */> <n 12>"
        );
        for (language, text, wanted) in [
            ("rust", "fn f<'a>(x: &'a str) {}", "<k fn>"),
            ("sql", "SELECT a FROM b -- c", "<c -- c>"),
            ("toml", "a = \"b\"", "<s \"b\">"),
            ("ts", "const a: string = `b`", "<s `b`>"),
            ("Dockerfile", "FROM a", "<k FROM>"),
            ("zig", "const a = 1;", "<n 1>"),
        ] {
            // Each language gets a new thread with its own time limit, because a grammar is compiled at its first use.
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let marked = marked(text, language);
                    assert!(marked.contains(wanted), "{language}: {marked}");
                });
            });
        }
        assert!(code("for you and me", "text").is_none());
        assert!(code("words", "no-such-language").is_none());
    }

    #[test]
    fn a_file_is_read_in_the_language_of_its_name() {
        let first = |text: &'static str, path: &str| file(text, path).map(|found| found[0]);
        let def = Some((KEYWORD, "def"));
        assert_eq!(first("def f(): pass", "/a/b.py"), def);
        assert_eq!(
            first("FROM a", "C:\\x\\Dockerfile"),
            Some((KEYWORD, "FROM"))
        );
        assert_eq!(first("def f(): pass", "/a/b"), None);
        assert_eq!(first("def f(): pass", "notes.txt"), None);
        let numbered = file("     9→def f():\n    10→    pass\n", "a.py").unwrap();
        assert_eq!((numbered[0].1, numbered[1]), ("     9→", (KEYWORD, "def")));
    }

    #[test]
    fn hostile_lines_take_a_bounded_time_and_lose_nothing() {
        let lines = [
            "(", "{[(<\"'`", "\\", "a(", "/*", "<!--", "#{", "${", "\"\\", "=>", "0x", "::<",
        ];
        for language in [
            "rs", "py", "js", "ts", "php", "rb", "md", "html", "sh", "cpp", "sql", "yaml", "tex",
            "scala",
        ] {
            for line in lines {
                let text = format!("{}\n", line.repeat(MAX_LINE / line.len() - 1)).repeat(3);
                if let Some(found) = code(&text, language) {
                    let joined: String = found.iter().map(|(_, text)| *text).collect();
                    assert_eq!(joined, text, "{language} {line}");
                }
            }
        }
    }

    #[test]
    fn no_grammar_repeats_itself_forever() {
        let languages = [
            "js",
            "javascript",
            "JavaScript",
            "mjs",
            "jsx",
            "htc",
            "svelte",
            "ts",
            "tsx",
            "vue",
            "html",
            "md",
            "php",
            "erb",
            "scala",
            "java",
            "c",
        ];
        let texts = [
            "x\n /* c */\n",
            "0 /*",
            "it's\n /* a\n b */\n",
            "<script>x\n /* c */\n</script>\n",
            "```js\n0 /*\n```\n",
            "<a onclick=\"0 /*\">",
            "\\end{of$where /*end>",
        ];
        let (done, all) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for (language, text) in languages.iter().flat_map(|l| texts.map(|text| (l, text))) {
                code(text, language);
            }
            done.send(()).unwrap();
        });
        // A parser that repeats itself never ends.
        all.recv_timeout(Duration::from_mins(5)).unwrap();
        let spans = code("let a = 'b' /* c */", "js").unwrap();
        assert!(
            spans
                .iter()
                .any(|(class, text)| *class == "c-s" && *text == "'b'"),
            "{spans:?}"
        );
        assert!(code("<p>a</p>", "svelte").is_none());
    }

    #[test]
    fn a_grammar_that_never_ends_a_line_isnt_used_again() {
        let is_colored = |language| {
            let spans = code("-- a\n", language).unwrap();
            spans.iter().any(|(class, _)| !class.is_empty())
        };
        let name = Highlighter::of_language("lua")
            .unwrap()
            .syntax
            .name
            .as_str();
        let long_ago = Instant::now().checked_sub(STUCK * 2).unwrap();
        let stuck = Reading::since(name, long_ago);
        assert!(!is_colored("lua"));
        assert!(is_colored("sql"), "other grammars are used");
        drop(stuck);
        assert!(is_colored("lua"));
    }

    #[test]
    fn long_texts_and_many_stretches_stay_plain() {
        assert!(code(&"1 ".repeat(MAX_BYTES), "py").is_none());
        // On a busy machine the time limit may apply first.
        let text = "1 \n".repeat(MAX_SPANS);
        let many = code(&text, "py");
        assert!(many.is_none_or(|found| found.len() <= MAX_SPANS));
        assert!(json(&format!("[{}0]", "0,".repeat(MAX_SPANS))).is_none());
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in "[ \\n'\"`#/*<!\\-\\\\a-z0-9é\u{202e}]{0,80}", language in "py|rust|js|ts|tsx|vue|c|java|scala|sql|html|php|sh|md|yaml|") {
            if let Some(found) = code(&text, &language) {
                let joined: String = found.iter().map(|(_, text)| *text).collect();
                prop_assert_eq!(joined, text);
            }
        }
    }
}
