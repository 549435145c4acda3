//! Defines the rule that stops when the state no longer changes.

use super::*;

/// Stops when the state doesn't change.
///
/// Like QitOS, counts steps after which the state is the same as after the previous one. With a
/// limit of 3, the fourth equal state stops the run. The first step of a run has no previous step
/// and never counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stagnation {
    /// Number of steps in a row that left the state unchanged; 0 is off.
    pub steps: u64,
}

impl Stagnation {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "stagnation",
        label: "State unchanged",
        usage: "stagnation=N",
        example: "stagnation=3",
        when: "steps in a row without a state change >= N",
        off: Some("stagnation=0"),
        unit: "steps without change",
        field: Some(Field::new(FieldGroup::Progress, Input::Number)),
        scale: Some(Scale::whole("steps without a change", |value, _| {
            Stagnation {
                steps: value as u64,
            }
            .into()
        })),
        parse: |args| {
            Ok(Stagnation {
                steps: args.number()?,
            }
            .into())
        },
        ..Row::BASE
    };
}

impl Rule for Stagnation {
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

impl Condition for Stagnation {
    fn gates(&self) -> GateSet {
        AFTER_STEP
    }

    fn check(&self, _: GateSet, stats: &Stats, facts: &StepFacts) -> Check {
        if self.steps == 0 {
            return off_at_zero();
        }
        let (row, limit) = (&stats.signature, self.steps);
        let idle = row.len.saturating_sub(1);
        let reading = Self::ROW.compare(idle, Op::AtLeast, limit);
        if idle >= limit {
            let evidence = [Evidence::Steps {
                from_step: row.from,
                to_step: facts.step,
            }];
            let s = if idle == 1 { "" } else { "s" };
            let detail = format!("no state change for {idle} step{s} (limit {limit})");
            return Check::Stop {
                code: Self::ROW.code(),
                reading: reading.detail(detail).evidence(evidence),
            };
        }
        if row.gap {
            Check::Unknown("whether some steps changed the state".into())
        } else {
            Check::Pass(reading)
        }
    }
}
