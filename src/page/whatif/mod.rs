//! Defines the page that evaluates other stop rules on one run: a form that holds the query, and a
//! row for each rule.
//!
//! The form and the table are one part, `#whatif`, so that a response can include field errors. A
//! live run updates only the sentence and the table, `#lead` and `#answer`.

pub(crate) mod answer;
mod cells;
pub(crate) mod fill;
pub(crate) mod handler;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::page::part::text::Line;
use crate::page::run::head::{RunHead, Tabs};
use crate::page::shell::{Pulse, Shell};
use crate::page::whatif::answer::RulesAnswer;
use crate::stop::Input;

#[derive(Template)]
#[template(path = "whatif/page.html")]
pub(crate) struct WhatIfPage<'a> {
    pub shell: Shell,
    pub pulse: Pulse,
    pub head: RunHead<'a>,
    pub tabs: Tabs<'a>,
    /// The form and its results.
    pub body: WhatIfBody<'a>,
}

/// The form and the answer, `#whatif`.
#[derive(Template)]
#[template(path = "whatif/whatif.html")]
pub(crate) struct WhatIfBody<'a> {
    pub form: RulesForm,
    pub answer: RulesAnswer<'a>,
}

impl HtmlSafe for WhatIfBody<'_> {}

/// The form whose fields are rules.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "whatif/whatif_form.html")]
pub(crate) struct RulesForm {
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
pub(crate) struct Group {
    pub legend: &'static str,
    pub fields: Vec<Field>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Field {
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
pub(crate) struct RowField {
    pub id: String,
    pub name: String,
    /// The value as typed.
    pub value: String,
}

/// A rule that can't be evaluated, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WrongRule {
    /// The rule as typed.
    pub text: Line,
    pub why: Line,
    /// An example of a valid rule.
    pub example: &'static str,
}
