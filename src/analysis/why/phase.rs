//! Words a recorded detail that begins with the name of a phase.

/// Names the phase in a detail that begins with it: "decide failed and wasn't recovered".
pub(super) fn of_phase(detail: &str) -> String {
    // Older versions of the engine wrote "was not".
    let parts = ["wasn't", "was not"]
        .iter()
        .find_map(|word| detail.split_once(&format!(" failed and {word} recovered")));
    match parts {
        Some((phase, rest)) if !phase.contains(' ') => {
            format!("the {phase} phase failed and wasn't recovered{rest}")
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
        let other = "the tool failed and wasn't recovered";
        assert_eq!(of_phase(other), other);
    }
}
