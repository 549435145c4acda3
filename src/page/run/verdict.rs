//! Shows why the run stopped: a panel with the verdict, its evidence, the stop rules, and the state
//! of the trace.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format::{self, MISSING, capitalised};
use crate::analysis::health;
use crate::analysis::life::{Basis, Liveness, Silent};
use crate::analysis::run_result::RunResult;
use crate::analysis::verdict::{LimitFrom, RunStatus};
use crate::analysis::why::{self, Evidence, Kind, RuleStatus, Standing, Trouble, Why};
use crate::model::json::Json;
use crate::model::{Certainty, TraceFile};
use crate::page::part::fold::{Fold, Folded, ValueLinks};
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::part::svg::Axis;
use crate::page::part::{href, text};
use crate::page::run_view::{RunView, micros};

/// Longer lines of evidence are truncated; characters.
const EVIDENCE_CHARS: usize = 240;
/// A longer first error is truncated; characters. Its step has the whole text.
const TROUBLE_CHARS: usize = 160;
/// The same for the command that failed.
const COMMAND_CHARS: usize = 80;
/// The same in the line beside the closed panel.
const SHORT_COMMAND_CHARS: usize = 32;
/// Longer lines of the failure report are truncated; characters.
const FAILURE_CHARS: usize = 200;

/// The verdict panel (`#verdict-panel`): the answer in a sentence, then the evidence.
#[derive(Template)]
#[template(path = "run/verdict.html")]
pub(crate) struct Verdict<'a> {
    pub view: &'a RunView<'a>,
    why: Why,
    /// The most relevant rules: those that fired or would have, and those with a limit.
    leading: Vec<RuleStatus>,
    others: Vec<RuleStatus>,
    /// Counts the results of all rules.
    tally: String,
    /// The traceback of the error that ended the run, if recorded.
    traceback: Option<Folded>,
    /// Whether it's a line that opens, and whether it's open at first. Without it, the panel is
    /// shown without the line.
    line: Option<bool>,
}

impl HtmlSafe for Verdict<'_> {}

impl<'a> Verdict<'a> {
    pub(crate) fn new(view: &'a RunView<'a>) -> Self {
        let mut why = why::why(view.summary, view.index, view.lines);
        let tally = why::rules::tally(&why.rules);
        let leads = |rule: &RuleStatus| {
            rule.result == Standing::Fired
                || rule.is_inferred
                || rule.also
                || rule.reading.limit().is_some()
        };
        let (leading, others) = std::mem::take(&mut why.rules).into_iter().partition(leads);
        Self {
            view,
            why,
            leading,
            others,
            tally,
            traceback: traceback(view),
            line: None,
        }
    }

    /// Returns the same below a line that opens it (`#verdict-line`, in `#verdict-box`).
    pub(crate) fn below_line(view: &'a RunView<'a>, is_open: bool) -> Self {
        Self {
            line: Some(is_open),
            ..Self::new(view)
        }
    }

    /// Returns the verdict for the line, and apart from it the notes and what shows the end, which are
    /// shortened first.
    fn head(&self) -> (&str, &str) {
        let verdict = &self.view.summary.verdict;
        let head = verdict.head();
        match verdict.sentence.strip_prefix(head) {
            Some(rest) => {
                let rest = rest.trim_start_matches([' ', '·']);
                let inside = rest
                    .strip_prefix('(')
                    .and_then(|rest| rest.strip_suffix(')'));
                (head, inside.unwrap_or(rest))
            }
            None => (&verdict.sentence, ""),
        }
    }

    /// Returns the second sentence for the line, or else how certain the verdict is.
    fn beside(&self) -> String {
        match self.view.summary.verdict.second.as_str() {
            "" => self.certainty(),
            second => second.to_owned(),
        }
    }

    /// Returns the address of the unfinished step in which the run ended, if there is one.
    fn never_finished(&self) -> Option<String> {
        let ended = !self.view.is_alive() && self.view.index.unfinished_group().is_some();
        ended.then(|| self.view.at_pending())
    }

    /// Returns whether the verdict's second sentence can be omitted, because it is empty or part of
    /// the evidence, which links its steps.
    fn tells_second_below(&self) -> bool {
        let second = self.view.summary.verdict.second.trim_end_matches('.');
        second.is_empty()
            || self
                .why
                .evidence
                .iter()
                .any(|evidence| evidence.text.trim_end_matches('.') == second)
    }

    /// Describes the certainty of the verdict. Empty if the verdict is recorded.
    fn certainty(&self) -> String {
        match (self.why.certainty, self.why.doubt) {
            (_, "") => String::new(),
            // The sentence says from what.
            (Certainty::Inferred, doubt) if !self.view.summary.verdict.names_basis() => {
                format!("Inferred: {doubt}.")
            }
            (_, doubt) => format!("{}.", capitalised(doubt)),
        }
    }

