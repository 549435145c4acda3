//! Maps rules to form fields, and a submitted form back to rules.
//!
//! Addresses contain rules, not fields (`?rule=max_steps=10`), so the same syntax works on the
//! command line and in the API. The form is another way to write them.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::whatif::{Typed, Wrong, near};
use crate::page::part::href;
use crate::page::part::text::{Line, one_line};
use crate::page::run_view::RunView;
use crate::stop::{self, Counts, FieldGroup, Input, RULES, Row, StopSpec};

/// Limits the critics that have their own field.
const MAX_CRITICS: usize = 6;
/// Limits the tools to choose from.
const MAX_TOOLS: usize = 200;
/// The parameter for rules without a field, one per line.
const OTHER: &str = "other";
/// The prefix of a critic's field. The critic's name follows.
const BELOW: &str = "below:";
/// The prefix of the field for how many scores in a row.
const ROW: &str = "row:";

/// The form whose fields are rules.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "whatif/whatif_form.html")]
pub(super) struct RulesForm {
    pub action: String,
    /// A note on the initial field values. Empty once the form was submitted.
    pub note: &'static str,
    pub groups: Vec<Group>,
    /// The run's tools to choose from.
    pub tools: Vec<String>,
    /// Rules without a free field, one per line.
    pub other: String,
    pub other_wrong: Vec<WrongRule>,
    /// The address of the page with suggested rules.
    pub suggested: String,
    /// The address of the page with only the run's own rules.
    pub recorded: String,
    /// The step selected in other tabs.
    pub step: Option<usize>,
}

impl HtmlSafe for RulesForm {}

/// A group of related fields.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    pub legend: &'static str,
    pub fields: Vec<Field>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Field {
    pub id: String,
    pub name: String,
    /// The label before the field.
    pub label: Line,
    /// The input type.
    pub kind: Input,
    /// The value as typed.
    pub value: String,
    /// An example.
    pub placeholder: Line,
    /// The unit after the field.
    pub unit: &'static str,
    /// The second number of a critic's rule: how many scores in a row.
    pub row: Option<RowField>,
    pub wrong: Option<WrongRule>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct RowField {
    pub id: String,
    pub name: String,
    /// The value as typed.
    pub value: String,
}

/// A rule that can't be evaluated, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WrongRule {
    /// The rule as typed.
    pub text: Line,
    pub why: Line,
    /// Whether `why` names the rule as typed.
    pub is_named: bool,
    /// An example of a valid rule.
    pub example: &'static str,
}

fn fields(group: FieldGroup) -> impl Iterator<Item = (&'static Row, stop::Field)> {
    let fields = RULES.iter().filter_map(|row| Some((*row, row.field?)));
    fields.filter(move |(_, field)| field.group == group)
}

/// Returns the input type of the field named after a rule. `None` for critic rules, which have a
/// field for each critic.
fn input(name: &str) -> Option<Input> {
    Some(stop::row(name)?.field?.input).filter(|input| *input != Input::Score)
}

/// Returns the rules in a submitted form, in its order. `None` if it contains no form fields.
pub(super) fn from_form<'a>(
    pairs: &(impl Iterator<Item = (&'a str, &'a str)> + Clone),
) -> Option<Vec<String>> {
    let is_field = |name: &str| {
        name == OTHER || name.starts_with(BELOW) || name.starts_with(ROW) || input(name).is_some()
    };
    if !pairs.clone().any(|(name, _)| is_field(name)) {
        return None;
    }
    let row_of = |critic: &str| {
        let row = pairs
            .clone()
            .find(|(name, _)| name.strip_prefix(ROW) == Some(critic));
        row.map(|(_, value)| value.trim())
            .filter(|value| !value.is_empty())
    };
    let mut rules = Vec::new();
    for (name, value) in pairs.clone().filter(|(_, value)| !value.trim().is_empty()) {
        if let Some(input) = input(name) {
            rules.push(if input == Input::Check {
                name.to_owned()
            } else {
                format!("{name}={value}")
            });
        } else if let Some(critic) = name.strip_prefix(BELOW) {
            let row = row_of(critic).map_or_else(String::new, |row| format!(":{row}"));
            rules.push(format!("critic_below={critic}:{}{row}", value.trim()));
        } else if name == OTHER {
            rules.extend(
                value
                    .lines()
                    .map(str::trim)
                    .filter(|line| !line.is_empty())
                    .map(str::to_owned),
            );
        } else if name == "rule" {
            rules.push(value.to_owned());
        }
    }
    Some(rules)
}

