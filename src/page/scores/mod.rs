//! How do the scores of critics look? A lane for each critic of one run, and the lines of several runs over each other.
//!
//! All values are ready. Everything below the form is one part, `#scores`, which a live run changes.

pub(crate) mod fill;
pub(crate) mod handler;
pub(crate) mod json;

pub(crate) mod csv;
pub(crate) mod heat;
pub(crate) mod lane;
pub(crate) mod overlay;
pub(crate) mod plot;
pub(crate) mod said;
pub(crate) mod several;
#[cfg(test)]
mod tests;

use askama::Template;
use askama::filters::HtmlSafe;

pub(crate) use crate::page::scores::heat::Heat;
pub(crate) use crate::page::scores::lane::LaneView;
pub(crate) use crate::page::scores::said::said;
pub(crate) use lane::{Place, mark};

use crate::page::part::href;
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::part::text::Line;
use crate::page::run::{RunHead, Tabs};
use crate::page::scores::plot::Mark;
use crate::page::shell::{Pulse, Shell};

/// Points of all lanes of a page that lead to their step; each is three nodes of the document.
const LINKS: usize = 600;

/// What the address of a scores page asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query {
    /// The threshold as typed; empty for none.
    pub threshold: String,
    /// The critic it is for; empty for each of them.
    pub critic: String,
    /// The table shows steps before this one; the last steps without it.
    pub before: Option<usize>,
}

impl Query {
    /// The threshold, where it is a number.
    pub(crate) fn threshold(&self) -> Option<f64> {
        self.threshold.trim().parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// Whether something was typed that is no number.
    pub(crate) fn is_wrong(&self) -> bool {
        !self.threshold.trim().is_empty() && self.threshold().is_none()
    }

    /// The threshold that holds for a critic.
    pub(crate) fn threshold_of(&self, critic: &str) -> Option<f64> {
        self.threshold().filter(|_| self.critic.is_empty() || self.critic == critic)
    }
}

/// The page of one run's scores.
#[derive(Debug, Clone, Template)]
#[template(path = "scores/page.html")]
pub(crate) struct ScoresPage {
    /// What is around it.
    pub shell: Shell,
    /// The way back, outermost first; the run itself follows it.
    pub crumb: Vec<Link>,
    /// What fetches the news.
    pub pulse: Pulse,
    /// The run's header.
    pub head: RunHead,
    /// The run's tabs.
    pub tabs: Tabs,
    /// The fields.
    pub form: Form,
    /// What the critics said.
    pub body: ScoresBody,
}

/// The fields of a chart of scores.
#[derive(Debug, Clone, Default)]
pub(crate) struct Form {
    /// Where they lead.
    pub action: String,
    /// The threshold as typed.
    pub threshold: String,
    /// What is wrong with it; empty for nothing.
    pub wrong: Line,
    /// The critics to choose from.
    pub critics: Vec<(String, bool)>,
    /// The threshold as a stop rule; `None` without one.
    pub rule: Option<String>,
    /// Other runs over this one.
    pub overlay: String,
    /// The numbers as a file.
    pub csv: String,
}

/// What the critics said, `#scores`.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "scores/scores.html")]
pub(crate) struct ScoresBody {
    /// What is said where no critic spoke; empty else.
    pub nothing: Phrase,
    /// One for each critic.
    pub lanes: Vec<LaneView>,
    /// What is said of critics that have no lane.
    pub more: Line,
    /// Retries and patches.
    pub asked: AskedList,
    /// All critics as one map, where there are many.
    pub heat: Option<Heat>,
    /// The same numbers.
    pub table: Table,
    /// How the critics agree.
    pub agreement: Agreement,
}

impl HtmlSafe for ScoresBody {}

/// What was asked for besides going on.
#[derive(Debug, Clone, Default)]
pub(crate) struct AskedList {
    /// What the rows are.
    pub about: Line,
    /// One for each retry, stop or patch.
    pub rows: Vec<AskedRow>,
}

/// One retry, stop or patch.
#[derive(Debug, Clone, Default)]
pub(crate) struct AskedRow {
    /// The step.
    pub step: Link,
    /// The critic.
    pub critic: Line,
    /// The score that went with it.
    pub before: Line,
    /// What was asked for.
    pub asked: Sign,
    /// The patch, or the reason.
    pub said: Line,
    /// The next score of the same critic.
    pub after: Phrase,
}

/// Scores by step, a row for each critic.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    /// Which steps are shown.
    pub about: Line,
    /// The steps.
    pub head: Vec<Link>,
    /// The critics.
    pub rows: Vec<TableRow>,
    /// How far they are apart; empty with one critic.
    pub spread: Vec<Line>,
    /// Which critics that is taken from, where not from all.
    pub spread_of: &'static str,
    /// Other steps: first, earlier, later, last; those that exist.
    pub windows: Vec<Link>,
}

/// One critic's scores.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableRow {
    /// Its name.
    pub name: Line,
    /// Its scores.
    pub cells: Vec<Cell>,
}

/// What a critic said about one step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    /// The score.
    pub text: Line,
    /// The score as recorded, where it has more decimals than are shown.
    pub exact: Line,
    /// Whether it lies below the threshold.
    pub low: bool,
    /// What was asked for.
    pub mark: Mark,
}

/// How critics agree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agreement {
    /// What is compared, and what is left out.
    pub about: Line,
    /// One for each two critics.
    pub rows: Vec<AgreementRow>,
}

/// Two critics.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgreementRow {
    /// Their names.
    pub names: Line,
    /// The correlation, or why there is none.
    pub value: Line,
    /// How many steps both scored.
    pub steps: Line,
    /// What the number says.
    pub words: Line,
}

/// The address of a run's scores with these fields.
pub(crate) fn address(key: &str, query: &Query) -> String {
    let before = query.before.map(|before| before.to_string()).unwrap_or_default();
    let fields = [("threshold", query.threshold.as_str()), ("critic", &query.critic), ("before", &before)];
    href::with_query(&href::scores(key), &fields)
}
