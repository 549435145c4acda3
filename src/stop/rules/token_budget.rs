//! Defines the limit on tokens.

use super::*;

/// Stops if more tokens than this were used.
///
/// To limit an engine, use [`Builder::max_tokens`](crate::engine::Builder::max_tokens).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenBudget {
    /// Input and output tokens; 0 is off.
    pub max_total: u64,
}

impl TokenBudget {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "token_budget",
        label: "Token limit",
        usage: "token_budget=N",
        example: "token_budget=1000",
        when: "input and output tokens > N",
        off: Some("token_budget=0"),
        unit: "tokens",
        counts: Counts::Tokens,
        headline: Some("Token limit exceeded"),
        field: Some(Field::new(FieldGroup::Limits, Input::Number)),
        scale: Some(Scale {
            example: "1000..20000/20",
            ..Scale::whole("tokens", |value, _| {
                TokenBudget {
                    max_total: value as u64,
                }
                .into()
            })
        }),
        parse: |args| {
            Ok(TokenBudget {
                max_total: args.number()?,
            }
            .into())
        },
        ..Row::BASE
    };
}

impl Rule for TokenBudget {
    fn value(&self) -> Option<String> {
        Some(self.max_total.to_string())
    }

    fn limit(&self) -> Amount<'_> {
        Amount::Count(self.max_total)
    }

    fn compile(&self, _: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        Ok(Box::new(self.clone()))
    }
}

impl Condition for TokenBudget {
    fn gates(&self) -> GateSet {
        AFTER_DECIDE
    }

    fn check(&self, _: GateSet, stats: &Stats, _: &StepFacts) -> Check {
        if self.max_total == 0 {
            return off_at_zero();
        }
        measure::tokens(Self::ROW.name, stats, Op::Above, self.max_total)
    }
}
