//! Defines the rule that requires a JSON answer, optionally with a schema.

use std::sync::Arc;

use serde_json::Value;

use super::*;
use crate::stop::custom::SchemaCheck;
use crate::stop::text::fenced;

/// Accepts an answer that is valid JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StructuredOutput {
    /// The JSON Schema for the answer. Uses draft 2020-12 unless `$schema` names another. Needs the
    /// feature `board` or a custom validator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Whether JSON in a fenced code block of the answer is accepted.
    #[serde(default)]
    pub fenced: bool,
}

impl StructuredOutput {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "structured_output",
        label: "JSON answer",
        usage: "structured_output[=SCHEMA.json]",
        example: "structured_output",
        correction: Some(r#"{"type":"structured_output","schema":{"type":"object"}}"#),
        when: "the answer (with `fenced`, also a fenced block in it) is JSON, and matches the schema if there is one",
        accepts: true,
        reads: Reads::Texts,
        field: Some(Field::new(FieldGroup::Answer, Input::Check)),
        parse: |args| {
            Ok(StructuredOutput {
                schema: args.file()?,
                fenced: false,
            }
            .into())
        },
        ..Row::BASE
    };
}

impl Rule for StructuredOutput {
    fn value(&self) -> Option<String> {
        None
    }

    fn limit(&self) -> Amount<'_> {
        Amount::Text(
            if self.schema.is_some() {
                "matches a schema"
            } else {
                "any"
            }
            .into(),
        )
    }

    fn compile(&self, compiler: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        let compile = compiler.schemas.unwrap_or(&built_in);
        let schema = self
            .schema
            .as_ref()
            .map(compile)
            .transpose()
            .map_err(|wrong| {
                SpecError::new(format!(
                    "the schema of structured_output doesn't compile: {wrong}"
                ))
            })?;
        Ok(Box::new(Compiled {
            schema,
            fenced: self.fenced,
        }))
    }
}

#[cfg(feature = "board")]
fn built_in(schema: &Value) -> Result<Arc<dyn SchemaCheck>, String> {
    crate::stop::schema::compile(schema)
}

#[cfg(not(feature = "board"))]
fn built_in(_: &Value) -> Result<Arc<dyn SchemaCheck>, String> {
    Err("it needs the feature `board`, which is missing from this build. Without a schema, any JSON is accepted".into())
}

struct Compiled {
    schema: Option<Arc<dyn SchemaCheck>>,
    fenced: bool,
}

impl Condition for Compiled {
    fn gates(&self) -> GateSet {
        AFTER_STEP
    }

    /// Accepts JSON as the whole answer or, if allowed, as a fenced block in it. If a key is
    /// repeated, the last value counts.
    fn check(&self, _: GateSet, _: &Stats, facts: &StepFacts) -> Check {
        let Some(answer) = facts.answer() else {
            return Check::Unknown("the answer's text".into());
        };
        if facts.is_answer_cut {
            return Check::Unknown("the whole answer".into());
        }
        let mut miss = None;
        let blocks = if self.fenced {
            fenced(answer)
        } else {
            Vec::new()
        };
        for part in std::iter::once(answer).chain(blocks) {
            let value: Value = match serde_json::from_str(part) {
                Ok(value) => value,
                Err(error) => {
                    miss.get_or_insert_with(|| {
                        Reading::text(format!("the answer isn't JSON: {error}"))
                    });
                    continue;
                }
            };
            if let Some(Err(wrong)) = self.schema.as_ref().map(|schema| schema.check(&value)) {
                let path = wrong.instance_path;
                let detail = format!(
                    "the answer doesn't match its schema at {path:?}: {}",
                    wrong.message
                );
                let evidence = Evidence::Schema {
                    step: facts.step,
                    instance_path: path,
                };
                // If several parts fail, a schema mismatch is the most useful feedback for the
                // model.
                miss = Some(Reading::text(detail).evidence([evidence]));
                continue;
            }
            let start = (part.as_ptr() as usize).saturating_sub(answer.as_ptr() as usize);
            let reading = Reading::text("the answer is the requested JSON");
            let reading = reading.evidence([span(facts, start, start + part.len())]);
            return Check::Stop {
                code: StructuredOutput::ROW.code(),
                reading,
            };
        }
        Check::Pass(miss.unwrap_or_default())
    }
}
