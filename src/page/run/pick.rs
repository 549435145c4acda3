//! Selects and sorts the steps of the list: those of a tool, those that failed, the longest or the
//! most expensive first.
//!
//! The selection is in the address, so that it can be linked to and works without scripts.

use std::cmp::Reverse;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::replay::{StepFlag, has};
use crate::analysis::timing::took;
use crate::page::params::Params;
use crate::page::part::sign::Link;
use crate::page::part::{href, text};
use crate::page::run_view::RunView;

/// Rows of a new page.
pub(crate) const WINDOW: usize = 50;

/// The sort orders: the name in the address and the label on the page.
const SORTS: [(&str, &str); 5] = [
    ("", "in run order"),
    ("time", "longest first"),
    ("tokens", "most tokens first"),
    ("cost", "most expensive first"),
    ("score", "lowest score first"),
];
/// Maximum number of tools that the page offers. The address accepts any tool.
const TOOLS: usize = 20;

/// A selection of steps, as given in the address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pick {
    sort: String,
    tool: String,
    errors: bool,
    /// The index of the first row within the selection.
    pub from: usize,
}

impl Pick {
    pub(crate) fn of(params: &Params) -> Self {
        let text = |name| params.text(name).to_owned();
        let sort = text("sort");
        Self {
            sort: if SORTS.iter().any(|(name, _)| *name == sort) {
                sort
            } else {
                String::new()
            },
            tool: text("tool"),
            errors: params.text("err") == "1",
            from: params.text("from").parse().unwrap_or_default(),
        }
    }

    /// Returns whether all steps are selected, in order.
    pub(crate) fn is_all(&self) -> bool {
        self.sort.is_empty() && self.tool.is_empty() && !self.errors
    }

    /// Returns the address of the run with this selection, starting at row `from`, and with step
    /// `n` selected.
    pub(crate) fn address(&self, key: &str, from: usize, n: Option<usize>) -> String {
        let number = |number: usize| number.to_string();
        let step = n.map(number).unwrap_or_default();
        let from = if from > 0 {
            number(from)
        } else {
            String::new()
        };
        let errors = if self.errors { "1" } else { "" };
        let pairs = [
            ("step", &*step),
            ("sort", &self.sort),
            ("tool", &self.tool),
            ("err", errors),
            ("from", &from),
        ];
        href::with_query(&href::run(key), &pairs)
    }

    /// Returns the ordinals of the selected steps. Steps without a sort value come last.
    fn steps(&self, view: &RunView<'_>) -> Vec<usize> {
        let index = view.index;
        let tool = index.names().find(&self.tool);
        let is_picked = |n: &usize| {
            let uses = || {
                index
                    .steps()
                    .get(*n)
                    .is_some_and(|step| step.tools().any(|name| Some(name) == tool))
            };
            (self.tool.is_empty() || uses())
                && (!self.errors
                    || has(index, *n, StepFlag::Error)
                    || has(index, *n, StepFlag::Code))
        };
        let mut picked: Vec<usize> = (0..index.steps().len()).filter(is_picked).collect();
        let step = |n: &usize| index.steps().get(*n);
        let most = |value: Option<f64>| value.unwrap_or(f64::NEG_INFINITY);
        match &*self.sort {
            "time" => picked.sort_by_cached_key(|n| Reverse(index.round_of(*n).and_then(took))),
            "tokens" => picked.sort_by_cached_key(|n| Reverse(index.tokens_of(*n))),
            "cost" => picked.sort_by(|a, b| {
                let cost = |n| most(step(n).and_then(|step| step.cost_usd));
                cost(b).total_cmp(&cost(a))
            }),
            "score" => picked.sort_by(|a, b| {
                let score = |n| {
                    step(n)
                        .and_then(|step| step.lowest_score())
                        .unwrap_or(f64::INFINITY)
                };
                score(a).total_cmp(&score(b))
            }),
            _ => {}
        }
        picked
    }
}

/// The controls that select steps (`#pick`), and the selected steps.
#[derive(Template)]
#[template(path = "run/pick.html")]
pub(crate) struct Picker<'a> {
    view: &'a RunView<'a>,
    pub pick: Pick,
    /// The selected steps of this page. Empty if all steps are selected.
    pub shown: Vec<usize>,
    /// The number of selected steps.
    count: usize,
}

impl HtmlSafe for Picker<'_> {}

impl<'a> Picker<'a> {
    pub(crate) fn new(view: &'a RunView<'a>, pick: Pick) -> Self {
        let steps = if pick.is_all() {
            Vec::new()
        } else {
            pick.steps(view)
        };
        let shown = steps.iter().skip(pick.from).take(WINDOW).copied().collect();
        Self {
            view,
            pick,
            shown,
            count: steps.len(),
        }
    }

