//! Defines the rule that accepts any final result.

use super::*;

/// Accepts any non-empty final result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinalResult {}

impl FinalResult {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "final_result",
        label: "Non-empty final result",
        usage: "final_result",
        example: "final_result",
        when: "the final result isn't empty",
        accepts: true,
        reads: Reads::Hashes,
        field: Some(Field::new(FieldGroup::Answer, Input::Check)),
        parse: |args| args.none().map(|()| FinalResult {}.into()),
        ..Row::BASE
    };
}

impl Rule for FinalResult {
    fn value(&self) -> Option<String> {
        None
    }

    fn limit(&self) -> Amount<'_> {
        Amount::Text("any".into())
    }

    fn compile(&self, _: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        Ok(Box::new(FinalResult {}))
    }
}

impl Condition for FinalResult {
    fn gates(&self) -> GateSet {
        AFTER_STEP
    }

    fn check(&self, _: GateSet, _: &Stats, facts: &StepFacts) -> Check {
        match facts.final_answer.as_deref() {
            Some(answer) if !answer.trim().is_empty() => Check::Stop {
                // As in QitOS. The rule's id tells it from an answer without rules.
                code: Code::Final,
                reading: Reading::text("there is a final result").evidence([span(
                    facts,
                    0,
                    answer.len(),
                )]),
            },
            Some(_) => Check::Pass(Reading::text("the final result is empty")),
            None => Check::Pass(Reading::text("there is no final result")),
        }
    }
}