/// Builds the form that holds these rules.
pub(super) fn form(
    view: &RunView<'_>,
    typed: &[Typed],
    suggested: bool,
    step: Option<usize>,
) -> RulesForm {
    let mut left: Vec<&Typed> = typed.iter().collect();
    let near: Vec<String> = near(view.summary, view.index)
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut group = |legend, group| {
        let fields = fields(group).map(|(row, kind)| field(row, kind, &mut left, &near));
        Group {
            legend,
            fields: fields.collect(),
        }
    };
    let mut groups = vec![
        group("Limits", FieldGroup::Limits),
        group("Progress", FieldGroup::Progress),
        group("Answer and content", FieldGroup::Answer),
    ];
    let critics = view
        .summary
        .critics
        .iter()
        .filter(|name| is_plain(name))
        .take(MAX_CRITICS)
        .enumerate();
    let rows = || fields(FieldGroup::Critics).map(|(row, _)| row);
    let critics: Vec<Field> = critics
        .flat_map(|(place, name)| rows().map(move |row| (row, place, name)))
        .map(|(row, place, name)| critic(row, place, name, &mut left))
        .collect();
    if !critics.is_empty() {
        groups.push(Group {
            legend: "Critics",
            fields: critics,
        });
    }
    let key = view.key();
    RulesForm {
        action: href::whatif(key),
        note: if suggested {
            "Example limits: 75% of what the run used, plus common loop and error checks."
        } else {
            ""
        },
        groups,
        tools: view
            .summary
            .tools
            .iter()
            .filter(|name| is_plain(name))
            .take(MAX_TOOLS)
            .cloned()
            .collect(),
        other: left
            .iter()
            .map(|typed| on_one_line(typed))
            .collect::<Vec<_>>()
            .join("\n"),
        other_wrong: left.iter().filter_map(|typed| wrong(typed)).collect(),
        suggested: href::with_query(
            &href::whatif(key),
            &[("step", &step.map(|n| n.to_string()).unwrap_or_default())],
        ),
        recorded: href::whatif_with(key, &[], step),
        step,
    }
}

/// Removes the first matching rule from `left` and returns it with its value.
fn take<'t>(
    left: &mut Vec<&'t Typed>,
    holds: impl Fn(&str, &str) -> bool,
) -> Option<(&'t Typed, &'t str)> {
    let of_field = |typed: &&Typed| {
        let (name, value) = parts(&typed.text);
        // Fields are single-line.
        !typed.text.contains(['\n', '\r']) && holds(name, value)
    };
    let typed = left.remove(left.iter().position(of_field)?);
    Some((typed, parts(&typed.text).1))
}

/// Splits a rule in short form into its name and value.
fn parts(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once('=')
        .map_or((text, ""), |(name, value)| (name.trim(), value))
}

fn field(
    row: &Row,
    stop::Field { input, unit, .. }: stop::Field,
    left: &mut Vec<&Typed>,
    near: &[String],
) -> Field {
    let name = row.name;
    // Such a field can't express a schema, or an empty value, which disables a rule. These remain
    // among the other rules.
    let fits = |value: &str| (input == Input::Check) == value.is_empty();
    let found = take(left, |typed, value| typed == name && fits(value));
    let value_of = |rule: &str| rule.split_once('=').map(|(_, value)| value.to_owned());
    // A suggested value suits every rule that counts the same thing.
    let alike = |rule: &&String| {
        let suggested = stop::row(parts(rule).0);
        suggested.is_some_and(|other| {
            other.name == name || other.counts == row.counts && row.counts != Counts::Other
        })
    };
    let near = near.iter().find(alike).and_then(|rule| value_of(rule));
    let placeholder = near.or_else(|| value_of(row.example)).unwrap_or_default();
    Field {
        id: format!("w-{name}"),
        name: name.to_owned(),
        label: row.label.into(),
        kind: input,
        value: match found {
            Some(_) if input == Input::Check => "on".to_owned(),
            Some((_, value)) => value.to_owned(),
            None => String::new(),
        },
        placeholder: placeholder.into(),
        unit,
        row: None,
        wrong: found.and_then(|(typed, _)| wrong(typed)),
    }
}

fn critic(row: &Row, place: usize, name: &str, left: &mut Vec<&Typed>) -> Field {
    let numbers = |value: &str| {
        value
            .strip_prefix(name)?
            .strip_prefix(':')
            .map(str::to_owned)
    };
    let found = take(left, |typed, value| {
        typed == row.name && numbers(value).is_some()
    });
    let held = found
        .and_then(|(_, value)| numbers(value))
        .unwrap_or_default();
    let (score, streak) = held.split_once(':').unwrap_or((&held, ""));
    Field {
        id: format!("w-below-{place}"),
        name: format!("{BELOW}{name}"),
        label: format!("{}: {name}", row.label).into(),
        value: score.to_owned(),
        placeholder: "0.5".into(),
        row: Some(RowField {
            id: format!("w-row-{place}"),
            name: format!("{ROW}{name}"),
            value: streak.to_owned(),
        }),
        wrong: found.and_then(|(typed, _)| wrong(typed)),
        ..Field::default()
    }
}

fn wrong(typed: &Typed) -> Option<WrongRule> {
    let wrong = typed.read.as_ref().err()?;
    let Wrong { why, example } = wrong;
    Some(WrongRule {
        text: one_line(&typed.text, 80).0.into(),
        is_named: wrong.names(&typed.text),
        why: one_line(why, 400).0.into(),
        example,
    })
}

/// Returns a rule on a single line, as JSON if its short form spans several.
fn on_one_line(typed: &Typed) -> String {
    let json = |spec: &StopSpec| serde_json::to_string(spec).ok();
    match &typed.read {
        Ok(spec) if typed.text.trim().contains(['\n', '\r']) => json(spec).unwrap_or_default(),
        _ => typed.text.trim().replace(['\n', '\r'], " "),
    }
}

/// Whether a name from the trace has no hidden characters, so that it can be offered unchanged.
fn is_plain(name: &str) -> bool {
    Line::from(name).as_str() == name
}
