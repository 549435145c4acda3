//! Shows the tabs of the manifest and of the issues.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format::{self, count};
use crate::analysis::health::{self, FileIssue};
use crate::model::json::Json;
use crate::model::{IssueKind, ManifestState, Record, TraceFile};
use crate::page::part::fold::{Fold, ValueLinks};
use crate::page::part::json_tree::{JsonView, token};
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::part::text::Line;
use crate::page::part::{href, text};
use crate::page::run_view::RunView;

/// Issues per page.
const PER_PAGE: usize = 200;

/// The manifest of a run.
#[derive(Template)]
#[template(path = "run/manifest.html")]
pub(crate) struct ManifestTab<'a> {
    view: &'a RunView<'a>,
    /// A note above the manifest: missing, incomplete, or the last good version. May be empty.
    note: String,
    /// The recorded stop rules: id, description, who set it, and whether it ended the run.
    rules: Vec<[Line; 4]>,
    /// The keys in file order.
    entries: Vec<(Line, JsonView)>,
    /// The size of the file. `None` if it can't be read.
    size: Option<usize>,
}

impl HtmlSafe for ManifestTab<'_> {}

impl<'a> ManifestTab<'a> {
    pub(crate) fn new(view: &'a RunView<'a>) -> Self {
        let bytes = match view.lines.manifest() {
            Ok(bytes) => bytes,
            Err(why) => {
                let (missing, format) = (
                    *view.index.manifest() == ManifestState::Missing,
                    view.index.format(),
                );
                let note = match missing {
                    true => "This run has no manifest.json.".to_owned(),
                    false if format.is_one_file() => "This format has no manifest.".to_owned(),
                    false => format!("The manifest can't be read: {why}"),
                };
                return Self {
                    view,
                    note,
                    rules: Vec::new(),
                    entries: Vec::new(),
                    size: None,
                };
            }
        };
        let record = Record::of(&bytes);
        let repairs: Vec<&str> = record.repairs().collect();
        let json = Json::parse(&record.text);
        let note = match &json {
            None => {
                "The file isn't JSON and is shown as is. The rest of this page uses the last valid version.".to_owned()
            }
            Some(Json::Object(_)) if repairs.is_empty() => String::new(),
            Some(Json::Object(_)) => format!("Shown after repair: {}.", repairs.join(", ")),
            Some(_) => "The file is JSON, but not an object.".to_owned(),
        };
        let json = json.unwrap_or(Json::Deep(&record.text));
        let mut fold = Fold::new(ValueLinks::below(&href::manifest(view.key())));
        let entries = match &json {
            Json::Object(members) => members
                .iter()
                .map(|(key, value)| {
                    (
                        key.as_ref().into(),
                        fold.json(value, &format!("/{}", token(key))),
                    )
                })
                .collect(),
            other => vec![(Line::default(), fold.json(other, ""))],
        };
        let rules = json
            .get("stop_rules")
            .map(|set| rules(view, set))
            .unwrap_or_default();
        Self {
            view,
            note,
            rules,
            entries,
            size: Some(bytes.len()),
        }
    }

    fn size(&self) -> Option<String> {
        self.size.map(|bytes| format::bytes(bytes as u64))
    }

    /// Compares the manifest's counts with those of the files: the name, both numbers, and whether
    /// they agree or why they may differ.
    fn checks(&self) -> Vec<(&'static str, String, usize, Phrase)> {
        let index = self.view.index;
        let Some(manifest) = index.manifest().get().filter(|_| self.size.is_some()) else {
            return Vec::new();
        };
        let check = |what, counted: Option<i64>, there: usize| {
            let verdict = match counted {
                None => Phrase::new().dim("not recorded"),
                Some(counted) if counted == there as i64 => Phrase::from("match"),
                Some(_) if index.segments().len() > 1 => {
                    Phrase::from("the last writer counted only its own lines")
                }
                Some(0) if !manifest.is_final() => {
                    Phrase::from("recorded only when the run finishes")
                }
                Some(_) => Phrase::new().strong("mismatch"),
            };
            (
                what,
                format::or_missing(counted, |counted| counted.to_string()),
                there,
                verdict,
            )
        };
        vec![
            check("steps", manifest.step_count, index.step_count()),
            check("events", manifest.event_count, index.event_count()),
        ]
    }
}

/// Lists the rules in the form of board's engine: the budget, the rule that accepts answers, and
/// all others.
fn rules(view: &RunView<'_>, rules: &Json<'_>) -> Vec<[Line; 4]> {
    let fired = |id: &str| match view.index.stop() {
        Some(stop) if &*stop.criterion == id => "ended the run",
        Some(stop) if stop.also.iter().any(|also| also == id) => "also true",
        _ if view.is_alive() => "not fired yet",
        _ => "not fired",
    };
    let from = |entry: &Json<'_>| {
        entry
            .get("from")
            .and_then(Json::as_str)
            .unwrap_or("engine")
            .into()
    };
    let row = |id: &str, rule: String, entry: &Json<'_>| {
        [
            id.into(),
            text::one_line(&rule, 200).0.into(),
            from(entry),
            fired(id).into(),
        ]
    };
    let budget = ["steps", "time_ms", "tokens"].iter().filter_map(|key| {
        let entry = rules
            .get("budget")?
            .get(key)
            .filter(|entry| !entry.is_empty())?;
        let limit = entry.get("limit").unwrap_or(entry);
        let (id, unit) = if *key == "time_ms" {
            ("time", "ms")
        } else {
            (*key, *key)
        };
        let limit = limit.to_string();
        let limit = limit.parse().map_or(limit, count);
        Some(row(
            &format!("budget.{id}"),
            format!("at most {limit} {unit}"),
            entry,
        ))
    });
    let mut rows: Vec<_> = budget.collect();
    for (list, name) in [("completion", "accept"), ("policies", "stop")] {
        for (at, entry) in rules
            .get(list)
            .and_then(Json::as_array)
            .unwrap_or_default()
            .iter()
            .enumerate()
        {
            let id = entry
                .get("id")
                .and_then(Json::as_str)
                .map_or_else(|| format!("{name}[{at}]"), str::to_owned);
            rows.push(row(
                &id,
                in_short(entry.get("rule").unwrap_or(entry)),
                entry,
            ));
        }
    }
    rows
}

