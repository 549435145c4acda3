//! Defines the rule that stops when the model repeats itself.

use super::*;

/// Stops when the model repeats the same text, whatever it calls. Steps without text are skipped.
/// Also stops when it makes the same tool calls with the same arguments, without text in between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoopDetection {
    /// Number of identical replies or calls in a row; below 2 is off.
    pub window: u64,
}

impl LoopDetection {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "loop_detection",
        label: "Identical replies or calls",
        usage: "loop_detection=N",
        example: "loop_detection=3",
        when: "identical replies or calls in a row >= N",
        off: Some("loop_detection=1"),
        unit: "equal texts",
        reads: Reads::Hashes,
        field: Some(Field::new(FieldGroup::Progress, Input::Number)),
        scale: Some(Scale {
            least: Some(2.0),
            usual: (2.0, 10.0, 9),
            ..Scale::whole("identical replies or calls in a row", |value, _| {
                LoopDetection {
                    window: value as u64,
                }
                .into()
            })
        }),
        parse: |args| {
            Ok(LoopDetection {
                window: args.number()?,
            }
            .into())
        },
        ..Row::BASE
    };
}

impl Rule for LoopDetection {
    fn value(&self) -> Option<String> {
        Some(self.window.to_string())
    }

    fn limit(&self) -> Amount<'_> {
        Amount::Count(self.window)
    }

    fn compile(&self, _: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        Ok(Box::new(self.clone()))
    }
}

impl Condition for LoopDetection {
    fn gates(&self) -> GateSet {
        AFTER_DECIDE
    }

    fn check(&self, _: GateSet, stats: &Stats, facts: &StepFacts) -> Check {
        if self.window < 2 {
            return Check::Off("window < 2".into());
        }
        let window = self.window;
        let (row, what) = if stats.text.len >= window || stats.text.len >= stats.calls.len {
            (&stats.text, "text")
        } else {
            (&stats.calls, "calls")
        };
        let reading = Self::ROW.compare(row.len, Op::AtLeast, window);
        if row.len >= window {
            let evidence = [Evidence::Steps {
                from_step: row.from,
                to_step: facts.step,
            }];
            let detail = format!(
                "the same {what} {} times in a row (limit {window})",
                row.len
            );
            return Check::Stop {
                code: Self::ROW.code(),
                reading: reading.detail(detail).evidence(evidence),
            };
        }
        if stats.text.gap || stats.calls.gap {
            Check::Unknown("the model's text in some steps".into())
        } else {
            Check::Pass(reading)
        }
    }
}
