//! Finds contradictions between the steps and events of a run. Returns one sentence for each kind,
//! naming the first step that differs.

use crate::analysis::format::counted;
use crate::analysis::newest::{label, newest_run};
use crate::model::event::{critics_hash, names_hash};
use crate::model::index::Group;
use crate::model::{CriticAction, Fate, Index, StepHead};

/// Returns the contradictions between steps.jsonl and events.jsonl.
pub(super) fn contradictions(index: &Index) -> Vec<String> {
    let mut found = Vec::new();
    if index.format().is_one_file() {
        return found;
    }
    found.extend(of_the_order(index));
    // If it's unknown which events belong to which step, they don't contradict each other.
    if index.is_disordered() || index.double_steps().0 > 0 || index.join_is_open() || index.is_cut()
    {
        return found;
    }
    for differs in [mode, actions, results, answer, critics, wish] {
        let of_step = |(n, step): (usize, &StepHead)| {
            Some((
                (n, label((n, step))),
                differs(index, step, index.round_of(n)?)?,
            ))
        };
        let mut steps = newest_run(index)
            .filter(|(_, step)| is_whole(step))
            .filter_map(of_step);
        let Some(((_, step), said)) = steps.next() else {
            continue;
        };
        let more = match steps.count() {
            0 => String::new(),
            more => format!("; the same goes for {}", counted(more, "more step")),
        };
        found.push(format!("In {step}, {said}{more}"));
    }
    found
}

/// Reports steps out of order, repeated ids, and ids that start over without an event that begins a
/// run.
fn of_the_order(index: &Index) -> Vec<String> {
    let mut found = Vec::new();
    let more = |count: usize| {
        if count > 1 {
            format!("; so do {} more", count - 1)
        } else {
            String::new()
        }
    };
    let (late, first) = index.late_steps();
    if let Some(n) = first {
        let (step, more) = (index.label(n), more(late));
        found.push(format!(
            "steps.jsonl is out of order: step {step} comes after a later step{more}"
        ));
    }
    let (doubles, first) = index.double_steps();
    if let Some((n, step)) = first.and_then(|n| Some((n, index.steps().get(n)?))) {
        let same = |other: &&StepHead| other.step_id == step.step_id;
        let lines = index.steps().get(
            index
                .steps()
                .iter()
                .position(|other| same(&other))
                .unwrap_or(n),
        );
        let (id, more) = (index.label(n), more(doubles));
        let before = lines.map_or(0, |other| other.line);
        let line = step.line;
        found.push(format!(
            "Step {id} occurs twice in one run, in lines {before} and {line} of steps.jsonl{more}"
        ));
    }
    let run_starts = index.lap_starts();
    if !index.segments().is_empty()
        && run_starts.len() > index.segments().len()
        && !index.is_cut()
        && !index.is_partial()
        && let Some(step) = run_starts
            .last()
            .and_then(|start| index.steps().get(*start))
    {
        let line = step.line;
        found.push(format!(
            "Step ids start over in line {line} of steps.jsonl, but no event starts a new run"
        ));
    }
    found
}

fn is_whole(step: &StepHead) -> bool {
    matches!(step.fate, Fate::Good | Fate::Provisional)
}

/// Describes events of a different run than the manifest's. Users rename runs in one of the files,
/// so this doesn't make any conclusion doubtful.
pub(in crate::analysis) fn other_run(index: &Index) -> Option<String> {
    if index.format().is_one_file() {
        return None;
    }
    let named = index.manifest().get()?.run_id.as_deref()?;
    let segments = || index.newest_segments().iter();
    let run = segments()
        .map(|segment| index.name(segment.run))
        .find(|run| !run.is_empty() && *run != named);
    if let Some(run) = run {
        return Some(format!(
            "names run {named}, but the events are from run {run}"
        ));
    }
    let other = segments().find_map(|segment| index.events().get(segment.of_other_run?))?;
    let (run, line) = (index.name(other.run), other.line);
    Some(format!(
        "names run {named}, but line {line} of events.jsonl is from run {run}"
    ))
}

fn mode(index: &Index, step: &StepHead, round: &Group) -> Option<String> {
    let [of_line, of_event] = [step.mode, round.decided()?.mode].map(|mode| index.name(mode));
    let word = |mode: &str| {
        if mode.is_empty() {
            "none".to_owned()
        } else {
            mode.to_owned()
        }
    };
    // An event without a mode doesn't contradict the line.
    (of_line != of_event && !of_event.is_empty()).then(|| {
        let [of_line, of_event] = [of_line, of_event].map(word);
        format!("steps.jsonl records the mode {of_line}, the decision_ready event {of_event}")
    })
}

