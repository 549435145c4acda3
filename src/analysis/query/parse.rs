//! Parses and writes the text of a query. Every step consumes input, so parsing is linear and
//! always terminates.

use std::fmt;

use super::calendar::{self, CalendarField, CalendarValues};
use super::words::{self, Amount, Bound, Clock, Key, Needle, Unit};
use super::{Ignored, Query, Term, Test};
use crate::analysis::closest::did_you_mean;
use crate::analysis::columns::{COLUMNS, Column, Kind, TAG};

/// Terms after this many are ignored, as is a term with more values than [`MAX_VALUES`]. Both
/// limits bound the work of a match.
const MAX_TERMS: usize = 64;
const MAX_VALUES: usize = 64;

type Parsed<T> = Result<T, String>;

impl Query {
    /// Parses a query. Relative dates such as `today` refer to the current time in the zone of the
    /// system. Never fails: see [`Query::ignored`].
    pub fn parse(text: &str) -> Self {
        Self::parse_at(text, &Clock::system())
    }

    /// Parses a query whose relative dates refer to `clock`.
    pub fn parse_at(text: &str, clock: &Clock) -> Self {
        let mut query = Self::default();
        let mut rest = text.trim();
        while !rest.is_empty() {
            if query.terms.len() + query.ignored.len() >= MAX_TERMS {
                let why = format!("a query has at most {MAX_TERMS} terms");
                query.ignored.push(Ignored {
                    text: rest.to_owned(),
                    why,
                });
                break;
            }
            let (term, after) = term(rest, clock);
            match term {
                Ok(term) => query.terms.push(term),
                Err(why) => {
                    let text = rest
                        .strip_suffix(after)
                        .unwrap_or(rest)
                        .trim_end()
                        .to_owned();
                    query.ignored.push(Ignored { text, why });
                }
            }
            rest = after.trim_start();
        }
        query
    }
}

/// Returns whether `text` parses as one free word without quotes.
fn is_word(text: &str) -> bool {
    let unbroken = !text.is_empty() && !text.contains(char::is_whitespace);
    unbroken && !text.starts_with(['-', '"']) && head(text).is_none() && misread(text).is_none()
}

/// Returns a hint for a word that looks like an operator of another query language. As free text it
/// would rarely match anything, and the user wouldn't learn why.
fn misread(word: &str) -> Option<&'static str> {
    let after_name =
        word.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
    let inner = word.trim_start_matches('(');
    Some(match word {
        "or" | "OR" | "||" => {
            "to match either of two values, write field:a,b. To search for the word, put it in quotes"
        }
        "and" | "AND" | "&&" => {
            "all terms must match anyway. To search for the word, put it in quotes"
        }
        "NOT" => "to negate a term, write -field:value. To search for the word, put it in quotes",
        _ if word.starts_with('-') => {
            "a single minus sign negates a term. To search for the text, put it in quotes"
        }
        _ if after_name.len() < word.len() && after_name.starts_with("!=") => {
            "to negate a term, write -field:value"
        }
        _ if inner.len() < word.len() && head(inner).is_some() => "parentheses aren't supported",
        _ => return None,
    })
}

/// Parses the first term of `text` and returns it with the rest of the text.
fn term<'a>(text: &'a str, clock: &Clock) -> (Parsed<Term>, &'a str) {
    let (negated, body) = match text.strip_prefix('-') {
        Some(body) => (true, body),
        None => (false, text),
    };
    if body.is_empty() || body.starts_with(char::is_whitespace) {
        return (
            Err("a minus sign must directly precede the term it negates".to_owned()),
            body,
        );
    }
    let (test, after) = if body.starts_with('"') {
        let (words, after) = quoted(body);
        let test = if words.is_empty() {
            Err("there is no text between the quotes".to_owned())
        } else {
            Ok(words)
        };
        (test.map(|words| Test::Text(Needle::new(words))), after)
    } else if let Some((head, after)) = head(body) {
        field(head, after, clock)
    } else {
        let (word, after) = split(body, char::is_whitespace);
        (
            misread(word).map_or_else(
                || Ok(Test::Text(Needle::new(word))),
                |why| Err(why.to_owned()),
            ),
            after,
        )
    };
    (test.map(|test| Term { negated, test }), after)
}

