//! Defines the limit on completed steps.

use super::*;

/// Stops after this many completed steps. Also parsed under potato_agent's name,
/// `max_iterations`.
///
/// To limit an engine, use [`Builder::max_steps`](crate::engine::Builder::max_steps).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaxSteps {
    /// Number of steps; 0 is off.
    #[serde(alias = "max")]
    pub steps: u64,
}

impl MaxSteps {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "max_steps",
        alias: Some("max_iterations"),
        label: "Step limit",
        usage: "max_steps=N",
        example: "max_steps=8",
        when: "completed steps >= N",
        off: Some("max_steps=0"),
        unit: "steps",
        counts: Counts::Steps,
        headline: Some("Step limit reached"),
        field: Some(Field::new(FieldGroup::Limits, Input::Number)),
        scale: Some(Scale::whole("completed steps", |value, _| {
            MaxSteps {
                steps: value as u64,
            }
            .into()
        })),
        parse: |args| {
            Ok(MaxSteps {
                steps: args.number()?,
            }
            .into())
        },
        ..Row::BASE
    };
}

impl Rule for MaxSteps {
    fn value(&self) -> Option<String> {
        Some(self.steps.to_string())
    }

    fn limit(&self) -> Amount<'_> {
        Amount::Count(self.steps)
    }

    fn compile(&self, _: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        Ok(Box::new(self.clone()))
    }
}

impl Condition for MaxSteps {
    fn gates(&self) -> GateSet {
        AFTER_STEP
    }

    fn check(&self, _: GateSet, stats: &Stats, _: &StepFacts) -> Check {
        if self.steps == 0 {
            return off_at_zero();
        }
        measure::steps(Self::ROW.name, stats, self.steps)
    }
}
