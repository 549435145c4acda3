//! Defines the rules that combine other rules: any of them, or all of them.

use super::*;

/// Maximum nesting depth of groups.
const MAX_NESTING: usize = 16;

/// Stops if any member stops.
///
/// No other engine has this rule. The What-if page evaluates it over recorded runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnyOf {
    /// The members.
    pub of: Vec<StopSpec>,
}

/// Stops if every member that isn't off stops.
///
/// No other engine has this rule. The What-if page evaluates it over recorded runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllOf {
    /// The members.
    pub of: Vec<StopSpec>,
}

impl AnyOf {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "any_of",
        label: "Any of",
        usage: r#"{"type":"any_of","of":[RULE, ..]}"#,
        example: r#"{"type":"any_of","of":[{"type":"max_steps","steps":8}]}"#,
        when: "any rule in the list is true; its members are JSON",
        ..Row::BASE
    };
}

impl AllOf {
    pub(in crate::stop) const ROW: &'static Row = &Row {
        name: "all_of",
        label: "All of",
        usage: r#"{"type":"all_of","of":[RULE, ..]}"#,
        example: r#"{"type":"all_of","of":[{"type":"max_steps","steps":8}]}"#,
        when: "all rules in the list are true, except those switched off",
        ..Row::BASE
    };
}

impl Rule for AnyOf {
    fn value(&self) -> Option<String> {
        None
    }

    fn limit(&self) -> Amount<'_> {
        Amount::AnyOf(&self.of)
    }

    fn compile(&self, compiler: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        compile(Self::ROW, &self.of, compiler, |members| {
            Box::new(Any(members))
        })
    }

    fn members(&self) -> Option<&[StopSpec]> {
        Some(&self.of)
    }
}

impl Rule for AllOf {
    fn value(&self) -> Option<String> {
        None
    }

    fn limit(&self) -> Amount<'_> {
        Amount::AllOf(&self.of)
    }

    fn compile(&self, compiler: Compiler<'_>) -> Result<Box<dyn Condition>, SpecError> {
        compile(Self::ROW, &self.of, compiler, |members| {
            Box::new(All(members))
        })
    }

    fn members(&self) -> Option<&[StopSpec]> {
        Some(&self.of)
    }
}

type Members = Vec<Box<dyn Condition>>;

/// If a member fails closed, the whole group is replaced by that member. Otherwise, the other
/// members of an `all_of` could keep it from stopping the run.
fn compile(
    row: &Row,
    of: &[StopSpec],
    compiler: Compiler<'_>,
    group: impl FnOnce(Members) -> Box<dyn Condition>,
) -> Result<Box<dyn Condition>, SpecError> {
    let name = row.name;
    if of.is_empty() {
        return Err(SpecError::new(format!("{name} needs at least one member")));
    }
    if compiler.depth >= MAX_NESTING {
        return Err(SpecError::new(format!(
            "{name} is nested deeper than {MAX_NESTING} groups"
        )));
    }
    let inner = Compiler {
        depth: compiler.depth + 1,
        ..compiler
    };
    let mut members = of
        .iter()
        .map(|spec| spec.rule().compile(inner))
        .collect::<Result<Members, SpecError>>()?;
    match members.iter().position(|member| member.fails_closed()) {
        Some(broken) => Ok(members.swap_remove(broken)),
        None => Ok(group(members)),
    }
}

struct Any(Members);

impl Condition for Any {
    fn gates(&self) -> GateSet {
        self.0
            .iter()
            .fold(GateSet::NONE, |set, member| set.and(member.gates()))
    }

    fn fold(&self, stats: &mut Stats, facts: &StepFacts) {
        self.0.iter().for_each(|member| member.fold(stats, facts));
    }

    fn settles(&self, answer: &Check, stats: &Stats) -> bool {
        self.0.iter().all(|member| member.settles(answer, stats))
    }

    fn ends_at_ms(&self) -> Option<u64> {
        self.0.iter().filter_map(|member| member.ends_at_ms()).min()
    }

    fn check(&self, due: GateSet, stats: &Stats, facts: &StepFacts) -> Check {
        let mut unknown = None;
        let mut misses: Vec<Cow<'static, str>> = Vec::new();
        let mut on = false;
        for member in &self.0 {
            if !member.gates().meets(due) {
                on = true;
                continue;
            }
            match member.check(due, stats, facts) {
                stop @ Check::Stop { .. } => return stop,
                Check::Off(_) => continue,
                Check::Unknown(needs) => unknown = unknown.or(Some(needs)),
                Check::Pass(reading) if !reading.detail.is_empty() => misses.push(reading.detail),
                Check::Pass(_) => {}
            }
            on = true;
        }
        match unknown {
            _ if !on => Check::Off("all members are off".into()),
            Some(needs) => Check::Unknown(needs),
            None => Check::Pass(Reading {
                detail: misses.join("; ").into(),
                ..Reading::default()
            }),
        }
    }
}

struct All(Members);

impl Condition for All {
    /// Only at the latest of its members' gates can every member be true.
    fn gates(&self) -> GateSet {
        let last = self
            .0
            .iter()
            .filter_map(|member| member.gates().iter().last())
            .max();
        last.map_or(GateSet::NONE, GateSet::only)
    }

    fn fold(&self, stats: &mut Stats, facts: &StepFacts) {
        self.0.iter().for_each(|member| member.fold(stats, facts));
    }

    fn settles(&self, answer: &Check, stats: &Stats) -> bool {
        self.0.iter().all(|member| member.settles(answer, stats))
    }

    /// Stops with the first member's code and the evidence of all members. Members that are off are
    /// skipped.
    fn check(&self, _: GateSet, stats: &Stats, facts: &StepFacts) -> Check {
        let mut first: Option<(Code, Reading)> = None;
        let mut unknown = None;
        let mut pass = None;
        for member in &self.0 {
            match member.check(GateSet::ALL, stats, facts) {
                Check::Off(_) => {}
                Check::Unknown(needs) => unknown = unknown.or(Some(needs)),
                Check::Pass(reading) => pass = pass.or(Some(reading)),
                Check::Stop { code, reading } => match &mut first {
                    None => first = Some((code, reading)),
                    Some((_, all)) => {
                        all.detail = format!("{}, and {}", all.detail, reading.detail).into();
                        all.evidence.extend(reading.evidence);
                    }
                },
            }
        }
        match (pass, unknown, first) {
            (Some(reading), _, _) => Check::Pass(reading),
            (None, Some(needs), _) => Check::Unknown(needs),
            (None, None, Some((code, reading))) => Check::Stop { code, reading },
            (None, None, None) => Check::Off("all members are off".into()),
        }
    }
}
