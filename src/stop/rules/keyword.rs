//! Defines the rule that accepts an answer with a keyword.

use super::*;

/// Accepts an answer that contains the keyword.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keyword {
    /// The keyword, case-sensitive; empty is off.
    pub keyword: String,
}

impl Keyword {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "keyword",
        label: "Keyword in the answer",
        usage: "keyword=TEXT",
        example: "keyword=DONE",
        when: "the answer contains the keyword",
        off: Some("keyword="),
        accepts: true,
        reads: Reads::Texts,
        field: Some(Field::new(FieldGroup::Answer, Input::Text)),
        parse: |args| {
            Ok(Keyword {
                keyword: args.text()?,
            }
            .into())
        },
        ..Row::BASE
    };
}

impl Rule for Keyword {
    fn value(&self) -> Option<String> {
        Some(self.keyword.clone())
    }

    fn limit(&self) -> Amount<'_> {
        Amount::Text(self.keyword.as_str().into())
    }

    fn compile(&self, _: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        Ok(Box::new(self.clone()))
    }
}

impl Condition for Keyword {
    fn gates(&self) -> GateSet {
        AFTER_STEP
    }

    fn check(&self, _: GateSet, _: &Stats, facts: &StepFacts) -> Check {
        let word = &self.keyword;
        if word.is_empty() {
            return Check::Off("empty keyword".into());
        }
        let Some(answer) = facts.answer() else {
            return Check::Unknown("the answer's text".into());
        };
        match answer.find(word) {
            Some(at) => {
                let reading = Reading::text(format!("the answer contains {word:?}"));
                Check::Stop {
                    code: Self::ROW.code(),
                    reading: reading.evidence([span(facts, at, at + word.len())]),
                }
            }
            None if facts.is_answer_cut => Check::Unknown("the whole answer".into()),
            None => Check::Pass(Reading::text(format!(
                "the answer doesn't contain {word:?}"
            ))),
        }
    }
}
