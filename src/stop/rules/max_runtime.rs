//! Defines the time limit that is checked at the end of each step.

use super::*;

/// Stops if a step ends at this time or later.
///
/// To limit an engine, use [`Builder::max_runtime`](crate::engine::Builder::max_runtime).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaxRuntime {
    /// Seconds since the run began, rounded to milliseconds; 0 is off.
    #[serde(serialize_with = "whole_where_it_is")]
    pub seconds: f64,
}

impl MaxRuntime {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "max_runtime",
        label: "Time limit (after each step)",
        usage: "max_runtime=SECONDS",
        example: "max_runtime=60",
        when: "run time at the end of a step >= SECONDS",
        off: Some("max_runtime=0"),
        unit: "ms",
        counts: Counts::Time,
        headline: Some("Time limit reached"),
        field: Some(Field {
            unit: "s",
            ..Field::new(FieldGroup::Limits, Input::Number)
        }),
        scale: Some(Scale::whole(
            "seconds, checked after each step",
            |value, _| MaxRuntime { seconds: value }.into(),
        )),
        parse: |args| MaxRuntime::parse(&args.text()?).map(StopSpec::from),
        ..Row::BASE
    };

    fn parse(text: &str) -> Result<Self, SpecError> {
        let seconds = text
            .trim()
            .parse()
            .ok()
            .filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
        let wrong = || {
            SpecError::new(format!(
                "max_runtime needs a number of seconds, not {text:?}"
            ))
        };
        seconds.map(|seconds| Self { seconds }).ok_or_else(wrong)
    }

    /// Returns the limit in milliseconds, saturating at `u64::MAX`. A limit above 0 is at least 1
    /// ms, since 0 is off.
    fn ms(&self) -> u64 {
        let ms = (self.seconds * 1000.0).round() as u64;
        if self.seconds > 0.0 { ms.max(1) } else { 0 }
    }
}

/// Writes 60 seconds as `60` rather than `60.0`, as other writers of this rule do.
fn whole_where_it_is<S: serde::Serializer>(
    seconds: &f64,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let whole = *seconds as u64;
    if whole as f64 == *seconds {
        serializer.serialize_u64(whole)
    } else {
        serializer.serialize_f64(*seconds)
    }
}

impl Rule for MaxRuntime {
    fn value(&self) -> Option<String> {
        Some(plain(self.seconds))
    }

    fn limit(&self) -> Amount<'_> {
        match self.seconds.fract() == 0.0 && self.seconds < EXACT {
            true => Amount::Seconds(self.seconds as u64),
            false => Amount::Text(format!("{} s", plain(self.seconds)).into()),
        }
    }

    fn compile(&self, _: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        if !self.seconds.is_finite() || self.seconds < 0.0 {
            return Err(SpecError::new(format!(
                "max_runtime must be at least 0 seconds, not {}",
                self.seconds
            )));
        }
        Ok(Box::new(self.clone()))
    }
}

impl Condition for MaxRuntime {
    fn gates(&self) -> GateSet {
        AFTER_STEP
    }

    fn check(&self, _: GateSet, stats: &Stats, _: &StepFacts) -> Check {
        if self.ms() == 0 {
            return off_at_zero();
        }
        measure::time(Self::ROW.name, stats, Op::AtLeast, self.ms())
    }

    fn ends_at_ms(&self) -> Option<u64> {
        Some(self.ms()).filter(|ms| *ms > 0)
    }

    /// Elapsed time never decreases, so a pass settles all earlier steps.
    fn settles(&self, answer: &Check, _: &Stats) -> bool {
        matches!(answer, Check::Pass(_))
    }
}
