//! Collects the differences between a copy and the run that is counted instead of it.

use super::relation::CopyDifferences;
use crate::analysis::format;
use crate::analysis::summary::{GivenScore, Summary};
use crate::model::step::Usage;
use crate::model::{Certainty, Outcome};

/// The maximum number of differences of one copy that are listed.
const MAX_DIFFERENCES: usize = 20;
/// Amounts that differ by no more than this are equal; US dollars.
const LEAST_USD: f64 = 1e-6;

impl CopyDifferences {
    /// Compares a copy with the counted run. `children` is the sum of the children's tokens, if all
    /// are known.
    pub(super) fn of(copy: &Summary, run: &Summary, children: Option<u64>) -> Option<Self> {
        if copy.is_empty_session() {
            return None;
        }
        let key = copy.key.as_str();
        let (own, others) = (own_steps(run), own_steps(copy));
        // If steps aren't replies, two files of one run may have different numbers of steps.
        let are_replies = copy.steps_are_replies && run.steps_are_replies;
        // A copy that ends earlier has no records of later steps. One without steps may be of a later
        // turn that has none.
        let records_end = !are_replies && copy.verdict.certainty == Certainty::Recorded;
        // The output of an earlier turn doesn't show how a later one ended, even one without steps.
        let is_earlier = run.is_session
            && !copy.is_session
            && (copy.turns.zip(run.turns)).is_some_and(|(theirs, own)| theirs < own);
        let is_whole = (others >= own || records_end && others > 0) && !is_earlier;
        let mut differences = Self {
            key: key.to_owned(),
            verdict: copy.verdict.sentence.to_string(),
            outcome: copy.verdict.outcome,
            stop_reason: copy.verdict.stop_reason.as_deref().map(str::to_owned),
            certainty: copy.verdict.certainty,
            is_other_end: is_other_end(copy, run),
            is_whole,
            differs: Vec::new(),
            contradictions: Vec::new(),
        };
        if others > own && are_replies {
            let word = |steps: usize| format::counted(steps, "step");
            differences
                .differs
                .push(format!("{} (here: {})", word(others), word(own)));
        }
        // An end inferred from a file that lacks records contradicts nothing.
        let is_suggested = !copy.is_session && copy.verdict.certainty != Certainty::Recorded;
        if differences.is_other_end
            && is_whole
            && !is_suggested
            && is_known(copy.verdict.outcome)
            && is_known(run.verdict.outcome)
        {
            differences
                .contradictions
                .push(format!("{key} records: {}", copy.verdict.sentence));
        }
        if others == own {
            differences.amounts(copy, run, children);
        }
        differences.grades(copy, run);
        differences.differs.truncate(MAX_DIFFERENCES);
        differences.contradictions.truncate(MAX_DIFFERENCES);
        (differences.is_other_end || !differences.differs.is_empty()).then_some(differences)
    }

    /// Compares tokens and cost of runs with the same steps.
    fn amounts(&mut self, copy: &Summary, run: &Summary, children: Option<u64>) {
        let mut differ = |words: String| self.contradict(words);
        let are_exact = |run: &Summary| {
            run.tokens_unknown == 0
                && !run.tokens_estimated
                && !run.tokens_of_thread
                && !run.total_explained
        };
        let below = match (copy.totals_with_children, run.totals_with_children) {
            (true, false) => children,
            (false, false) => Some(0),
            (true, true) if children == Some(0) => Some(0),
            _ => None,
        };
        let is_stated = copy.tokens.is_some() && copy.tokens == run.total;
        if let Some((theirs, own)) = copy.tokens.zip(run.tokens)
            && let Some(below) = below.filter(|_| are_exact(copy) && are_exact(run) && !is_stated)
        {
            // A program may leave out the children that it doesn't wait for.
            let with_children = own.saturating_add(below);
            if theirs != own && theirs != with_children {
                differ(format!("{} (here: {})", tokens(theirs), tokens(own)));
            } else if let Some(part) =
                usage_difference(*copy.usage, *run.usage).filter(|_| below == 0)
            {
                differ(part);
            }
        }
        if let Some((theirs, own)) = copy.cost_usd.zip(run.cost_usd)
            && (theirs - own).abs() > LEAST_USD
        {
            differ(format!(
                "cost {} (here: {})",
                format::usd(theirs),
                format::usd(own)
            ));
        }
    }

