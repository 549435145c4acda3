//! Parses values written by a model, as JSON or Python literals, in one pass. Every repair is
//! recorded.
//!
//! Independent of decisions. Each character is read a bounded number of times and nesting is
//! limited, so no text can cause slow or deep parsing. A value that ends in the middle is refused,
//! because its rest may matter: half a path or half a command is a different path or command. Only
//! closing brackets may be missing at the end.

use serde_json::{Map, Number, Value};

use super::diagnostics::{Extraction, Fault, Repairs, snippet};

/// Maximum nesting depth of values.
pub(super) const MAX_DEPTH: usize = 64;

/// The expected syntax. The other syntax's spelling is accepted, too. In JSON, it counts as a
/// repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Json,
    Python,
}

/// Parses values from the start of a text.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    pub(super) rest: &'t str,
    pub(super) repairs: Repairs,
    /// Number of keys with a colon so far. Distinguishes an object from a plain brace.
    pub(super) keys: usize,
    syntax: Syntax,
    /// Returns whether a line with this start no longer belongs to the value.
    ends: fn(&str) -> bool,
}

impl<'t> Reader<'t> {
    pub(super) fn json(rest: &'t str) -> Self {
        Self {
            rest,
            repairs: Repairs::default(),
            keys: 0,
            syntax: Syntax::Json,
            ends: |_| false,
        }
    }

    pub(super) fn python(rest: &'t str, ends: fn(&str) -> bool) -> Self {
        Self {
            ends,
            syntax: Syntax::Python,
            ..Self::json(rest)
        }
    }