fn actions(index: &Index, step: &StepHead, round: &Group) -> Option<String> {
    let (count, names) = round.decided()?.actions?;
    if count != step.actions {
        let [of_line, of_event] =
            [step.actions, count].map(|count| counted(count as usize, "action"));
        return Some(format!(
            "steps.jsonl records {of_line}, the decision_ready event {of_event}"
        ));
    }
    let of_line = names_hash(step.calls.iter().map(|call| index.name(call.name)));
    if of_line != names {
        return Some("steps.jsonl and the decision_ready event name different actions".to_owned());
    }
    let asked = round
        .decided()?
        .asked
        .filter(|asked| *asked != step.asked_hash);
    asked.map(|_| {
        "steps.jsonl and the decision_ready event record different action arguments".to_owned()
    })
}

fn results(_: &Index, step: &StepHead, round: &Group) -> Option<String> {
    let differs = step.invoked_hash != 0 && round.repeated.as_ref()?.invoked? != step.invoked_hash;
    differs.then(|| {
        "steps.jsonl and the action_results event record different call outcomes or times"
            .to_owned()
    })
}

fn answer(index: &Index, step: &StepHead, round: &Group) -> Option<String> {
    let of_event = round.decided()?.answer?;
    let is_final = index.name(step.mode) == "final" && index.name(round.decided()?.mode) == "final";
    (is_final && of_event != step.answer)
        .then(|| "steps.jsonl and the decision_ready event record different answers".to_owned())
}

fn critics(_: &Index, step: &StepHead, round: &Group) -> Option<String> {
    let of_line = critics_hash(step.critics.iter().map(|mark| (mark.action, mark.score)));
    (round.repeated.as_ref()?.critics? != of_line)
        .then(|| "steps.jsonl and the events record different critic actions or scores".to_owned())
}

