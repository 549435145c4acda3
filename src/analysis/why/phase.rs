//! Words a recorded detail that begins with the name of a phase.

/// Names the phase in a detail that begins with it: "decide failed and wasn't recovered".
pub(super) fn of_phase(detail: &str) -> String {
    match detail.split_once(" failed and wasn't recovered") {
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
        let other = "the tool failed and wasn't recovered";
        assert_eq!(of_phase(other), other);
    }
}
