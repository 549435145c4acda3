//! Completes the filter: the fields that start with the typed letters, or the values of a field, with
//! the number of runs that have each.
//!
//! All numbers come from memory, because every keystroke requests them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::columns::{COLUMNS, Column, Kind};
use crate::analysis::format;
use crate::analysis::query::{CalendarField, Clock, Needle, Query};
use crate::analysis::summary::Summary;
use crate::page::answer::json;
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::Answer;
use crate::page::params::Params;

/// Maximum number of completions.
const MAX_ITEMS: usize = 12;
/// The length of the typed text, at most; characters. A longer one isn't completed.
const MAX_TYPED: usize = 2_000;
/// Longer values aren't offered; characters.
const MAX_VALUE: usize = 80;
/// Maximum number of different values that are counted. Each run may have its own.
const MAX_VALUES: usize = 5_000;
/// Maximum number of spellings of a value that are counted separately.
const MAX_SPELLINGS: usize = 8;
/// The dates that are offered.
const DATES: [(&str, &str); 5] = [
    ("today", "since midnight"),
    ("yesterday", "the day before"),
    ("24h", "the last 24 hours"),
    ("7d", "the last 7 days"),
    ("30d", "the last 30 days"),
];

/// The word in queries for a missing value.
const NONE: &str = "none";

/// What may come next in a filter.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Completions {
    /// `Fields`, or the field whose values these are.
    heading: String,
    /// The end of the text before the caret that a completion replaces.
    replaces: String,
    /// The start of the text after the caret that it replaces too.
    replaces_after: String,
    items: Vec<Completion>,
    /// The number of further completions.
    more: usize,
    /// Whether there are even more values, which weren't counted because there are too many.
    more_uncounted: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Completion {
    /// The text to insert.
    text: String,
    /// What it means.
    about: String,
    /// The runs that match the rest of the filter and have it.
    count: usize,
}

/// `GET /api/complete?q=TEXT&rest=TEXT`: `q` is the filter up to the caret, `rest` the part after it.
pub(crate) async fn api(State(state): State<AppState>, params: Params) -> Answer {
    let (typed, rest) = (params.text("q").to_owned(), params.text("rest").to_owned());
    if typed.chars().count() + rest.chars().count() > MAX_TYPED {
        return json(&Completions::default());
    }
    let clock = state.clock();
    let turn = state.completions.take().await?;
    let found = blocking(move || {
        let _turn = turn;
        let token = Token::at(&typed, &rest);
        let others = Query::parse_at(&format!("{} {}", token.before, token.after), &clock);
        let (runs, _) = state.library.listed(others.asks_for_copies());
        let runs = runs.iter().map(|run| run.summary());
        let runs: Vec<Arc<Summary>> = runs.filter(|run| others.matches(&**run)).collect();
        completions(token, &runs, &clock)
    });
    json(&found.await?)
}

/// The position of a character in a filter.
#[derive(Debug, Clone, Copy, Default)]
struct Quotes {
    is_open: bool,
    is_escaped: bool,
}

impl Quotes {
    /// Takes the next character. Returns whether it's outside quotes and can end a term.
    fn is_outside(&mut self, c: char) -> bool {
        match c {
            _ if self.is_escaped => {
                self.is_escaped = false;
                false
            }
            '\\' if self.is_open => {
                self.is_escaped = true;
                false
            }
            '"' => {
                self.is_open = !self.is_open;
                false
            }
            _ => !self.is_open,
        }
    }
}

/// Returns the text after the last end outside quotes, and how the text leaves the quotes.
fn after_last(text: &str, ends: impl Fn(char) -> bool) -> (&str, Quotes) {
    let (mut start, mut quotes) = (0, Quotes::default());
    for (at, c) in text.char_indices() {
        if quotes.is_outside(c) && ends(c) {
            start = at + c.len_utf8();
        }
    }
    (text.get(start..).unwrap_or_default(), quotes)
}

/// Splits before the first end outside quotes.
fn split_first(text: &str, mut quotes: Quotes, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.char_indices()
        .find(|(_, c)| quotes.is_outside(*c) && ends(*c))
        .and_then(|(at, _)| text.split_at_checked(at))
        .unwrap_or((text, ""))
}

