//! Did the run take too long by the end of a step?

use super::*;

/// Ends when a step is over at this time or later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaxRuntime {
    /// Seconds since the run began; 0 is off.
    pub seconds: u64,
}

impl MaxRuntime {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "max_runtime",
        label: "Run time",
        usage: "max_runtime=SECONDS",
        example: "max_runtime=60",
        when: "time at the step's end >= seconds",
        off: Some("max_runtime=0"),
        unit: "ms",
        counts: Counts::Time,
        headline: Some("Time limit reached"),
        field: Some(Field { unit: "s", ..Field::new(FieldGroup::Limits, Input::Number) }),
        scale: Some(Scale::whole("seconds at a step's end", |value, _| MaxRuntime { seconds: value as u64 }.into())),
        parse: |args| Ok(MaxRuntime { seconds: args.number()? }.into()),
        ..Row::BASE
    };
}

impl Rule for MaxRuntime {
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

impl Condition for MaxRuntime {
    fn gates(&self) -> GateSet {
        AFTER_STEP
    }

    fn check(&self, _: GateSet, stats: &Stats, _: &StepFacts) -> Check {
        if self.seconds == 0 {
            return off_at_zero();
        }
        measure::time(Self::ROW.name, stats, Op::AtLeast, self.seconds.saturating_mul(1000))
    }

    /// Time only grows.
    fn settles(&self, answer: &Check) -> bool {
        matches!(answer, Check::Pass(_))
    }
}