    /// Returns the symbol of a line of evidence, and the class that colors it.
    fn icon(&self, kind: Kind) -> (&'static str, &'static str) {
        let mark = self.view.summary.verdict.mark;
        match kind {
            Kind::End | Kind::Manifest => ("doc", ""),
            Kind::Rule if mark == RunStatus::Limit => ("limit", "lim"),
            Kind::Rule => ("rule", ""),
            Kind::Chain => ("loop", ""),
            Kind::Critic if mark == RunStatus::Critic => ("critic", "stop"),
            Kind::Critic => ("brand", ""),
            Kind::Error => ("error", "err"),
            Kind::Answer => (self.answer_icon(), ""),
            // The trace may never record an end, so nothing suggests that the run died.
            Kind::Gap if mark == RunStatus::Unknown => ("unknown", ""),
            Kind::Gap => ("died", "err"),
            Kind::Context => ("limit", "lim"),
        }
    }

    /// Returns the symbol of an answer. A tick says that success is recorded.
    fn answer_icon(&self) -> &'static str {
        match self.view.summary.result() {
            Some(RunResult::Success) => "ok",
            _ => "disc",
        }
    }

    /// Links the source of a line of evidence.
    fn source(&self, evidence: &Evidence) -> Option<Link> {
        let place = evidence.place(self.view.index)?;
        let href = self.address(evidence.event, evidence.step)?;
        Some(Link::new(place, href))
    }

    /// Returns the address of an event, or else of a step.
    fn address(&self, event: Option<usize>, step: Option<usize>) -> Option<String> {
        let event = event.map(|event| self.view.at_event(event));
        event.or_else(|| step.map(|n| self.view.at_step(n)))
    }

    /// Describes the first trouble for the line beside the closed panel, with a link to its position,
    /// and the whole for a tooltip.
    fn trouble_in_line(&self) -> Option<(Phrase, String)> {
        // The evidence isn't in the line.
        let trouble = self.why.first_trouble.as_ref()?;
        let whole = text::one_line(&trouble.text, COMMAND_CHARS + TROUBLE_CHARS).0;
        Some((
            self.told(trouble, str::to_owned, SHORT_COMMAND_CHARS),
            whole,
        ))
    }

    /// Returns the first trouble, unless the evidence has it.
    fn shown_trouble(&self) -> Option<&Trouble> {
        let trouble = self.why.first_trouble.as_ref()?;
        // The evidence already has the repetition, with its steps.
        let is_told = |evidence: &Evidence| evidence.repeats && evidence.step == trouble.step;
        (!trouble.repeats || !self.why.evidence.iter().any(is_told)).then_some(trouble)
    }

    /// Describes the first trouble, with a link to its position.
    fn trouble(&self) -> Option<Phrase> {
        Some(self.told(self.shown_trouble()?, capitalised, COMMAND_CHARS))
    }

    /// Describes a trouble: its position in the words of `name`, at most `chars` characters of the
    /// command, and the error.
    fn told(&self, trouble: &Trouble, name: fn(&str) -> String, chars: usize) -> Phrase {
        let event = trouble.event.filter(|_| trouble.step.is_none());
        let place = trouble
            .place(self.view.index)
            .zip(self.address(event, trouble.step));
        let mut phrase = match place {
            Some((place, href)) => Phrase::new().link(name(&place), href).text(": "),
            None => Phrase::new(),
        };
        let (command, text) = trouble.parts();
        if let Some(command) = command {
            phrase = phrase.code(text::one_line(command, chars).0);
        }
        phrase.text(text::one_line(text, TROUBLE_CHARS).0)
    }

    /// Links the file and line that the first error names.
    fn in_editor(&self) -> Option<Link> {
        self.view
            .error_in_editor(self.why.first_trouble.as_ref()?.parts().1)
    }

    /// Counts the commands that failed, and those of them that passed later.
    fn failed_commands(&self) -> Option<String> {
        Some(self.why.failed_commands?.words())
    }

    /// Explains how board knows whether the run is alive. Returns `None` for a finished run.
    fn liveness(&self) -> Option<Phrase> {
        let (view, life) = (self.view, &self.view.summary.life);
        let words = match life.basis {
            // The evidence explains a crash.
            Basis::End | Basis::Manifest | Basis::Teardown => return None,
            Basis::Process => return Some("The recorded process no longer exists".into()),
            Basis::Closed => {
                return Some("The file is final, so the run can't continue.".into());
            }
            Basis::Untimed => {
                return Some("The file doesn't show whether the run ended.".into());
            }
            Basis::Nothing => return Some("No timestamps recorded".into()),
            Basis::Away => {
                return Some(
                    "A file of the run can't be read right now. board keeps trying.".into(),
                );
            }
            Basis::Event => ("Last event", ""),
            Basis::ManifestTime if view.index.format().is_one_file() => ("Last record", ""),
            Basis::ManifestTime if view.index.last_ts().is_some() => {
                ("Last update", "manifest, newer than the last event")
            }
            Basis::ManifestTime => ("Last update", "manifest; the events have no timestamps"),
            Basis::FileTime if view.index.last_ts().is_some() => (
                "Last update",
                "file modification time, newer than the last event",
            ),
            Basis::FileTime => (
                "Last update",
                "file modification time, which copying resets; the records have no timestamps",
            ),
        };
        let (words, source) = words;
        let Some(sign) = life.sign else {
            return Some(format!("{words}: unknown").into());
        };
        let asks = view
            .index
            .manifest()
            .get()
            .is_some_and(|manifest| manifest.asks_user.is_some());
        let turn = match (life.liveness, life.silent) {
            (Liveness::Waiting, _) if asks => "Waiting for the user's reply. ",
            (Liveness::Unknown, _) if asks => {
                "It asked the user a question. Whether it was answered is unknown. "
            }
            (Liveness::Waiting, _) | (Liveness::Unknown, Silent::Waits) => {
                "The last turn ended. The user may continue. "
            }
            _ => "",
        };
        let description = Phrase::new()
            .text(format!("{turn}{words}: "))
            .age(format::age(sign, view.now, view.zone), view.iso(sign));
        let description = if source.is_empty() {
            description
        } else {
            description.text(format!(" ({source})"))
        };
        Some(match view.index.slowest_gap() {
            0 if life.liveness == Liveness::Stalled => {
                description.dim(" · no earlier pauses to compare with")
            }
            0 => description,
            slowest => description.dim(format!(" · longest pause in the run {}", micros(slowest))),
        })
    }

    /// Returns "clean", or the numbers of problems and notes with the worst issue.
    fn health(&self) -> Phrase {
        let words = health::in_words(self.view.summary.issues);
        if self.view.summary.issues.0 == 0 {
            return Phrase::from(words);
        }
        let first = health::issues(self.view.index)
            .into_iter()
            .min_by_key(|issue| !issue.problem);
        let first = first.map_or_else(String::new, |issue| {
            let line = match issue.line {
                Some(line) if line > 0 => format!(" (line {})", format::count(line)),
                _ => String::new(),
            };
            format!(" · {}: {}{line}", issue.name, issue.reason)
        });
        Phrase::new()
            .link(words, href::tab(self.view.key(), "issues"))
            .text(first)
    }

    fn rules_summary(&self) -> String {
        format!("Stop rules: {}", self.tally)
    }

    fn of_others(&self) -> String {
        let noun = if self.leading.is_empty() {
            "rule"
        } else {
            "more rule"
        };
        let rules = format::counted(self.others.len(), noun);
        let unknown = |rule: &RuleStatus| rule.result == Standing::Unknown;
        if self.others.iter().all(unknown) {
            return format!("{rules}: unknown, because their limits aren't recorded");
        }
        let results = why::rules::results(&self.others);
        format!("{rules} without a limit: {results}")
    }

    /// Returns the class of a rule's row, and its result.
    fn standing(&self, rule: &RuleStatus) -> (&'static str, Sign) {
        let state = rule.state(!self.view.is_alive());
        match (rule.result, self.view.summary.verdict.mark) {
            _ if rule.is_inferred => ("ends", Sign::word("mk", "doubt", state)),
            (Standing::Fired, RunStatus::Limit) => ("hit", Sign::word("mk lim", "limit", state)),
            // Amber is reserved for limits.
            (Standing::Fired, RunStatus::Critic) => {
                ("ends", Sign::word("mk stop", "critic", state))
            }
            (Standing::Fired, RunStatus::Error) => ("ends", Sign::word("mk err", "error", state)),
            (Standing::Fired, RunStatus::Answered) => {
                ("ends", Sign::word("mk", self.answer_icon(), state))
            }
            (Standing::Fired, _) => ("ends", Sign::word("mk", "rule", state)),
            (Standing::Held, _) => ("", Sign::plain("mk", state)),
            (Standing::Off, _) => ("off", Sign::plain("mk", state)),
            (Standing::Unknown, _) => ("off", Sign::word("mk", "unknown", state)),
        }
    }
}

/// Returns the traceback in the record of the end.
fn traceback(view: &RunView<'_>) -> Option<Folded> {
    let at = view.index.manifest().get()?.ended.as_ref()?.event?;
    let event = view.index.events().get(at)?;
    let record = view.lines.record(TraceFile::Events, event.span).ok()?;
    let json = Json::parse(&record.text)?;
    let text = json.get("traceback").and_then(Json::as_str)?;
    let links = ValueLinks::below(&href::event(view.key(), at));
    let is_empty = text.trim().is_empty();
    (!is_empty).then(|| Fold::new(links).failing(text, "/traceback"))
}

fn limit(rule: &RuleStatus) -> String {
    format::or_missing(rule.reading.limit(), |value| rule.amount(value))
}

fn used(rule: &RuleStatus) -> String {
    rule.used().unwrap_or_else(|| MISSING.to_owned())
}

fn set_by(rule: &RuleStatus) -> &'static str {
    rule.limit_from.map_or(MISSING, LimitFrom::as_str)
}

fn axis(score: Option<f64>) -> Option<Axis> {
    Axis::new(score?, None)
}