/// The part of a term before its operator.
enum Head<'a> {
    Name(&'a str),
    State(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Colon,
    Equal,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// Parses `name` if an operator follows, or `state.KEY` with or without one.
fn head(text: &str) -> Option<(Head<'_>, &str)> {
    const STATE: &str = "state.";
    if text
        .get(..STATE.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(STATE))
    {
        let text = text.get(STATE.len()..)?;
        if text.starts_with('"') {
            let (key, after) = quoted(text);
            return Some((Head::State(key), after));
        }
        let (key, after) = split(text, Key::ends);
        return Some((Head::State(key.to_owned()), after));
    }
    let (name, after) = split(text, |c| {
        !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.')
    });
    (name.starts_with(|c: char| c.is_ascii_alphabetic()) && operator(after).is_some())
        .then_some((Head::Name(name), after))
}

fn operator(text: &str) -> Option<(Operator, &str)> {
    [
        ("<=", Operator::AtMost),
        (">=", Operator::AtLeast),
        ("<", Operator::Less),
        (">", Operator::More),
        ("=", Operator::Equal),
        (":", Operator::Colon),
    ]
    .into_iter()
    .find_map(|(sign, operator)| Some((operator, text.strip_prefix(sign)?)))
}

fn field<'a>(head: Head<'_>, text: &'a str, clock: &Clock) -> (Parsed<Test>, &'a str) {
    let Some((operator, text)) = operator(text) else {
        return changed(head, text);
    };
    let (values, after) = values(text);
    let test = match head {
        _ if values.len() > MAX_VALUES => Err(format!("a term has at most {MAX_VALUES} values")),
        Head::State(key) if key.is_empty() => Err("state. must be followed by a key".to_owned()),
        // Neither summaries nor indexes contain values of the state. Matching nothing would look
        // like an answer.
        Head::State(key) => Err(format!(
            "queries can't match values of the state. state.{key} changed finds runs in which the key changed",
            key = Key(&key)
        )),
        Head::Name(name) => match (Column::find(name), CalendarField::find(name)) {
            (Some(field), _) => of_column(field, operator, values, clock),
            (None, Some(field)) => of_calendar(field, operator, &values, clock),
            (None, None) => Err(unknown(name)),
        },
    };
    (test, after)
}

/// The word for a missing value. In quotes, it's a normal value.
const NONE: &str = "none";

fn of_column(
    field: &'static Column,
    operator: Operator,
    values: Vec<Given>,
    clock: &Clock,
) -> Parsed<Test> {
    let is_none = |value: &Given| !value.is_quoted && value.text.eq_ignore_ascii_case(NONE);
    if takes_list(operator) && values.iter().any(is_none) {
        // Lists show a word for a missing text of some fields. Menus and groups use it too.
        let Some(absent) = field.absent_word() else {
            if values.iter().all(is_none) {
                return Ok(Test::Absent { field });
            }
            return Err(format!(
                "{name}:none can't be combined with other values; write -{name}:VALUE to exclude one",
                name = field.name
            ));
        };
        let text = |value: Given| match is_none(&value) {
            true => absent.to_owned(),
            false => value.text,
        };
        // Alone, it's the whole word.
        let operator = match values.iter().all(is_none) {
            true => Operator::Equal,
            false => operator,
        };
        return word(field, operator, values.into_iter().map(text).collect());
    }
    let values: Vec<String> = values.into_iter().map(|value| value.text).collect();
    if field.is_text() {
        return word(field, operator, values);
    }
    match Unit::of(field) {
        Some(unit) => number(field, (unit, clock), operator, &values),
        None => flag(field, operator, &values),
    }
}

fn of_calendar(
    field: CalendarField,
    operator: Operator,
    values: &[Given],
    clock: &Clock,
) -> Parsed<Test> {
    let last = field.count() - 1;
    let is_hour = field == CalendarField::Hour;
    let bits = |given: &Given| {
        let text = given.text.as_str();
        match operator {
            Operator::Less if is_hour => match field.value(text)? {
                0 => Some(0),
                hour => Some(calendar::between(field, 0, hour - 1)),
            },
            Operator::AtMost if is_hour => Some(calendar::between(field, 0, field.value(text)?)),
            Operator::More if is_hour => match field.value(text)? {
                hour if hour == last => Some(0),
                hour => Some(calendar::between(field, hour + 1, last)),
            },
            Operator::AtLeast if is_hour => {
                Some(calendar::between(field, field.value(text)?, last))
            }
            Operator::Colon | Operator::Equal => match text.split_once("..") {
                None => field.value(text).map(|value| 1 << value),
                Some(("", "")) => None,
                Some(("", high)) => Some(calendar::between(field, 0, field.value(high)?)),
                Some((low, "")) => Some(calendar::between(field, field.value(low)?, last)),
                Some((low, high)) => Some(calendar::between(
                    field,
                    field.value(low)?,
                    field.value(high)?,
                )),
            },
            _ => None,
        }
    };
    let all: Option<Vec<u32>> = values.iter().map(bits).collect();
    let all = all.filter(|all| !all.is_empty() && (all.len() == 1 || takes_list(operator)));
    let bits = all.map(|all| all.into_iter().fold(0, |sum, bits| sum | bits));
    bits.filter(|bits| *bits != 0)
        .map(|values| {
            Test::Calendar(CalendarValues {
                field,
                values,
                zone: clock.zone().clone(),
            })
        })
        .ok_or_else(|| match field {
            CalendarField::Weekday => {
                "weekday needs a day, such as weekday:mon, weekday:sat,sun or weekday:mon..fri"
                    .to_owned()
            }
            CalendarField::Hour => {
                "hour needs a number from 0 to 23, such as hour:9, hour:9..17 or hour<6".to_owned()
            }
        })
}

/// Returns the names of all fields that a term can have.
pub fn names() -> impl Iterator<Item = &'static str> {
    let columns = COLUMNS.iter().map(|column| column.name);
    columns.chain(CalendarField::ALL.map(CalendarField::name))
}