/// The term of a filter that the caret is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token<'a> {
    /// The terms before it.
    before: &'a str,
    /// The term up to the caret.
    typed: &'a str,
    /// The term from the caret on. Empty at the start of a term, because a new one is typed there.
    tail: &'a str,
    /// The terms after it.
    after: &'a str,
}

impl<'a> Token<'a> {
    fn at(text: &'a str, rest: &'a str) -> Self {
        let (typed, quotes) = after_last(text, char::is_whitespace);
        let (tail, after) = match typed {
            "" => ("", rest),
            _ => split_first(rest, quotes, char::is_whitespace),
        };
        Self {
            before: text.strip_suffix(typed).unwrap_or_default(),
            typed,
            tail,
            after,
        }
    }
}

fn completions(token: Token<'_>, runs: &[Arc<Summary>], clock: &Clock) -> Completions {
    let term = token.typed.strip_prefix('-').unwrap_or(token.typed);
    let split = term
        .find([':', '='])
        .and_then(|at| term.split_at_checked(at));
    let Some((name, typed)) = split else {
        return Completions {
            replaces_after: token.tail.to_owned(),
            ..fields(term, runs)
        };
    };
    let is_comma = |c: char| c == ',';
    let (value, quotes) = after_last(typed.get(1..).unwrap_or_default(), is_comma);
    let found = match (Column::find(name), CalendarField::find(name)) {
        (Some(field), _) => values(field, value, runs, clock),
        (None, Some(field)) => of_calendar(field, value, runs, clock),
        (None, None) => return Completions::default(),
    };
    Completions {
        replaces_after: split_first(token.tail, quotes, is_comma).0.to_owned(),
        ..found
    }
}

/// Returns the days or the hours that start with `typed`, in their order.
fn of_calendar(
    field: CalendarField,
    typed: &str,
    runs: &[Arc<Summary>],
    clock: &Clock,
) -> Completions {
    let mut counts = [0; 24];
    for run in runs {
        let value = run.started.and_then(|at| field.at(at, clock.zone()));
        if let Some(count) = value.and_then(|value| counts.get_mut(value as usize)) {
            *count += 1;
        }
    }
    let values = (0..field.count()).zip(counts);
    let items = values.map(|(value, count)| Completion {
        text: field.word(value),
        about: String::new(),
        count,
    });
    let start = typed.to_lowercase();
    let mut items: Vec<Completion> = items
        .filter(|item| item.count > 0 && item.text.starts_with(&start))
        .collect();
    let more = items.len().saturating_sub(MAX_ITEMS);
    items.truncate(MAX_ITEMS);
    Completions {
        heading: format::capitalised(field.name()),
        replaces: typed.to_owned(),
        replaces_after: String::new(),
        items,
        more,
        more_uncounted: false,
    }
}

/// Returns the fields that start with `typed`.
fn fields(typed: &str, runs: &[Arc<Summary>]) -> Completions {
    let typed = typed.to_lowercase();
    let mut matching: Vec<&'static Column> = COLUMNS
        .iter()
        .filter(|field| field.name.starts_with(&typed))
        .collect();
    // Fields with values to choose from come before numbers.
    matching.sort_by_key(|field| sign(field) == ">");
    let of_calendar = CalendarField::ALL.into_iter();
    let of_calendar = of_calendar.filter(|field| field.name().starts_with(&typed));
    let all = matching.len() + of_calendar.clone().count();
    let of_calendar = of_calendar.map(|field| Completion {
        text: format!("{}:", field.name()),
        about: field.about().to_owned(),
        count: runs.iter().filter(|run| run.started.is_some()).count(),
    });
    let columns = matching.iter().map(|field| Completion {
        text: format!("{}{}", field.name, sign(field)),
        about: about(field),
        count: runs.iter().filter(|run| field.is_recorded(run)).count(),
    });
    Completions {
        heading: "Fields".to_owned(),
        items: columns.chain(of_calendar).take(MAX_ITEMS).collect(),
        more: all.saturating_sub(MAX_ITEMS),
        more_uncounted: false,
        replaces: typed,
        replaces_after: String::new(),
    }
}