    /// Returns the name and label of each sort order, and whether it is active.
    fn sorts(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        SORTS
            .iter()
            .filter(|(name, _)| self.has(name) || *name == self.pick.sort)
            .map(|(name, words)| (*name, *words, *name == self.pick.sort))
    }

    /// Returns whether the run records the values that a sort order needs.
    fn has(&self, name: &str) -> bool {
        let summary = self.view.summary;
        match name {
            "tokens" => summary.tokens.is_some(),
            "cost" => self
                .view
                .index
                .steps()
                .iter()
                .any(|step| step.cost_usd.is_some()),
            "score" => !summary.critics.is_empty(),
            _ => true,
        }
    }

    /// Returns the tools that can be chosen, and whether each is active.
    fn tools(&self) -> Vec<(&str, bool)> {
        let tools = &self.view.summary.tools;
        let chosen = tools
            .iter()
            .skip(TOOLS)
            .filter(|tool| **tool == self.pick.tool);
        tools
            .iter()
            .take(TOOLS)
            .chain(chosen)
            .map(|tool| (tool.as_str(), *tool == self.pick.tool))
            .collect()
    }

    /// Describes the selection.
    fn words(&self) -> String {
        let total = format::count(self.view.index.steps().len() as u64);
        format!("{} of {total} steps", format::count(self.count as u64))
    }

    /// Links to the previous page, the next page, and all steps in order.
    fn links(&self) -> Vec<Link> {
        let to =
            |label: &str, from| Link::new(label, self.pick.address(self.view.key(), from, None));
        let before =
            (self.pick.from > 0).then(|| to("previous", self.pick.from.saturating_sub(WINDOW)));
        let after = self.pick.from + self.shown.len();
        let after = (after < self.count).then(|| to("next", after));
        let all = Link::new("all steps", href::run(self.view.key()));
        [before, after, Some(all)].into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::{Recorded, tags};

    fn run() -> Recorded {
        let step = |(n, (tool, tokens, fails)): (usize, (&str, &str, bool))| {
            let result = if fails {
                r#"{"status": "error", "error": "no"}"#
            } else {
                r#"{"status": "success"}"#
            };
            let decision =
                format!(r#"{{"mode": "act", "actions": [{{"name": "{tool}", "args": {{}}}}]}}"#);
            format!(
                r#"{{"step_id": {n}, "decision": {decision}, "action_results": [{result}]{tokens}}}"#
            )
        };
        let tokens = |number: u64| format!(r#", "context": {{"step_tokens": {number}}}"#);
        let (few, many) = (tokens(5), tokens(900));
        let steps = [
            ("read", &*few, true),
            ("write", &*many, false),
            ("read", "", false),
        ];
        Recorded::steps(steps.into_iter().enumerate().map(step))
    }

    #[test]
    fn steps_are_picked_and_put_in_order() {
        let run = run();
        let view = run.view();
        let picked = |pick: Pick| pick.steps(&view);
        let tool = |tool: &str| Pick {
            tool: tool.to_owned(),
            ..Pick::default()
        };
        assert_eq!(picked(tool("read")), [0, 2]);
        assert_eq!(picked(tool("unused")), [0_usize; 0]);
        assert_eq!(
            picked(Pick {
                errors: true,
                ..Pick::default()
            }),
            [0]
        );
        assert_eq!(
            picked(Pick {
                errors: true,
                ..tool("write")
            }),
            [0_usize; 0]
        );
        let by = |sort: &str| {
            picked(Pick {
                sort: sort.to_owned(),
                ..Pick::default()
            })
        };
        assert_eq!(by("time"), [0, 1, 2], "what has no time stays in order");
        let tokens: Vec<_> = by("tokens")
            .iter()
            .map(|n| view.index.tokens_of(*n))
            .collect();
        assert!(tokens.is_sorted_by(|a, b| a >= b), "{tokens:?}");
    }

    #[test]
    fn what_is_picked_stands_in_the_address_and_in_the_form() {
        let run = run();
        let view = run.view();
        let pick = Pick {
            sort: "time".to_owned(),
            tool: "a&b".to_owned(),
            errors: true,
            from: 60,
        };
        assert_eq!(
            pick.address("k", 60, Some(2)),
            "/runs/k?step=2&sort=time&tool=a%26b&err=1&from=60"
        );
        assert_eq!(Pick::default().address("k", 0, None), "/runs/k");
        let html = Picker::new(
            &view,
            Pick {
                tool: "read".to_owned(),
                ..Pick::default()
            },
        )
        .render()
        .unwrap();
        let tags = tags(&html);
        let chosen: Vec<_> = tags
            .iter()
            .filter(|tag| tag.get("selected").is_some())
            .filter_map(|tag| tag.get("value"))
            .collect();
        assert_eq!(chosen, ["", "read"]);
        assert!(html.contains("2 of 3 steps"), "{html}");
    }
}