    /// Parses the next value, which is inside `depth` other values.
    pub(super) fn value(&mut self, depth: usize) -> Result<Value, Fault> {
        if depth >= MAX_DEPTH {
            return Err(self.fault(format!("values are nested deeper than {MAX_DEPTH}")));
        }
        self.rest = self.rest.trim_start();
        match self.rest.chars().next() {
            None => Err(self.cut("a value is missing")),
            Some('{') => self.object(depth).map(Value::Object),
            Some('[') => {
                let mut list = Vec::new();
                self.items(']', |reader| {
                    list.push(reader.value(depth + 1)?);
                    Ok(())
                })?;
                Ok(Value::Array(list))
            }
            Some('"' | '\'') => self.string(false).map(Value::String),
            Some('r' | 'R')
                if self
                    .rest
                    .get(1..)
                    .is_some_and(|rest| rest.starts_with(['"', '\''])) =>
            {
                self.rest = self.rest.get(1..).unwrap_or_default();
                self.string(true).map(Value::String)
            }
            Some('0'..='9' | '-' | '+' | '.') => self.number(depth),
            Some(letter) if is_word(letter) => self.word(),
            Some(letter) => Err(self.fault(format!("{letter:?} begins no value"))),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Map<String, Value>, Fault> {
        let mut map = Map::new();
        self.items('}', |reader| {
            let before = reader.rest.len();
            let key = match reader.rest.trim_start().chars().next() {
                None => return Err(reader.cut("a key is missing")),
                Some('"' | '\'') => reader.value(depth + 1)?,
                Some(_) => return Err(reader.fault("a key without quotes")),
            };
            if !reader.take(':') {
                return Err(if reader.at_end() {
                    reader.cut("a value is missing")
                } else {
                    reader.fault("a colon is missing")
                });
            }
            reader.keys += 1;
            let value = reader.value(depth + 1)?;
            let Value::String(key) = key else {
                return Ok(());
            };
            if map.contains_key(&key) {
                let what = format!("the key {} is repeated in one object", snippet(&key));
                return Err(Fault {
                    left: before,
                    what,
                    cut: false,
                });
            }
            map.insert(key, value);
            Ok(())
        })?;
        Ok(map)
    }

    /// Parses the items between the bracket at the start and `close`, separated by commas. Adds a
    /// closing bracket that is missing at the end.
    pub(super) fn items(
        &mut self,
        close: char,
        mut item: impl FnMut(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.bump();
        let mut comma = false;
        while !self.take(close) {
            item(self)?;
            comma = self.take(',');
            if comma || self.rest.trim_start().starts_with(close) {
                continue;
            }
            if !self.at_end() {
                return Err(self.fault(format!("a comma or {close:?} is missing")));
            }
            self.repairs.note(Extraction::Truncated);
            return Ok(());
        }
        if comma {
            self.foreign(Extraction::TrailingComma);
        }
        Ok(())
    }

    fn string(&mut self, raw: bool) -> Result<String, Fault> {
        let end = match self.rest {
            rest if rest.starts_with("\"\"\"") => "\"\"\"",
            rest if rest.starts_with("'''") => "'''",
            rest if rest.starts_with('"') => "\"",
            _ => "'",
        };
        let quote = if end.starts_with('"') { '"' } else { '\'' };
        let python = self.syntax == Syntax::Python || raw || end != "\"";
        if python {
            self.foreign(Extraction::PythonLiteral);
        }
        self.rest = self.rest.strip_prefix(end).unwrap_or_default();
        let mut text = String::new();
        loop {
            let stop = |letter: char| letter == quote || letter == '\\' || letter < ' ';
            let Some((plain, rest)) = self
                .rest
                .find(stop)
                .and_then(|at| self.rest.split_at_checked(at))
            else {
                return Err(self.cut("a string is not closed"));
            };
            text.push_str(plain);
            self.rest = rest;
            if let Some(after) = rest.strip_prefix(end) {
                self.rest = after;
                return Ok(text);
            }
            match self.bump() {
                Some('\\') if raw => text.extend(['\\'].into_iter().chain(self.bump())),
                Some('\\') => self.escape(python, &mut text)?,
                Some(letter) => {
                    let allowed = end.len() == 3 || (python && !matches!(letter, '\n' | '\r'));
                    if letter < ' ' && !allowed {
                        self.repairs.note(Extraction::ControlChars);
                    }
                    text.push(letter);
                }
                None => return Err(self.cut("a string is not closed")),
            }
        }
    }

    /// Parses an escape after its backslash. JSON's escapes mean the same in both syntaxes.
    /// Python's other escapes are only accepted in a Python string: in JSON, `\1` or `\x` may be
    /// part of a regular expression with a missing second backslash. An escape that neither syntax
    /// knows is kept as written, as in Python.
    fn escape(&mut self, python: bool, text: &mut String) -> Result<(), Fault> {
        let before = self.rest;
        let Some(letter) = self.bump() else {
            return Err(self.cut("a string is not closed"));
        };
        let meant = match letter {
            '"' | '\\' => letter,
            '/' if !python => letter,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => self.unicode()?,
            'U' if python => self.code(8)?,
            'x' if python => self.code(2)?,
            'a' if python => '\u{7}',
            'v' if python => '\u{b}',
            '\n' if python => return Ok(()),
            '0'..='7' if python => {
                let digits = before.chars().take(3).take_while(|digit| digit.is_digit(8));
                let (length, code) = digits.fold((0, 0), |(length, code), digit| {
                    (length + 1, code * 8 + digit.to_digit(8).unwrap_or_default())
                });
                self.rest = before.get(length..).unwrap_or_default();
                char::from_u32(code).unwrap_or_default()
            }
            '\'' => {
                self.foreign(Extraction::PythonLiteral);
                letter
            }
            'U' | 'x' | 'a' | 'v' | 'N' | '0'..='9' => {
                return Err(self.fault(format!(
                    "\\{letter} is no JSON escape; a backslash is written \\\\"
                )));
            }
            other => {
                self.foreign(Extraction::PythonLiteral);
                text.push('\\');
                other
            }
        };
        text.push(meant);
        Ok(())
    }

    /// Parses a `\u` escape. If it is a high surrogate, the next escape must be the low one.
    fn unicode(&mut self) -> Result<char, Fault> {
        let first = self.hex(4)?;
        if let Some(letter) = char::from_u32(first) {
            return Ok(letter);
        }
        let low = match self.rest.strip_prefix("\\u") {
            Some(after) if first < 0xDC00 => {
                self.rest = after;
                self.hex(4)?
            }
            _ => 0,
        };
        if !(0xDC00..0xE000).contains(&low) {
            return Err(self.fault("half of a surrogate pair"));
        }
        let code = 0x1_0000 + ((first - 0xD800) << 10) + (low - 0xDC00);
        char::from_u32(code).ok_or_else(|| self.fault("half of a surrogate pair"))
    }

    fn code(&mut self, digits: usize) -> Result<char, Fault> {
        let code = self.hex(digits)?;
        char::from_u32(code).ok_or_else(|| self.fault("an escape that names no character"))
    }

    fn hex(&mut self, digits: usize) -> Result<u32, Fault> {
        let code = self
            .rest
            .get(..digits)
            .filter(|code| code.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let code = code.and_then(|code| u32::from_str_radix(code, 16).ok());
        let code = code.ok_or_else(|| {
            self.fault(format!("an escape without its {digits} hexadecimal digits"))
        })?;
        self.rest = self.rest.get(digits..).unwrap_or_default();
        Ok(code)
    }

    fn number(&mut self, depth: usize) -> Result<Value, Fault> {
        let part = |letter: char| is_word(letter) || matches!(letter, '.' | '+' | '-');
        let end = self
            .rest
            .find(|letter| !part(letter))
            .unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at_checked(end).unwrap_or_default();
        if rest.is_empty() && depth > 0 {
            return Err(self.cut("a number is the last thing, and may have more digits"));
        }
        let Some(shape) = Shape::of(token) else {
            return Err(self.fault(format!("{} is not a number", snippet(token))));
        };
        if shape.python {
            self.foreign(Extraction::PythonLiteral);
        }
        self.rest = rest;
        let number = if shape.integer {
            let signed = token.parse::<i64>().ok().map(Number::from);
            signed.or_else(|| token.parse::<u64>().ok().map(Number::from))
        } else {
            token.parse().ok().and_then(Number::from_f64)
        };
        Ok(number.map_or_else(
            || {
                self.repairs.note(Extraction::NumberAsText);
                Value::from(token)
            },
            Value::Number,
        ))
    }

    fn word(&mut self) -> Result<Value, Fault> {
        let end = self
            .rest
            .find(|letter| !is_word(letter))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end).unwrap_or_default();
        let value = match word {
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "None" => Value::Null,
            _ => {
                return Err(self.fault(format!(
                    "{} is not a value; put text in quotes",
                    snippet(word)
                )));
            }
        };
        if word.starts_with(char::is_uppercase) {
            self.foreign(Extraction::PythonLiteral);
        }
        self.rest = rest;
        Ok(value)
    }

    /// Removes `letter` and the whitespace before it from the start. Returns false and removes
    /// nothing if it isn't there.
    pub(super) fn take(&mut self, letter: char) -> bool {
        let after = self.rest.trim_start().strip_prefix(letter);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Returns whether the rest can't belong to the value: whitespace, the end of a code fence, or
    /// a line that `ends` matches.
    fn at_end(&self) -> bool {
        let after = self.rest.trim_start();
        let blank = consumed(self.rest, after);
        after.is_empty() || after.starts_with("```") || (blank.contains('\n') && (self.ends)(after))
    }

    pub(super) fn fault(&self, what: impl Into<String>) -> Fault {
        Fault {
            left: self.rest.len(),
            what: what.into(),
            cut: false,
        }
    }

    pub(super) fn cut(&self, what: &str) -> Fault {
        Fault {
            cut: true,
            ..self.fault(what)
        }
    }

    /// Records Python's spelling as a repair, unless Python is expected.
    fn foreign(&mut self, repair: Extraction) {
        if self.syntax == Syntax::Json {
            self.repairs.note(repair);
        }
    }

    fn bump(&mut self) -> Option<char> {
        let mut letters = self.rest.chars();
        let letter = letters.next();
        self.rest = letters.as_str();
        letter
    }
}

/// Returns the part of `text` before `rest`, which is its end.
pub(super) fn consumed<'t>(text: &'t str, rest: &str) -> &'t str {
    text.get(..text.len().saturating_sub(rest.len()))
        .unwrap_or_default()
}

pub(super) fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The syntax of a number.
struct Shape {
    integer: bool,
    /// Only Python allows `+1`, `.5` and `5.`.
    python: bool,
}

impl Shape {
    /// Returns `None` if the token isn't a decimal number or has a leading zero.
    fn of(token: &str) -> Option<Self> {
        let digits = |text: &str| {
            text.len()
                - text
                    .trim_start_matches(|digit: char| digit.is_ascii_digit())
                    .len()
        };
        let body = token.strip_prefix(['+', '-']).unwrap_or(token);
        let whole = digits(body);
        let mut rest = body.get(whole..)?;
        let mut fraction = None;
        if let Some(after) = rest.strip_prefix('.') {
            fraction = Some(digits(after));
            rest = after.get(digits(after)..)?;
        }
        let mut integer = fraction.is_none();
        if let Some(after) = rest.strip_prefix(['e', 'E']) {
            let power = after.strip_prefix(['+', '-']).unwrap_or(after);
            integer = false;
            rest = power.get(digits(power)..).filter(|_| digits(power) > 0)?;
        }
        let any = whole + fraction.unwrap_or_default() > 0;
        if !any || !rest.is_empty() || (whole > 1 && body.starts_with('0')) {
            return None;
        }
        Some(Self {
            integer,
            python: token.starts_with('+') || whole == 0 || fraction == Some(0),
        })
    }
}
