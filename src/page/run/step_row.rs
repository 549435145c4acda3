//! Shows a step as one row of a list: what it did, its duration and its tokens.

use std::sync::Arc;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::summary::Summary;
use crate::analysis::timing::took;
use crate::analysis::why;
use crate::model::index::Group;
use crate::model::{CriticAction, Fate, StepHead};
use crate::page::part::sign::Sign;
use crate::page::part::text::{self, Line};
use crate::page::part::tool::ToolLine;
use crate::page::run_view::{RunView, micros};
use crate::page::step::fill::{COPIED, LEFT, about, first_call};
use crate::page::step::messages::{compaction_in_words, compactions_before};

/// A row of the step list (`#step-{n}`).
#[derive(Template)]
#[template(path = "run/step_row.html")]
pub(crate) struct StepRow<'a> {
    view: &'a RunView<'a>,
    n: usize,
    step: &'a StepHead,
    group: Option<&'a Group>,
    href: String,
    /// Whether it is the current step.
    is_current: bool,
    /// What the step did.
    did: Did<'a>,
    /// The number of steps of the child run that it started, and how that ended.
    child: Line,
}

impl HtmlSafe for StepRow<'_> {}

impl<'a> StepRow<'a> {
    /// Reads step `n`. `children` are the child runs, each with the step that started it.
    pub(crate) fn new(
        view: &'a RunView<'a>,
        n: usize,
        href: String,
        is_current: bool,
        children: &[(Arc<Summary>, Option<usize>)],
    ) -> Option<Self> {
        let step = view.index.steps().get(n)?;
        let group = view.index.round_of(n);
        let mut own = children.iter().filter(|(_, begun)| *begun == Some(n));
        let child = match (own.next(), own.count()) {
            (Some((child, _)), 0) => about(child),
            (Some(_), more) => format::counted(more + 1, "child run"),
            (None, _) => String::new(),
        };
        Some(Self {
            view,
            n,
            step,
            group,
            href,
            is_current,
            did: Did::of(view, n, step, group),
            child: child.into(),
        })
    }

    /// Returns the step's number.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// Returns the step in the index.
    pub(crate) fn step(&self) -> &'a StepHead {
        self.step
    }

    /// Returns the step's events.
    pub(crate) fn group(&self) -> Option<&'a Group> {
        self.group
    }

    fn is_pending(&self) -> bool {
        self.step.fate == Fate::Provisional
    }

    fn sign(&self) -> Option<Sign> {
        sign(self.step, self.group)
    }

    fn note(&self) -> Option<Sign> {
        let is_copied = self.n < self.view.summary.copied_steps();
        let compacted = || compactions_before(self.view, self.n).next();
        let compacted = || {
            Some(Sign::icon(
                "mk",
                "split",
                compaction_in_words(self.view.index, compacted()?),
            ))
        };
        let copied = || is_copied.then(|| Sign::icon("mk", "split", COPIED));
        note(self.step).or_else(compacted).or_else(copied)
    }

    /// Lists the critics with their scores, which are drawn next to the row. Otherwise explains why
    /// there aren't any.
    fn scores(&self) -> String {
        if self.is_pending() {
            return "incomplete line".to_owned();
        }
        let scores = self.step.critics.iter().map(|mark| {
            let name = self.view.index.name(mark.name);
            mark.score.map_or_else(
                || format!("{name} no score"),
                |score| format!("{name} {}", format::score(score)),
            )
        });
        scores.collect::<Vec<_>>().join(", ")
    }

    /// Returns the whole text, which the row truncates.
    fn title(&self) -> Line {
        match &self.did {
            Did::Nothing(words, error) => format!("{words}{error}").into(),
            _ => text::shown(&*self.step.call),
        }
    }

    fn took(&self) -> Option<String> {
        self.group.and_then(took).map(micros)
    }

    fn tokens(&self) -> String {
        let mark = format::bound(false, self.view.index.tokens_estimated(self.n));
        format::or_missing(self.view.index.tokens_of(self.n), |tokens| {
            format!("{mark}{}", format::tokens(tokens))
        })
    }
}

/// The action of a step, in one line.
enum Did<'a> {
    /// Called tools: the first call, and the number of others.
    Tool(Box<ToolLine>, usize),
    /// Called a tool whose record isn't read for a row. The index has the beginning of the call.
    Call(&'a str, &'a str),
    Answer(&'static str, &'a str),
    /// Another action: waited, handed over.
    Words(&'a str),
    /// No decision or an unreadable line, with the error.
    Nothing(&'static str, &'a str),
}

