//! How does the page look that asks other stop rules about one run? A form that is the query, and a row for each rule.
//!
//! The form and the table are one part, `#whatif`, so that an answer can bring what is wrong with
//! a field along; sentence and table alone, `#lead` and `#answer`, are what a live run changes.

pub(crate) mod answer;
mod cells;
pub(crate) mod fill;
pub(crate) mod handler;
pub(crate) mod json;

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
    /// The form and what comes of it.
    pub body: WhatIfBody<'a>,
}

/// The form beside the answer, `#whatif`.
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
    /// What the fields hold where nobody asked anything yet; empty once somebody did.
    pub note: &'static str,
    pub groups: Vec<Group>,
    /// The tools of the run, to choose from.
    pub tools: Vec<String>,
    /// Rules that have no field, or whose field is taken; one each line.
    pub other: String,
    pub other_wrong: Vec<WrongRule>,
    /// The page with the rules that the board suggests.
    pub suggested: String,
    /// The page with the run's own rules alone.
    pub recorded: String,
    /// The step that is read in other tabs.
    pub step: Option<usize>,
}

impl HtmlSafe for RulesForm {}

/// Fields that belong together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Group {
    pub legend: &'static str,
    pub fields: Vec<Field>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Field {
    pub id: String,
    pub name: String,
    /// What stands before it.
    pub label: Line,
    /// What it takes.
    pub kind: Input,
    /// What it holds, as typed.
    pub value: String,
    /// An example.
    pub placeholder: Line,
    /// What stands after it.
    pub unit: &'static str,
    /// The second number of a critic's rule: for how many scores in a row.
    pub row: Option<RowField>,
    pub wrong: Option<WrongRule>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct RowField {
    pub id: String,
    pub name: String,
    /// What it holds, as typed.
    pub value: String,
}

/// Why a rule is not asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WrongRule {
    /// The rule as typed.
    pub text: Line,
    pub why: Line,
    /// One that is right.
    pub right: &'static str,
}