    /// Compares scores, success, invalidation and contradictions.
    fn grades(&mut self, copy: &Summary, run: &Summary) {
        for GivenScore { name, value } in &copy.scores {
            let Some(value) = value else { continue };
            match run
                .scores
                .iter()
                .find(|score| score.name == *name)
                .map(|score| score.value.as_ref())
            {
                Some(Some(own)) if own != value => {
                    self.contradict(format!("{name} {value} (here: {own})"))
                }
                Some(Some(_)) => {}
                Some(None) | None => self
                    .differs
                    .push(format!("{name} {value} (not recorded here)")),
            }
        }
        if copy.scores.is_empty() && run.scores.is_empty() && copy.last_score != run.last_score {
            let words = |score: Option<f64>| score.map_or_else(|| "none".to_owned(), format::score);
            if copy.last_score.is_some() {
                self.differs.push(format!(
                    "score {} (here: {})",
                    words(copy.last_score),
                    words(run.last_score)
                ));
            }
        }
        if let Some(invalidation) = copy
            .invalidation
            .as_ref()
            .filter(|_| copy.invalidation != run.invalidation)
        {
            self.differs.push(invalidation.clone());
        }
        if let Some((theirs, own)) = copy
            .success
            .zip(run.success)
            .filter(|(theirs, own)| theirs != own)
        {
            let word = |success: bool| if success { "success" } else { "no success" };
            self.contradict(format!("{} (here: {})", word(theirs), word(own)));
        }
        let others = copy.verdict.contradictions.iter();
        for other in others.filter(|other| !run.verdict.contradictions.contains(other)) {
            self.contradict(other.clone());
        }
    }

    fn contradict(&mut self, words: String) {
        self.contradictions
            .push(format!("{} records: {words}", self.key));
        self.differs.push(words);
    }

    /// Returns whether the copy records the end of the run, and the run itself neither records nor
    /// suggests one.
    pub(super) fn is_end(&self, run: &Summary) -> bool {
        self.records_end(run) && is_known(self.outcome) && !is_known(run.verdict.outcome)
    }

    /// Returns whether the copy records an end that the run itself doesn't record.
    pub fn records_end(&self, run: &Summary) -> bool {
        let is_recorded =
            self.is_other_end && self.is_whole && self.certainty == Certainty::Recorded;
        is_recorded && run.verdict.certainty != Certainty::Recorded
    }
}

fn own_steps(run: &Summary) -> usize {
    run.steps.saturating_sub(run.steps_nested)
}

fn is_known(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::Unknown | Outcome::Running)
}

/// Returns whether a copy describes a different end. Two answers are the same end, however their
/// formats word it.
fn is_other_end(copy: &Summary, run: &Summary) -> bool {
    let (theirs, own) = (&copy.verdict, &run.verdict);
    let is_cut = own_steps(copy) < own_steps(run) && !is_known(theirs.outcome);
    let are_alike = theirs.outcome == own.outcome
        && (theirs.outcome == Outcome::Completed
            || theirs.stop_reason == own.stop_reason
            || theirs.certainty != Certainty::Recorded
            || theirs.mark == own.mark);
    !are_alike && (!is_cut || theirs.outcome != own.outcome)
}

fn tokens(tokens: u64) -> String {
    format!("{} tokens", format::count(tokens))
}

/// Returns the part of the tokens that differs, if the sums are equal.
fn usage_difference(theirs: Usage, own: Usage) -> Option<String> {
    let parts = [
        ("input tokens", theirs.input, own.input),
        ("cached tokens", theirs.cached, own.cached),
        ("output tokens", theirs.output, own.output),
    ];
    let differs = |(word, theirs, own): (&str, Option<u64>, Option<u64>)| {
        let (theirs, own) = theirs.zip(own).filter(|(theirs, own)| theirs != own)?;
        Some(format!(
            "{} {word} (here: {})",
            format::count(theirs),
            format::count(own)
        ))
    };
    parts.into_iter().find_map(differs)
}
