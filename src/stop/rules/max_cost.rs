//! Defines the cost limit on completed steps.

use super::*;

/// Stops when the completed steps have cost this much. The result is unknown if a step's cost isn't
/// recorded and the known costs are below the limit.
///
/// No other engine has this rule. [`Builder::max_cost`](crate::engine::Builder::max_cost) adds it, and
/// the What-if page has a field for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaxCost {
    /// US dollars; 0 is off.
    #[serde(deserialize_with = "finite_number")]
    pub usd: f64,
}

impl MaxCost {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "max_cost",
        label: "Cost limit",
        usage: "max_cost=USD",
        example: "max_cost=0.5",
        when: "cost of completed steps >= USD",
        off: Some("max_cost=0"),
        unit: "usd",
        counts: Counts::Cost,
        ending: Some((Outcome::Truncated, "budget_tokens")),
        headline: Some("Cost limit reached"),
        field: Some(Field {
            unit: "$",
            ..Field::new(FieldGroup::Limits, Input::Number)
        }),
        scale: Some(Scale {
            least: Some(0.0001),
            grain: 0.01,
            usual: (0.05, 1.0, 20),
            example: "0.05,0.1..1/10",
            ..Scale::whole("dollars", |usd, _| MaxCost { usd }.into())
        }),
        parse: |args| MaxCost::parse(&args.text()?).map(StopSpec::from),
        ..Row::BASE
    };

    fn parse(text: &str) -> Result<Self, SpecError> {
        let usd = text
            .trim()
            .parse()
            .ok()
            .filter(|usd: &f64| usd.is_finite() && *usd >= 0.0);
        let wrong = || SpecError::new(format!("max_cost needs an amount in dollars, not {text:?}"));
        usd.map(|usd| Self { usd }).ok_or_else(wrong)
    }
}

impl Rule for MaxCost {
    fn value(&self) -> Option<String> {
        Some(plain(self.usd))
    }

    fn limit(&self) -> Amount<'_> {
        Amount::Text(format!("${}", plain(self.usd)).into())
    }

    fn compile(&self, _: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        if !self.usd.is_finite() || self.usd < 0.0 {
            return Err(SpecError::new(format!(
                "max_cost must be at least 0 dollars, not {}",
                self.usd
            )));
        }
        Ok(Box::new(self.clone()))
    }
}

impl Condition for MaxCost {
    fn gates(&self) -> GateSet {
        AFTER_STEP
    }

    fn check(&self, _: GateSet, stats: &Stats, _: &StepFacts) -> Check {
        if self.usd == 0.0 {
            return off_at_zero();
        }
        measure::cost(Self::ROW.name, stats, Op::AtLeast, self.usd)
    }
}
