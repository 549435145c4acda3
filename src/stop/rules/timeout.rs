//! Defines the time limit that is checked at each decision.

use super::*;

/// Stops if a decision is made after this time.
///
/// To limit an engine, use [`Builder::max_runtime`](crate::engine::Builder::max_runtime).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeout {
    /// Seconds since the run began; 0 is off.
    pub seconds: u64,
}

impl Timeout {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "timeout",
        label: "Time limit (after each decision)",
        usage: "timeout=SECONDS",
        example: "timeout=60",
        when: "run time at a decision > SECONDS",
        off: Some("timeout=0"),
        unit: "ms",
        counts: Counts::Time,
        headline: Some("Timeout"),
        field: Some(Field {
            unit: "s",
            ..Field::new(FieldGroup::Limits, Input::Number)
        }),
        scale: Some(Scale::whole(
            "seconds, checked after each decision",
            |value, _| {
                Timeout {
                    seconds: value as u64,
                }
                .into()
            },
        )),
        parse: |args| {
            Ok(Timeout {
                seconds: args.number()?,
            }
            .into())
        },
        ..Row::BASE
    };
}

impl Rule for Timeout {
    fn value(&self) -> Option<String> {
        Some(self.seconds.to_string())
    }

    fn limit(&self) -> Amount<'_> {
        Amount::Seconds(self.seconds)
    }

    fn compile(&self, _: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        Ok(Box::new(self.clone()))
    }
}

impl Condition for Timeout {
    fn gates(&self) -> GateSet {
        AFTER_DECIDE
    }

    fn check(&self, _: GateSet, stats: &Stats, _: &StepFacts) -> Check {
        if self.seconds == 0 {
            return off_at_zero();
        }
        measure::time(
            Self::ROW.name,
            stats,
            Op::Above,
            self.seconds.saturating_mul(1000),
        )
    }

    fn ends_at_ms(&self) -> Option<u64> {
        (self.seconds > 0).then(|| self.seconds.saturating_mul(1000).saturating_add(1))
    }

    /// Elapsed time never decreases, so a pass settles all earlier steps.
    fn settles(&self, answer: &Check, _: &Stats) -> bool {
        matches!(answer, Check::Pass(_))
    }
}