/// Returns the usual operator of a field.
fn sign(field: &Column) -> &'static str {
    match field.kind {
        Kind::Count(_) | Kind::Score(_) | Kind::Millis(_) | Kind::Usd(_) => ">",
        Kind::Word(_) | Kind::Text(_) | Kind::List(_) | Kind::Time(_) | Kind::Flag(_) => ":",
    }
}

fn about(field: &Column) -> String {
    let name = field.name;
    match field.kind {
        Kind::Count(_) => format!("number: {name}>20, {name}:5..10"),
        Kind::Score(_) => format!("score: {name}<0.5, {name}:0.2..0.5"),
        Kind::Millis(_) => format!("time: {name}>2m, {name}<90s"),
        Kind::Usd(_) => format!("dollars: {name}>0.10"),
        Kind::Time(_) => format!("today, 7d, {name}>2h, 2026-02-22..2026-02-28"),
        _ => field.about.to_owned(),
    }
}

/// Returns the values of `field` that contain `typed`. Values that start with it come first.
fn values(
    field: &'static Column,
    typed: &str,
    runs: &[Arc<Summary>],
    clock: &Clock,
) -> Completions {
    let start = typed.trim_matches('"');
    let mut more_uncounted = false;
    let mut found: Vec<Completion> = match field.kind {
        Kind::Word(_) | Kind::Text(_) | Kind::List(_) => {
            let counted = Words::of(field, start, runs);
            more_uncounted = counted.is_full;
            counted.completions(start)
        }
        Kind::Flag(_) => ["true", "false"]
            .into_iter()
            .filter(|word| word.starts_with(start))
            .map(|word| Completion {
                text: word.to_owned(),
                about: String::new(),
                count: runs
                    .iter()
                    .filter(|run| field.flag(run) == Some(word == "true"))
                    .count(),
            })
            .collect(),
        Kind::Time(_) => DATES
            .into_iter()
            .filter(|(word, _)| word.starts_with(start))
            .map(|(word, about)| {
                let query = Query::parse_at(&format!("{}:{word}", field.name), clock);
                Completion {
                    text: word.to_owned(),
                    about: about.to_owned(),
                    count: runs.iter().filter(|run| query.matches(&***run)).count(),
                }
            })
            .collect(),
        Kind::Count(_) | Kind::Score(_) | Kind::Millis(_) | Kind::Usd(_) => Vec::new(),
    };
    // Lists have their own word for a missing text.
    if field.absent_word().is_none() && NONE.starts_with(typed) {
        let count = runs.iter().filter(|run| !field.is_recorded(run)).count();
        found.extend((count > 0).then(|| Completion {
            text: NONE.to_owned(),
            about: "not recorded".to_owned(),
            count,
        }));
    }
    let more = found.len().saturating_sub(MAX_ITEMS);
    found.truncate(MAX_ITEMS);
    Completions {
        heading: format::capitalised(field.label),
        replaces: typed.to_owned(),
        replaces_after: String::new(),
        items: found,
        more,
        more_uncounted,
    }
}

/// The runs of each value, by the value in lower case, because a query matches every spelling.
#[derive(Default)]
struct Words {
    spellings: HashMap<String, Vec<(String, usize)>>,
    /// Whether there were more than [`MAX_VALUES`].
    is_full: bool,
}

impl Words {
    /// Counts the values of `field` that contain `start`.
    fn of(field: &'static Column, start: &str, runs: &[Arc<Summary>]) -> Self {
        let needle = Needle::new(start);
        let mut counted = Self::default();
        for run in runs {
            // A run may have a value twice, in two spellings.
            let mut own: Vec<String> = Vec::new();
            field.words(run, &mut |word| {
                let is_short = word.chars().nth(MAX_VALUE).is_none();
                if word.is_empty() || !is_short || field.is_alias(word) || !needle.within(word) {
                    return;
                }
                let folded = word.to_lowercase();
                if own.contains(&folded) {
                    return;
                }
                counted.count(&folded, word);
                own.push(folded);
            });
        }
        counted
    }

