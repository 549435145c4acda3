//! How does the page look that asks other stop rules about one run? A form that is the query, and a row for each rule.
//!
//! All values are ready. The form and the table are one part, `#whatif`, so that an answer can bring what is wrong with
//! a field along; sentence and table alone, `#lead` and `#answer`, are what a live run changes.

pub(crate) mod fill;
pub(crate) mod handler;
pub(crate) mod json;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::page::part::sign::{Phrase, Sign};
use crate::page::part::text;
use crate::page::part::text::Line;
use crate::page::run::head::{RunHead, Tabs};
use crate::page::shell::{Pulse, Shell};
use crate::stop::Input;

/// The page of one run's what-if.
#[derive(Template)]
#[template(path = "whatif/page.html")]
pub(crate) struct WhatIfPage<'a> {
    /// What is around it.
    pub shell: Shell,
    /// What fetches the news.
    pub pulse: Pulse,
    pub head: RunHead<'a>,
    pub tabs: Tabs<'a>,
    /// The form and what comes of it.
    pub body: WhatIfBody,
}

/// The form beside the answer, `#whatif`.
#[derive(Debug, Clone, Template)]
#[template(path = "whatif/whatif.html")]
pub(crate) struct WhatIfBody {
    /// The form.
    pub form: RulesForm,
    /// What its rules would have done.
    pub answer: RulesAnswer,
}

impl HtmlSafe for WhatIfBody {}

/// The form whose fields are rules.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "whatif/whatif_form.html")]
pub(crate) struct RulesForm {
    /// Where it leads.
    pub action: String,
    /// What the fields hold where nobody asked anything yet; empty once somebody did.
    pub note: &'static str,
    /// The fields.
    pub groups: Vec<Group>,
    /// The tools of the run, to choose from.
    pub tools: Vec<String>,
    /// Rules that have no field, or whose field is taken; one each line.
    pub other: String,
    /// What is wrong with those.
    pub other_wrong: Vec<WrongRule>,
    /// The page with the rules that the board suggests.
    pub suggested: String,
    /// The page with the run's own rules alone.
    pub recorded: String,
}

impl HtmlSafe for RulesForm {}

/// Fields that belong together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Group {
    /// Its name.
    pub legend: &'static str,
    /// The fields.
    pub fields: Vec<Field>,
}

/// One rule's field.
#[derive(Debug, Clone, Default)]
pub(crate) struct Field {
    /// The element's id.
    pub id: String,
    /// The parameter's name.
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
    /// What is wrong with it.
    pub wrong: Option<WrongRule>,
}

/// How many scores in a row.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowField {
    /// The element's id.
    pub id: String,
    /// The parameter's name.
    pub name: String,
    /// What it holds, as typed.
    pub value: String,
}

/// Why a rule is not asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WrongRule {
    /// The rule as typed.
    pub text: Line,
    /// What is wrong with it.
    pub why: Line,
    /// One that is right.
    pub right: &'static str,
}

/// What all asked rules together would have done, `#lead`.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "whatif/whatif_lead.html")]
pub(crate) struct Lead {
    /// The sentence.
    pub headline: Line,
    /// Whether the run goes on; changes are then not read out.
    pub live: bool,
}

impl HtmlSafe for Lead {}

/// What each rule would have done, `#answer`.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "whatif/whatif_answer.html")]
pub(crate) struct RulesAnswer {
    /// What they all together would have done; stands apart, above the form.
    pub lead: Lead,
    /// What the rows are about.
    pub about: Line,
    /// The head of the column of cells.
    pub span: Line,
    /// The rows, in the order of the steps at which they fire.
    pub rows: Vec<RuleRow>,
    /// Whether a cell is unknown, so that the legend names its look.
    pub has_unknown: bool,
    /// What to keep in mind.
    pub notes: Vec<Phrase>,
}

impl HtmlSafe for RulesAnswer {}

/// One rule.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleRow {
    /// What it is called.
    pub name: Line,
    /// Its limit.
    pub limit: Line,
    /// The rule as it is typed.
    pub(crate) typed: Line,
    /// Whose it is, where it is the run's own; empty else.
    pub own: &'static str,
    /// Whether it would have ended the run, all asked rules together.
    pub hit: bool,
    /// Whether it is switched off.
    pub off: bool,
    /// Each step's cell.
    pub cells: Option<Cells>,
    /// The step at which it fires.
    pub at: Phrase,
    /// Against the record.
    pub against: Sign,
    /// Steps saved.
    pub steps: Line,
    /// Tokens saved.
    pub tokens: Line,
    /// Time saved.
    pub time: Line,
    /// What becomes of the answer.
    pub answer: Phrase,
    /// Why.
    pub why: Line,
}

/// What a rule says at one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cell {
    /// It was asked, and the run would have gone on.
    Asked,
    /// It fires.
    Fires,
    /// The run would have ended before.
    Beyond,
    /// It cannot be told.
    Unknown,
}

