//! What does the line of a step say of its critics that the index does not keep? Scores as spelled, reasons, patches.

use crate::model::json::Json;
use crate::page::step::fill::readable;

/// What a critic's output says, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// The score as spelled in the file: a number's own digits, a string's text, JSON of anything else; empty for none.
    pub score: String,
    /// The word for what it asks; empty for none.
    pub action: String,
    /// The reason.
    pub reason: String,
    /// What it wants changed: each patch with its name; empty for nothing.
    pub patch: String,
}

/// The keys under which a critic says what it wants changed.
const PATCHES: [(&str, &str); 3] =
    [("instruction_patch", "instruction"), ("modified_prompt", "prompt"), ("state_patch", "state")];

/// The outputs of a step's line that are objects, as the index counts them.
pub(crate) fn said(line: &[u8]) -> Vec<Said> {
    let (text, _) = readable(line);
    let json = Json::parse(&text);
    let outputs = json.as_ref().and_then(|step| step.get("critic_outputs")?.as_array()).unwrap_or_default();
    outputs.iter().filter(|output| output.as_object().is_some()).map(read).collect()
}

fn read(output: &Json<'_>) -> Said {
    let text = |key: &str| output.get(key).filter(|value| **value != Json::Null).map(own_text).unwrap_or_default();
    let patch = |(key, name): &(&str, &str)| {
        let value = output.get(key).filter(|value| !value.is_empty())?;
        Some(format!("{name}: {}", own_text(value)))
    };
    let patches: Vec<String> = PATCHES.iter().filter_map(patch).collect();
    Said { score: text("score"), action: text("action"), reason: text("reason"), patch: patches.join(" · ") }
}

fn own_text(value: &Json<'_>) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use crate::page::scores::said::*;

    #[test]
    fn what_is_said_is_as_written() {
        let said = said(
            br#"{"critic_outputs": [{"score": 0.250, "action": "retry", "reason": "no", "instruction_patch": "Read it.",
            "state_patch": {"a": 1}}, 7, {"score": NaN}, {"score": "high", "state_patch": {}}, {}]}"#,
        );
        let scores: Vec<&str> = said.iter().map(|said| said.score.as_str()).collect();
        assert_eq!(scores, ["0.250", "NaN", "high", ""]);
        assert_eq!(said[0].patch, r#"instruction: Read it. · state: {"a": 1}"#);
        assert_eq!((said[0].action.as_str(), said[0].reason.as_str(), said[2].patch.as_str()), ("retry", "no", ""));
    }
}