impl<'a> Did<'a> {
    fn of(view: &'a RunView<'a>, n: usize, step: &'a StepHead, group: Option<&'a Group>) -> Self {
        if !step.fate.is_readable() {
            // The text of a placeholder names its lines.
            return if step.call.is_empty() {
                Did::Nothing("unreadable line", "")
            } else {
                Did::Nothing("", &step.call)
            };
        }
        if step.actions > 0 {
            let more = (step.actions as usize).saturating_sub(1);
            if let Some(first) = first_call(view, n) {
                let project = view.summary.project.as_deref().unwrap_or_default();
                let line = ToolLine::new(first, &view.label(n), project, view.index.format());
                return Did::Tool(Box::new(line), more);
            }
            if let Some((name, args)) = step.call.split_once('(') {
                return Did::Call(name, args.strip_suffix(')').unwrap_or(args));
            }
        }
        let reply = if view.index.format().is_session {
            "Reply"
        } else {
            "Answer"
        };
        match (step.call.strip_prefix("answer: "), &*step.call) {
            (Some(answer), _) => Did::Answer(reply, answer),
            (None, "") => match group.and_then(|group| group.error.as_ref()) {
                Some((_, text)) => Did::Nothing("no decision · ", text),
                None => Did::Nothing("no decision", ""),
            },
            (None, words) => Did::Words(words),
        }
    }

    /// Returns the words of the row.
    fn in_words(&self) -> String {
        match self {
            Did::Tool(tool, more) => {
                let mut words = format!("{} {}", tool.name, tool.short_object());
                let (added, removed) = tool.lines.unwrap_or_default();
                if added > 0 {
                    words.push_str(&format!(" +{added}"));
                }
                if removed > 0 {
                    words.push_str(&format!(" −{removed}"));
                }
                if *more > 0 {
                    words.push_str(&format!(" +{more} more"));
                }
                match tool.preview.as_str() {
                    preview if tool.is_failed => words.push_str(&format!(" ✗ {preview}")),
                    "" => {}
                    _ if tool.pair.reads.is_some() => {}
                    preview => words.push_str(&format!(" → {preview}")),
                }
                words
            }
            Did::Call(name, args) => format!("{name} {args}"),
            Did::Answer(kind, words) => format!("{kind}: {words}"),
            Did::Words(words) => (*words).to_owned(),
            Did::Nothing(words, error) => format!("{words}{error}"),
        }
    }
}

/// Says what step `n` did, as its row does. Returns `None` if there is no such step.
pub(crate) fn in_words(view: &RunView<'_>, n: usize) -> Option<String> {
    let step = view.index.steps().get(n)?;
    Some(Did::of(view, n, step, view.index.round_of(n)).in_words())
}

/// Returns the sign of an error in the step.
pub(crate) fn sign(step: &StepHead, group: Option<&Group>) -> Option<Sign> {
    let error = |words: String| Sign::icon("mk err", "error", words);
    if !step.fate.is_readable() {
        let words = if step.call.is_empty() {
            "unreadable line"
        } else {
            &*step.call
        };
        return Some(error(words.to_owned()));
    }
    if let Some((group, (_, text))) = group.and_then(|group| Some((group, group.error.as_ref()?))) {
        let recovered = if group.recovered {
            ", passed to recovery"
        } else {
            ""
        };
        return Some(error(format!("error{recovered}: {text}")));
    }
    if let Some(text) = &step.error {
        // The error of a reply says so itself.
        let what = match (step.is_of_reply(), step.is_cancelled()) {
            (true, _) => "",
            (false, true) => "call ",
            (false, false) => "tool error: ",
        };
        return Some(error(format!("{what}{text}")));
    }
    if step.is_undecided() {
        return Some(error("no decision recorded".to_owned()));
    }
    let meaning = format!("the command {}", why::exited(step)?).into();
    Some(Sign {
        class: "mk err",
        icon: "",
        text: "≠0".into(),
        meaning,
    })
}

pub(crate) fn note(step: &StepHead) -> Option<Sign> {
    let reason = step.critic_reason.as_deref().unwrap_or_default();
    if step.requested(CriticAction::Retry) {
        return Some(Sign::icon(
            "mk retry",
            "retry",
            format!("retry requested: {reason}"),
        ));
    }
    if step.is_abandoned {
        return Some(Sign::icon("mk", "split", LEFT));
    }
    step.requested(CriticAction::Stop)
        .then(|| Sign::icon("mk stop", "critic", format!("stop requested: {reason}")))
}