fn wish(_: &Index, step: &StepHead, round: &Group) -> Option<String> {
    let word = |wish: CriticAction| match wish {
        CriticAction::Retry => "retry",
        CriticAction::Stop => "stop",
        _ => "pass",
    };
    let decided = step
        .deciding()
        .and_then(|at| step.critics.get(at))
        .map(|mark| mark.action);
    let of_line = decided.filter(|wish| matches!(wish, CriticAction::Retry | CriticAction::Stop));
    let [of_line, of_event] = [of_line.unwrap_or(CriticAction::Continue), round.wish?];
    (of_line != of_event).then(|| {
        format!(
            "the critics say {} in steps.jsonl and {} in the CRITIC event",
            word(of_line),
            word(of_event)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Delta, ManifestState, Names};

    fn read(steps: &[&str], events: &[&str], manifest: &str) -> Index {
        let mut names = Names::default();
        let mut delta = Delta::default();
        for (at, line) in steps.iter().enumerate() {
            let head = crate::format::step_head(line.as_bytes(), &mut names).0;
            delta.steps.push(StepHead {
                line: at as u64 + 1,
                ..head
            });
        }
        for line in events {
            let (head, note, _) = crate::format::event_head(line.as_bytes(), &mut names);
            delta.events.push((head, note));
        }
        let manifest = crate::format::manifest(manifest.as_bytes()).unwrap().0;
        delta.manifest = Some(ManifestState::Read(Box::new(manifest)));
        delta.names = names.since(0).to_vec();
        let mut index = Index::default();
        index.apply(delta);
        index
    }

    const INIT: &str = r#"{"run_id": "r", "step_id": 0, "phase": "INIT", "payload": {}}"#;
    const END: &str =
        r#"{"run_id": "r", "step_id": 1, "phase": "END", "payload": {"stop_reason": "final"}}"#;

    fn event(step: i64, phase: &str, payload: &str) -> String {
        format!(
            r#"{{"run_id": "r", "step_id": {step}, "phase": "{phase}", "payload": {{{payload}}}}}"#
        )
    }

    #[test]
    fn a_step_and_its_events_that_differ_are_a_contradiction() {
        let steps = [
            r#"{"step_id": 0, "decision": {"mode": "act", "actions": [{"name": "edit", "args": {"path": "a"}}]},
                "tool_invocations": [{"tool_name": "edit", "latency_ms": 7.5}],
                "critic_outputs": [{"critic": "c", "action": "continue", "score": 0.5}]}"#,
            r#"{"step_id": 1, "decision": {"mode": "final", "final_answer": "42"}}"#,
        ];
        let whole = [
            event(
                0,
                "DECIDE",
                r#""stage": "decision_ready", "mode": "act", "actions": [{"name": "edit", "args": {"path": "a"}}]"#,
            ),
            event(
                0,
                "CRITIC",
                r#""stage": "outputs", "critic_outputs": [{"critic": "c", "action": "continue", "score": 0.5}]"#,
            ),
            event(
                0,
                "ACT",
                r#""stage": "action_results", "tool_invocations": [{"tool_name": "edit", "latency_ms": 7.5}]"#,
            ),
            event(0, "CRITIC", r#""stage": "pass""#),
            event(
                1,
                "DECIDE",
                r#""stage": "decision_ready", "mode": "final", "final_answer": "42""#,
            ),
        ];
        let said = |from: &str, to: &str| {
            let events = whole.clone().map(|event| event.replace(from, to));
            let lines: Vec<&str> = [INIT]
                .into_iter()
                .chain(events.iter().map(String::as_str))
                .chain([END])
                .collect();
            contradictions(&read(&steps, &lines, r#"{"run_id": "r"}"#)).join("\n")
        };
        assert_eq!(said("", ""), "");
        for (from, to, expected) in [
            (
                r#""mode": "act""#,
                r#""mode": "wait""#,
                "In step 0, steps.jsonl records the mode act, the decision_ready event wait",
            ),
            (
                "\"a\"",
                "\"b\"",
                "In step 0, steps.jsonl and the decision_ready event record different action arguments",
            ),
            (
                "7.5",
                "7.25",
                "In step 0, steps.jsonl and the action_results event record different call outcomes or times",
            ),
            (
                "{\"name\": \"edit\"",
                "{\"name\": \"read\"",
                "In step 0, steps.jsonl and the decision_ready event name different actions",
            ),
            (
                r#"[{"name": "edit", "args": {"path": "a"}}]"#,
                "[]",
                "In step 0, steps.jsonl records 1 action, the decision_ready event 0 actions",
            ),
            (
                "\"42\"",
                "\"43\"",
                "In step 1, steps.jsonl and the decision_ready event record different answers",
            ),
            (
                "0.5",
                "0.9",
                "In step 0, steps.jsonl and the events record different critic actions or scores",
            ),
            (
                "\"pass\"",
                "\"stop\"",
                "In step 0, the critics say pass in steps.jsonl and stop in the CRITIC event",
            ),
        ] {
            assert_eq!(said(from, to), expected);
        }
    }

    #[test]
    fn events_of_another_run_than_the_manifest_are_noted() {
        let of = |events: &[&str], run: &str| {
            other_run(&read(&[], events, &format!(r#"{{"run_id": "{run}"}}"#)))
        };
        assert_eq!(of(&[INIT, END], "r"), None);
        assert_eq!(
            of(&[INIT, END], "s").unwrap(),
            "names run s, but the events are from run r"
        );
        let other = END.replace("\"r\"", "\"t\"");
        assert!(of(&[INIT, &other], "r").unwrap().contains("is from run t"));
        let untold = r#"{"step_id": 0, "phase": "INIT", "payload": {}}"#;
        assert_eq!(of(&[untold, END], "r"), None);
    }

    #[test]
    fn steps_out_of_order_and_repeated_ids_are_a_contradiction() {
        let step = |id: i64, mode: &str| {
            format!(r#"{{"step_id": {id}, "decision": {{"mode": "{mode}"}}}}"#)
        };
        let rounds: Vec<String> = (0..3)
            .map(|id| event(id, "DECIDE", r#""stage": "state_ready""#))
            .collect();
        let events: Vec<&str> = [INIT]
            .into_iter()
            .chain(rounds.iter().map(String::as_str))
            .chain([END])
            .collect();
        let read = |steps: &[String]| {
            let lines: Vec<&str> = steps.iter().map(String::as_str).collect();
            read(&lines, &events, r#"{"run_id": "r"}"#)
        };
        let right = read(&[step(0, "act"), step(1, "act"), step(2, "final")]);
        assert_eq!(
            (contradictions(&right), right.last_step()),
            (vec![], Some(2))
        );
        let reversed = read(&[step(2, "final"), step(1, "act"), step(0, "act")]);
        assert!(
            contradictions(&reversed)[0].contains("out of order"),
            "{:?}",
            contradictions(&reversed)
        );
        assert_eq!(
            (reversed.newest_start(), reversed.last_step()),
            (0, Some(0)),
            "by its id"
        );
        let twice = read(&[
            step(0, "act"),
            step(1, "act"),
            step(1, "wait"),
            step(2, "final"),
        ]);
        let said = "Step 1 occurs twice in one run, in lines 2 and 3 of steps.jsonl";
        assert_eq!(contradictions(&twice), [said]);
        assert_eq!((twice.newest_start(), twice.last_step()), (0, None));
    }

    #[test]
    fn an_init_event_that_is_written_twice_begins_one_run() {
        let init =
            r#"{"step_id": 0, "phase": "INIT", "ts": "2026-01-01T00:00:00Z", "payload": {}}"#;
        assert_eq!(read(&[], &[init, init, END], "{}").segments().len(), 1);
        let later = init.replace("00Z", "01Z");
        assert_eq!(read(&[], &[init, &later, END], "{}").segments().len(), 2);
    }
}