fn unknown(name: &str) -> String {
    let close = did_you_mean(name, names());
    format!("no field is called `{name}`{close}. Put the term in quotes to search for its text")
}

/// Parses the word `changed` after `state.KEY`.
fn changed<'a>(head: Head<'_>, text: &'a str) -> (Parsed<Test>, &'a str) {
    let (word, after) = split(text.trim_start(), char::is_whitespace);
    match head {
        Head::State(key)
            if !key.is_empty() && text.starts_with(char::is_whitespace) && is_changed(word) =>
        {
            (Ok(Test::Changed { key }), after)
        }
        _ => {
            let (_, after) = split(text, char::is_whitespace);
            (
                Err("only `state.KEY changed` is supported".to_owned()),
                after,
            )
        }
    }
}

fn is_changed(word: &str) -> bool {
    word.eq_ignore_ascii_case("changed")
}

fn word(field: &'static Column, operator: Operator, values: Vec<String>) -> Parsed<Test> {
    let whole = match operator {
        Operator::Colon => !is_open(field),
        Operator::Equal => true,
        _ => {
            return Err(format!(
                "{name} is text and can't be compared with < or >; write {name}:value",
                name = field.name
            ));
        }
    };
    let any: Vec<Needle> = values
        .into_iter()
        .filter(|value| !value.is_empty())
        .map(Needle::new)
        .collect();
    if any.is_empty() {
        return Err(format!("expected a value, as in {}:VALUE", field.name));
    }
    Ok(Test::Word { field, whole, any })
}

fn number(
    field: &'static Column,
    (unit, clock): (Unit, &Clock),
    operator: Operator,
    values: &[String],
) -> Parsed<Test> {
    let expected = || {
        let name = field.name;
        match unit {
            _ if matches!(field.kind, Kind::Usd(_)) => {
                format!(
                    "{name} needs an amount in dollars, such as {name}<0.5, {name}>=2 or {name}:0.1..1"
                )
            }
            _ if matches!(field.kind, Kind::Score(_)) => {
                format!("{name} needs a number, such as {name}<0.5, {name}>=0.8 or {name}:0.2..0.5")
            }
            Unit::Seconds => {
                format!("{name} needs a time, such as {name}<90s, {name}>2m or {name}:250ms..1h")
            }
            Unit::Moment => format!(
                "{name} needs a date, such as {name}:2026-02-22, {name}:2026-02-01..2026-02-28 or {name}>2026-02-22T09:15, or a relative one, such as {name}:today or {name}>7d"
            ),
            Unit::Count => {
                format!("{name} needs a number, such as {name}<5, {name}>=10k or {name}:2..8")
            }
        }
    };
    let any: Option<Vec<Bound>> = values
        .iter()
        .map(|value| bound(operator, value, (unit, clock)))
        .collect();
    match any {
        Some(any) if !any.is_empty() && (any.len() == 1 || takes_list(operator)) => {
            Ok(Test::Number { field, any })
        }
        _ => Err(expected()),
    }
}

fn takes_list(operator: Operator) -> bool {
    matches!(operator, Operator::Colon | Operator::Equal)
}

