//! Reads facts about critics that only the line of a step has: the spelling of scores, reasons,
//! patches.

use crate::model::step::{CriticOutput, Value};
use crate::model::{Record, TraceFile};
use crate::page::run_view::RunView;

/// The texts of a critic's output, as recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CriticText {
    /// The score as spelled in the file: the digits of a number, the text of a string, or JSON.
    /// Empty if there isn't one.
    pub score: String,
    /// The requested action. May be empty.
    pub action: String,
    pub reason: String,
    /// The requested changes: each patch with its name. May be empty.
    pub patch: String,
}

/// Returns the outputs of a step's line that are objects. The index counts the same ones.
pub(crate) fn critic_texts(line: &[u8]) -> Vec<CriticText> {
    let record = Record::of(line);
    let step = crate::format::step(&record).unwrap_or_default();
    step.critics
        .iter()
        .filter(|output| output.value.is_object())
        .map(read)
        .collect()
}

fn read(output: &CriticOutput<'_>) -> CriticText {
    let text = |value: Option<Value<'_>>| {
        value
            .filter(|value| value.text != "null")
            .map(|value| value.plain().into_owned())
            .unwrap_or_default()
    };
    let patches: Vec<_> = output
        .patches
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.plain()))
        .collect();
    CriticText {
        score: text(output.raw_score),
        action: text(output.word),
        reason: text(output.reason),
        patch: patches.join(" · "),
    }
}

/// Returns the critic outputs in the line of step `n`. Empty if the line can't be read.
pub(crate) fn critic_texts_at(view: &RunView<'_>, n: usize) -> Vec<CriticText> {
    let span = view
        .index
        .steps()
        .get(n)
        .map(|step| step.span)
        .unwrap_or_default();
    view.lines
        .short_line(TraceFile::Steps, span)
        .map(|line| critic_texts(&line))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::page::scores::critic_texts::*;

    #[test]
    fn what_is_said_is_as_written() {
        let critic_texts = critic_texts(
            br#"{"critic_outputs": [{"score": 0.250, "action": "retry", "reason": "no", "instruction_patch": "Read it.",
            "state_patch": {"a": 1}}, 7, {"score": NaN}, {"score": "high", "state_patch": {}}, {}]}"#,
        );
        let scores: Vec<&str> = critic_texts
            .iter()
            .map(|critic_texts| critic_texts.score.as_str())
            .collect();
        assert_eq!(scores, ["0.250", "NaN", "high", ""]);
        assert_eq!(
            critic_texts[0].patch,
            r#"instruction: Read it. · state: {"a": 1}"#
        );
        assert_eq!(
            (
                critic_texts[0].action.as_str(),
                critic_texts[0].reason.as_str(),
                critic_texts[2].patch.as_str()
            ),
            ("retry", "no", "")
        );
    }
}