    fn count(&mut self, folded: &str, word: &str) {
        if let Some(spellings) = self.spellings.get_mut(folded) {
            let at = spellings.iter().position(|(spelling, _)| spelling == word);
            let is_new = at.is_none() && spellings.len() < MAX_SPELLINGS;
            if is_new {
                spellings.push((word.to_owned(), 1));
            } else if let Some((_, count)) = spellings.get_mut(at.unwrap_or_default()) {
                *count += 1;
            }
        } else if self.spellings.len() < MAX_VALUES {
            let first = vec![(word.to_owned(), 1)];
            self.spellings.insert(folded.to_owned(), first);
        } else {
            self.is_full = true;
        }
    }

    /// Returns the values in their most frequent spelling: those that start with `start` first, then
    /// by frequency.
    fn completions(self, start: &str) -> Vec<Completion> {
        let start = start.to_lowercase();
        let value = |(folded, spellings): (String, Vec<(String, usize)>)| {
            let count: usize = spellings.iter().map(|(_, count)| count).sum();
            let most = |(word, count): &(String, usize)| (Reverse(*count), word.clone());
            let usual = spellings.iter().map(most).min()?;
            Some((!folded.starts_with(&start), Reverse(count), usual))
        };
        let mut found: Vec<_> = self.spellings.into_iter().filter_map(value).collect();
        found.sort_unstable();
        let completion =
            |(_, Reverse(count), (_, word)): (bool, Reverse<usize>, (_, String))| Completion {
                text: Needle::new(&word).to_string(),
                about: String::new(),
                count,
            };
        found.into_iter().map(completion).collect()
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::analysis::columns::MODEL;
    use crate::analysis::select::sample::run;
    use crate::analysis::verdict::RunStatus;

    fn complete(typed: &str) -> (String, Vec<(String, usize)>) {
        let mut runs = [
            run("a", RunStatus::Answered, Some("final")),
            run("b", RunStatus::Limit, Some("budget_steps")),
            run("c", RunStatus::Answered, Some("final")),
        ];
        for (run, model) in runs.iter_mut().zip(["qwen3", "Qwen3 8B", "big-qwen"]) {
            run.model = Some(model.into());
        }
        let runs: Vec<Arc<Summary>> = runs.into_iter().map(Arc::new).collect();
        let clock = Clock::at(0, &TimeZone::UTC);
        let found = completions(Token::at(typed, ""), &runs, &clock);
        let items = found.items.into_iter();
        (
            found.replaces,
            items.map(|item| (item.text, item.count)).collect(),
        )
    }

    #[test]
    fn the_term_at_the_caret_is_completed() {
        let token = |text, rest| {
            let token = Token::at(text, rest);
            (token.before, token.typed, token.tail, token.after)
        };
        assert_eq!(token("a b", ""), ("a ", "b", "", ""));
        assert_eq!(token("a ", "b c"), ("a ", "", "", "b c"));
        assert_eq!(token("a b", "c d"), ("a ", "b", "c", " d"));
        assert_eq!(
            token("a task:\"two wo", "rds\",b c"),
            ("a ", "task:\"two wo", "rds\",b", " c")
        );
        assert_eq!(
            token("task:\"a \\\" b\" -st", ""),
            ("task:\"a \\\" b\" ", "-st", "", "")
        );
    }

    #[test]
    fn the_rest_of_a_word_or_value_is_replaced() {
        let replaced = |typed: &str, rest: &str| {
            let run = run("a", RunStatus::Answered, Some("final"));
            let token = Token::at(typed, rest);
            let found = completions(token, &[Arc::new(run)], &Clock::at(0, &TimeZone::UTC));
            (found.replaces, found.replaces_after)
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(replaced("x st", "atus:a y"), pair("st", "atus:a"));
        assert_eq!(replaced("stop:fi", "nal,b c"), pair("fi", "nal"));
        assert_eq!(replaced("task:\"a,b", ",c\",d e"), pair("\"a,b", ",c\""));
        assert_eq!(replaced("task:\"a,b\",c", "d"), pair("c", "d"));
    }

    #[test]
    fn fields_start_with_the_typed_letters() {
        let (replaces, items) = complete("zzz -ST");
        let names: Vec<&str> = items.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(replaces, "st");
        for name in ["status:", "stop:", "started:", "steps>"] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert!(items.contains(&("stop:".to_owned(), 3)));
        assert_eq!(complete("nothing-is-called-so").1, []);
    }

    #[test]
    fn a_value_is_offered_in_one_spelling() {
        let mut runs = ["a", "b", "c", "d"].map(|key| run(key, RunStatus::Answered, None));
        for (run, model) in runs.iter_mut().zip(["Qwen", "qwen", "Qwen"]) {
            run.model = Some(model.into());
        }
        let runs = runs.map(Arc::new);
        let found = |typed: &str| {
            let clock = Clock::at(0, &TimeZone::UTC);
            let found = completions(Token::at(typed, ""), &runs, &clock);
            let items = found.items.into_iter();
            let items: Vec<_> = items.map(|item| (item.text, item.count)).collect();
            items
        };
        assert_eq!(found("model:q"), [("Qwen".to_owned(), 3)]);
        let absent = format!("\"{}\"", MODEL.word(&runs[3]));
        assert!(absent.contains(' '), "{absent}");
        assert_eq!(found("model:"), [("Qwen".to_owned(), 3), (absent, 1)]);
    }

    #[test]
    fn the_values_that_are_counted_are_bounded() {
        let complete = |models: &mut dyn Iterator<Item = String>, typed: &str| {
            let run = |model: String| {
                let mut run = run("a", RunStatus::Answered, None);
                run.model = Some(model.as_str().into());
                Arc::new(run)
            };
            let runs: Vec<_> = models.map(run).collect();
            let counted = Words::of(MODEL, "", &runs);
            assert!(counted.spellings.len() <= MAX_VALUES);
            let spellings = counted.spellings.values();
            assert!(spellings.map(Vec::len).all(|len| len <= MAX_SPELLINGS));
            completions(Token::at(typed, ""), &runs, &Clock::at(0, &TimeZone::UTC))
        };
        let model = |n: usize| format!("model-{n}");
        let exact = complete(&mut (0..MAX_VALUES).map(model), "model:");
        assert_eq!(exact.more, MAX_VALUES - MAX_ITEMS);
        assert!(!exact.more_uncounted);
        let over = complete(&mut (0..=MAX_VALUES).map(model), "model:");
        assert_eq!(over.more, MAX_VALUES - MAX_ITEMS);
        assert!(over.more_uncounted);
        // Typing more of it finds each value.
        let last = complete(&mut (0..=MAX_VALUES).map(model), "model:model-5000");
        assert_eq!((last.items.len(), last.more_uncounted), (1, false));

        let spelling = |n: usize| {
            let letters = "abcdefgh".char_indices();
            let upper = |(at, c): (usize, char)| match n >> at & 1 {
                1 => c.to_ascii_uppercase(),
                _ => c,
            };
            letters.map(upper).collect::<String>()
        };
        let spelt = complete(&mut (0..256).map(spelling), "model:");
        assert_eq!((spelt.items.len(), spelt.items[0].count), (1, 256));
    }

    #[test]
    fn values_come_with_counts_and_quotes() {
        let expected = [("\"Qwen3 8B\"", 1), ("qwen3", 1), ("big-qwen", 1)];
        let expected = expected
            .map(|(text, count)| (text.to_owned(), count))
            .to_vec();
        assert_eq!(complete("model:q"), ("q".to_owned(), expected));
        let (replaces, items) = complete("stop:budget_steps,fi");
        assert_eq!(
            (replaces.as_str(), items),
            ("fi", vec![("final".to_owned(), 2)])
        );
        let (_, dates) = complete("started:");
        assert_eq!(dates[0].0, "today");
        assert_eq!(complete("steps>").1, []);
        assert_eq!(complete("bogus:x").1, []);
        let (_, flags) = complete("err:t");
        assert_eq!(flags[0].0, "true");
    }
}