/// Formats a rule as its type and the other members: `max_steps · steps 8`.
fn in_short(rule: &Json<'_>) -> String {
    let Some(members) = rule.as_object() else {
        return rule.to_string();
    };
    if rule.get("opaque").is_some() {
        return "custom rule (its verdicts are recorded with the steps)".to_owned();
    }
    let kind = rule.get("type").and_then(Json::as_str).unwrap_or("no type");
    let others = members
        .iter()
        .filter(|(key, _)| key != "type")
        .map(|(key, value)| format!(" · {key} {value}"));
    kind.chars().map(String::from).chain(others).collect()
}

/// The issues of a run's files.
#[derive(Template)]
#[template(path = "run/issues.html")]
pub(crate) struct IssuesTab<'a> {
    view: &'a RunView<'a>,
    issues: Vec<FileIssue>,
    /// The index of the first issue shown.
    first: usize,
}

impl HtmlSafe for IssuesTab<'_> {}

impl<'a> IssuesTab<'a> {
    pub(crate) fn new(view: &'a RunView<'a>, after: usize) -> Self {
        let issues = health::issues(view.index);
        Self {
            view,
            first: after.min(issues.len()),
            issues,
        }
    }

    fn rows(&self) -> impl Iterator<Item = &FileIssue> {
        self.issues.iter().skip(self.first).take(PER_PAGE)
    }

    /// Counts the issues of each kind.
    fn counts(&self) -> Vec<(Sign, String)> {
        let mut counts: Vec<(IssueKind, usize)> = Vec::new();
        for issue in &self.issues {
            match counts.iter_mut().find(|(kind, _)| *kind == issue.kind) {
                Some((_, count)) => *count += 1,
                None => counts.push((issue.kind, 1)),
            }
        }
        let listed = counts
            .into_iter()
            .map(|(kind, count)| (level(kind, word(kind)), kind.counted(count)));
        let unlisted = self.view.summary.issues.0.saturating_sub(self.issues.len());
        let more = (unlisted > 0).then(|| {
            let words = format!(
                "{} more of these kinds (not listed)",
                count(unlisted as u64)
            );
            (Sign::plain("mk", "note"), words)
        });
        listed.chain(more).collect()
    }

    fn earlier(&self) -> Option<Link> {
        let label = format!("{PER_PAGE} earlier");
        (self.first > 0).then(|| self.link(label, self.first.saturating_sub(PER_PAGE)))
    }

    fn later(&self) -> Option<Link> {
        let end = self.first + PER_PAGE;
        let left = self.issues.len().saturating_sub(end);
        (left > 0).then(|| self.link(format!("{} later", PER_PAGE.min(left)), end))
    }

    fn link(&self, label: String, after: usize) -> Link {
        let query = [("tab", "issues"), ("after", &*after.to_string())];
        Link::new(label, href::with_query(&href::run(self.view.key()), &query))
    }

    /// Names the parts of the files.
    fn unit(&self) -> &'static str {
        match self.view.index.format().is_database() {
            true => "record",
            false => "line",
        }
    }

    /// Names the files that were read.
    fn files(&self) -> String {
        let format = self.view.index.format();
        if format.is_one_file() {
            format!("the {}", format.file)
        } else {
            "manifest.json, steps.jsonl and events.jsonl".to_owned()
        }
    }

    fn level(&self, issue: &FileIssue) -> Sign {
        level(
            issue.kind,
            &format!("{}: {}", word(issue.kind), issue.kind.words()),
        )
    }

    /// Returns the line and the offset of an issue, both empty if it belongs to no line.
    fn line_and_offset(&self, issue: &FileIssue) -> (String, String) {
        match issue.line {
            Some(0) => (String::new(), String::new()),
            line => (number(line), number(issue.offset)),
        }
    }

    /// Returns whether any of the shown issues has a line. Otherwise those columns are empty.
    fn has_lines(&self) -> bool {
        self.rows()
            .any(|issue| issue.line.is_some_and(|line| line > 0))
    }

    /// Links the step or event with the issue.
    fn place(&self, issue: &FileIssue) -> Option<Link> {
        let (view, number) = (self.view, issue.line?);
        match issue.file {
            TraceFile::Steps => {
                let n = view.index.steps().position(&number, |step| step.line)?;
                Some(Link::new(
                    format!("step {}", view.label(n)),
                    view.at_step(n),
                ))
            }
            TraceFile::Events => {
                let n = view.index.events().position(&number, |event| event.line)?;
                Some(Link::new(format!("event {n}"), view.at_event(n)))
            }
            TraceFile::Manifest => None,
        }
    }
}

fn word(kind: IssueKind) -> &'static str {
    if kind.is_problem() { "problem" } else { "note" }
}

fn level(kind: IssueKind, words: &str) -> Sign {
    if kind.is_problem() {
        Sign::word("mk err", "error", words)
    } else {
        Sign::plain("mk", words)
    }
}

fn number(number: Option<u64>) -> String {
    number.map_or_else(String::new, count)
}
