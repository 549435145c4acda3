//! Chooses among the candidates of a branch by their scores.

use trace_board::engine::{Candidate, Choice, Selector};

/// Chooses the candidate with the highest `meta.score`, the first one if scores are equal.
pub(crate) struct HighestScore;

impl Selector for HighestScore {
    fn name(&self) -> &str {
        "highest_score"
    }

    fn choose(&self, candidates: &[Candidate]) -> Result<Choice, String> {
        let score = |candidate: &Candidate| candidate.meta.get("score")?.as_f64();
        let scores: Option<Vec<_>> = candidates.iter().map(score).collect();
        let scores = scores.ok_or("a candidate has no score in `meta`")?;
        let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let index = scores.iter().position(|score| *score == best);
        Ok(Choice {
            index: index.unwrap_or_default(),
            why: format!("score {best}, the highest of {}", candidates.len()),
            scores,
        })
    }
}
