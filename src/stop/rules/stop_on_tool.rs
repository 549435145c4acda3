//! Defines the rule that stops when a tool is requested.

use super::*;

/// Stops when a tool is requested, before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopOnTool {
    /// The exact name of the tool; empty is off.
    pub tool_name: String,
}

impl StopOnTool {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "stop_on_tool",
        label: "Stop on tool",
        usage: "stop_on_tool=NAME",
        example: "stop_on_tool=deploy",
        when: "an action has exactly this name",
        off: Some("stop_on_tool="),
        field: Some(Field::new(FieldGroup::Answer, Input::Tool)),
        parse: |args| {
            Ok(StopOnTool {
                tool_name: args.text()?,
            }
            .into())
        },
        ..Row::BASE
    };
}

impl Rule for StopOnTool {
    fn value(&self) -> Option<String> {
        Some(self.tool_name.clone())
    }

    fn limit(&self) -> Amount<'_> {
        Amount::Text(self.tool_name.as_str().into())
    }

    fn compile(&self, _: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        Ok(Box::new(self.clone()))
    }
}

impl Condition for StopOnTool {
    fn gates(&self) -> GateSet {
        AFTER_DECIDE
    }

    fn check(&self, _: GateSet, _: &Stats, facts: &StepFacts) -> Check {
        let name = &self.tool_name;
        if name.is_empty() {
            return Check::Off("empty name".into());
        }
        let Some(actions) = &facts.actions else {
            return Check::Unknown("the requested actions".into());
        };
        match actions.iter().position(|action| action == name) {
            Some(at) => Check::Stop {
                code: Self::ROW.code(),
                reading: Reading::text(format!("the model called {name}")).evidence([
                    Evidence::Action {
                        step: facts.step,
                        action: at as u64,
                    },
                ]),
            },
            None => Check::pass(),
        }
    }
}