/// At most so many columns are drawn; in a longer run each stands for several steps.
const MAX_COLUMNS: usize = 200;
/// The picture's width.
const WIDTH: f64 = 190.0;
/// The narrowest a firing cell is drawn, since it is what one looks for.
const MIN_FIRES: f64 = 3.0;

/// How many steps one column stands for in a run of `steps` steps.
pub(crate) fn steps_per_column(steps: usize) -> usize {
    steps.div_ceil(MAX_COLUMNS).max(1)
}

/// A row of cells as four paths: each sort has a shape of its own, so that none is told by colour alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Template)]
#[template(path = "whatif/cells.html")]
pub(crate) struct Cells {
    /// Steps at which the run would have gone on: high.
    pub asked: String,
    /// Steps at which the rule fires: highest.
    pub fires: String,
    /// Steps that would not have run: a line.
    pub beyond: String,
    /// Steps at which it cannot be told: two lines.
    pub unknown: String,
}

impl HtmlSafe for Cells {}

impl Cells {
    /// Draws the cells of all steps.
    pub(crate) fn new(cells: &[Cell]) -> Self {
        let columns: Vec<Cell> = cells.chunks(steps_per_column(cells.len())).map(column).collect();
        let pitch = (WIDTH / columns.len().max(1) as f64).min(14.0);
        // Gaps tell steps apart while there is room for them.
        let gap = if pitch >= 5.0 { 2.0 } else { 0.0 };
        let mut drawn = Self::default();
        let mut start = 0;
        for stretch in columns.chunk_by(|a, b| a == b && gap == 0.0 && *a != Cell::Fires) {
            let x = start as f64 * pitch;
            let width = stretch.len() as f64 * pitch - gap;
            start += stretch.len();
            let block =
                |x: f64, width: f64, y: f64, height: f64| format!("M{x:.1} {y}h{width:.1}v{height}h-{width:.1}z");
            match stretch.first() {
                Some(Cell::Asked) => drawn.asked.push_str(&block(x, width, 2.0, 10.0)),
                Some(Cell::Fires) => {
                    let wide = width.max(MIN_FIRES);
                    drawn.fires.push_str(&block(x.min(WIDTH - wide), wide, 0.0, 14.0));
                }
                Some(Cell::Beyond) => drawn.beyond.push_str(&block(x, width, 6.0, 2.0)),
                Some(Cell::Unknown) => {
                    drawn.unknown.push_str(&block(x, width, 2.0, 2.0));
                    drawn.unknown.push_str(&block(x, width, 10.0, 2.0));
                }
                None => {}
            }
        }
        drawn
    }
}

/// The cell that stands for several steps: what is rare must stay visible.
fn column(steps: &[Cell]) -> Cell {
    let rank = |cell: &Cell| match cell {
        Cell::Fires => 0,
        Cell::Unknown => 1,
        Cell::Asked => 2,
        Cell::Beyond => 3,
    };
    steps.iter().copied().min_by_key(rank).unwrap_or(Cell::Beyond)
}

#[cfg(test)]
mod tests {
    use crate::page::whatif::*;

    fn row(asked: usize, then: Cell, beyond: usize) -> Vec<Cell> {
        let mut cells = vec![Cell::Asked; asked];
        cells.push(then);
        cells.extend(vec![Cell::Beyond; beyond]);
        cells
    }

    #[test]
    fn a_short_run_has_a_cell_for_each_step() {
        let cells = Cells::new(&row(2, Cell::Fires, 1));
        assert_eq!(cells.asked, "M0.0 2h12.0v10h-12.0zM14.0 2h12.0v10h-12.0z");
        assert_eq!(cells.fires, "M28.0 0h12.0v14h-12.0z");
        assert_eq!(cells.beyond, "M42.0 6h12.0v2h-12.0z");
        assert_eq!(cells.unknown, "");
        assert_eq!(Cells::new(&[]), Cells::default());
    }

    #[test]
    fn a_long_run_is_thinned_and_still_shows_where_it_fires() {
        assert_eq!((steps_per_column(200), steps_per_column(201), steps_per_column(0)), (1, 2, 1));
        for at in [0, 777, 19_999] {
            let cells = Cells::new(&row(at, Cell::Fires, 19_999 - at));
            assert_eq!(cells.fires.matches('M').count(), 1, "{cells:?}");
            assert!(cells.fires.contains("h3.0"), "{cells:?}");
            assert!(cells.asked.len() + cells.beyond.len() < 120, "{cells:?}");
        }
        let end = Cells::new(&row(19_999, Cell::Fires, 0)).fires;
        assert!(end.starts_with("M187.0 "), "it stays inside: {end}");
        let unknown = Cells::new(&row(1000, Cell::Unknown, 0));
        assert_eq!(unknown.unknown.matches('M').count(), 2, "two lines: {unknown:?}");
    }
}
