//! Defines the rule that stops after too many failed steps in a row.

use super::*;

/// Stops after this many failed steps in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsecutiveErrors {
    /// Number of failed steps; 0 is off.
    pub max: u64,
}

impl ConsecutiveErrors {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "consecutive_errors",
        label: "Failed steps in a row",
        usage: "consecutive_errors=N",
        example: "consecutive_errors=3",
        when: "failed steps in a row >= N",
        off: Some("consecutive_errors=0"),
        unit: "failed steps",
        field: Some(Field::new(FieldGroup::Progress, Input::Number)),
        scale: Some(Scale::whole("failed steps in a row", |value, _| {
            ConsecutiveErrors { max: value as u64 }.into()
        })),
        parse: |args| {
            Ok(ConsecutiveErrors {
                max: args.number()?,
            }
            .into())
        },
        ..Row::BASE
    };
}

impl Rule for ConsecutiveErrors {
    fn value(&self) -> Option<String> {
        Some(self.max.to_string())
    }

    fn limit(&self) -> Amount<'_> {
        Amount::Count(self.max)
    }

    fn compile(&self, _: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        Ok(Box::new(self.clone()))
    }
}

impl Condition for ConsecutiveErrors {
    fn gates(&self) -> GateSet {
        AFTER_STEP
    }

    fn check(&self, _: GateSet, stats: &Stats, _: &StepFacts) -> Check {
        if self.max == 0 {
            return off_at_zero();
        }
        let (count, limit) = (stats.consecutive_errors, self.max);
        let reading = Self::ROW.compare(count, Op::AtLeast, limit);
        if count < limit && stats.unknown_errors.saturating_add(count) >= limit {
            return Check::Unknown("whether some steps failed".into());
        }
        if count < limit {
            return Check::Pass(reading);
        }
        let s = if count == 1 { "" } else { "s" };
        let detail = format!("{count} failed step{s} in a row (limit {limit})");
        let reading = reading
            .detail(detail)
            .evidence(stats.failures.iter().cloned());
        Check::Stop {
            code: Self::ROW.code(),
            reading,
        }
    }
}
