//! Defines the limit on decisions.

use super::*;

/// Stops after this many decisions. The actions of the last decision aren't executed.
///
/// To limit an engine, use [`Builder::max_steps`](crate::engine::Builder::max_steps). It executes the
/// actions of the last decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaxRounds {
    /// Number of decisions; 0 is off.
    pub rounds: u64,
}

impl MaxRounds {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "max_rounds",
        label: "Round limit",
        usage: "max_rounds=N",
        example: "max_rounds=8",
        when: "decisions >= N",
        off: Some("max_rounds=0"),
        unit: "rounds",
        counts: Counts::Steps,
        headline: Some("Round limit reached"),
        field: Some(Field::new(FieldGroup::Limits, Input::Number)),
        scale: Some(Scale::whole("decisions", |value, _| {
            MaxRounds {
                rounds: value as u64,
            }
            .into()
        })),
        parse: |args| {
            Ok(MaxRounds {
                rounds: args.number()?,
            }
            .into())
        },
        ..Row::BASE
    };
}

impl Rule for MaxRounds {
    fn value(&self) -> Option<String> {
        Some(self.rounds.to_string())
    }

    fn limit(&self) -> Amount<'_> {
        Amount::Count(self.rounds)
    }

    fn compile(&self, _: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        Ok(Box::new(self.clone()))
    }
}

impl Condition for MaxRounds {
    fn gates(&self) -> GateSet {
        AFTER_DECIDE
    }

    fn check(&self, _: GateSet, stats: &Stats, _: &StepFacts) -> Check {
        if self.rounds == 0 {
            return off_at_zero();
        }
        measure::at_least(Self::ROW.name, stats.decisions, self.rounds, Self::ROW.unit)
    }
}