/// Parses `5`, `2..8`, `2..`, `..8`, and after a colon also `<5`.
fn bound(operator: Operator, text: &str, (unit, clock): (Unit, &Clock)) -> Option<Bound> {
    let amount = || Amount::parse(text, unit, clock);
    // `started:7d` means the last 7 days, not one moment.
    let is = |amount: Amount| match amount.is_ago() {
        true => Bound::Between(Some(amount), None),
        false => Bound::Is(amount),
    };
    match operator {
        Operator::Less => Some(Bound::Less(amount()?)),
        Operator::AtMost => Some(Bound::AtMost(amount()?)),
        Operator::More => Some(Bound::More(amount()?)),
        Operator::AtLeast => Some(Bound::AtLeast(amount()?)),
        Operator::Equal => Some(is(amount()?)),
        Operator::Colon => {
            if let Some((inner, text)) = self::operator(text) {
                return (!takes_list(inner)).then(|| bound(inner, text, (unit, clock)))?;
            }
            let Some((low, high)) = text.split_once("..") else {
                return Some(is(amount()?));
            };
            let end = |text: &str| {
                if text.is_empty() {
                    Some(None)
                } else {
                    Amount::parse(text, unit, clock).map(Some)
                }
            };
            match (end(low)?, end(high)?) {
                (None, None) => None,
                (Some(low), Some(high)) if low.value() > high.value() => None,
                (low, high) => Some(Bound::Between(low, high)),
            }
        }
    }
}

fn flag(field: &'static Column, operator: Operator, values: &[String]) -> Parsed<Test> {
    match values {
        [value] if takes_list(operator) && value.eq_ignore_ascii_case("true") => Ok(Test::Flag {
            field,
            wanted: true,
        }),
        [value] if takes_list(operator) && value.eq_ignore_ascii_case("false") => Ok(Test::Flag {
            field,
            wanted: false,
        }),
        _ => Err(format!(
            "write {name}:true or {name}:false",
            name = field.name
        )),
    }
}

/// A value as written.
struct Given {
    text: String,
    is_quoted: bool,
}

/// Parses `a,"b c",d`, skipping empty items.
fn values(mut text: &str) -> (Vec<Given>, &str) {
    let mut values = Vec::new();
    loop {
        if text.starts_with('"') {
            let (text_within, after) = quoted(text);
            values.push(Given {
                text: text_within,
                is_quoted: true,
            });
            text = after;
        } else {
            let (value, after) = split(text, |c| c == ',' || c.is_whitespace());
            if !value.is_empty() {
                values.push(Given {
                    text: value.to_owned(),
                    is_quoted: false,
                });
            }
            text = after;
        }
        match text.strip_prefix(',') {
            Some(after) => text = after,
            None => return (values, text),
        }
    }
}

/// Parses quoted text. Without a closing quote it extends to the end, as while a query is being
/// typed.
fn quoted(text: &str) -> (String, &str) {
    let mut out = String::new();
    let mut chars = text.strip_prefix('"').unwrap_or(text).chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' if chars.as_str().starts_with(['"', '\\']) => out.extend(chars.next()),
            _ => out.push(c),
        }
    }
    (out, chars.as_str())
}

/// Splits before the first character for which `ends` returns true.
fn split(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.find(ends)
        .and_then(|at| text.split_at_checked(at))
        .unwrap_or((text, ""))
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        for term in &self.terms {
            write!(f, "{gap}{term}")?;
            gap = " ";
        }
        for ignored in &self.ignored {
            write!(f, "{gap}{}", ignored.text)?;
            gap = " ";
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.negated { "-" } else { "" }, self.test)
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Text(needle) if is_word(needle.text()) => f.write_str(needle.text()),
            Test::Text(needle) => words::quoted(needle.text(), f),
            Test::Word { field, whole, any } => {
                write!(
                    f,
                    "{}{}",
                    field.name,
                    if *whole && is_open(field) { "=" } else { ":" }
                )?;
                listed(any.iter(), f)
            }
            Test::Number { field, any } => {
                f.write_str(field.name)?;
                bounds(any, f)
            }
            Test::Flag { field, wanted } => write!(f, "{}:{wanted}", field.name),
            Test::Calendar(values) => write!(f, "{values}"),
            Test::Absent { field } => write!(f, "{}:{NONE}", field.name),
            Test::Changed { key } => write!(f, "state.{} changed", Key(key)),
        }
    }
}

/// Returns whether the words of `field` are free text, so that `:` matches a part of one. The other
/// fields have fixed words, and there `stop:final` must not match `final_result`. Nor must `tag:v1`
/// match `v10`, which names another set of runs.
fn is_open(field: &Column) -> bool {
    !matches!(field.kind, Kind::Word(_)) && *field != *TAG
}

fn bounds(any: &[Bound], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let [bound] = any
        && bound.is_comparison()
    {
        return write!(f, "{bound}");
    }
    f.write_str(":")?;
    listed(any.iter(), f)
}

fn listed(
    values: impl Iterator<Item = impl fmt::Display>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for (index, value) in values.enumerate() {
        write!(f, "{}{value}", if index == 0 { "" } else { "," })?;
    }
    Ok(())
}
