//! Words a recorded detail that begins with the name of a phase.

use crate::model::Phase;

/// Names the phase in a detail that begins with it: "decide failed and wasn't recovered".
pub(super) fn of_phase(detail: &str) -> String {
    // Older versions of the engine wrote "was not".
    let parts = ["wasn't", "was not"]
        .iter()
        .find_map(|word| detail.split_once(&format!(" failed and {word} recovered")));
    match (parts, detail.split_once(" failed: ")) {
        (Some((phase, rest)), _) if !phase.contains(' ') => {
            format!("the {phase} phase failed and wasn't recovered{rest}")
        }
        (None, Some((phase, rest))) if Phase::ALL.iter().any(|known| known.as_str() == phase) => {
            format!("the {phase} phase failed: {rest}")
        }
        _ => detail.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_named_as_one() {
        let told = "decide failed and wasn't recovered: no model";
        assert_eq!(
            of_phase(told),
            "the decide phase failed and wasn't recovered: no model"
        );
        assert_eq!(
            of_phase("act failed and was not recovered"),
            "the act phase failed and wasn't recovered"
        );
        assert_eq!(
            of_phase("decide failed: no model"),
            "the decide phase failed: no model"
        );
        assert_eq!(of_phase("a rule failed: x"), "a rule failed: x");
        let other = "the tool failed and wasn't recovered";
        assert_eq!(of_phase(other), other);
    }
}
