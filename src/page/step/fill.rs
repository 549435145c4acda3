//! Fills the view of a step from its line and from what only the run knows: times, neighboring
//! steps, and events.

use std::sync::Arc;

use crate::analysis::format;
use crate::analysis::summary::Summary;
use crate::analysis::timing::{began, stretches, took};
use crate::model::index::{Group, Unassembled};
use crate::model::json::{Json, walk};
use crate::model::names::capped;
use crate::model::step::{Call, Value as TraceValue};
use crate::model::{
    BROKEN_REPLY, CriticAction, EventHead, EventKind, Fate, MAX_LINE_BYTES, Record, Span,
    StateRecord, Step, StepHead, TraceFile,
};
use crate::page::part::action::{Actions, Pair};
use crate::page::part::fold::{Fold, Folded, Part, ValueLinks};
use crate::page::part::href;
use crate::page::part::json_tree::find;
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::part::svg::PhaseStrip;
use crate::page::part::text::{Line, shell_word};
use crate::page::run_view::{RunView, micros, name, phase};
use crate::page::step::messages::{
    MAX_LISTED_BYTES, compaction_in_words, compactions_before, event_of, new_messages, prompt,
};
use crate::page::step::{
    Around, RawLine, StepError, StepEvent, StepEvents, StepLink, StepView, Value,
};

/// The label of a step on an abandoned branch.
pub(crate) const LEFT: &str = "abandoned: the run was rewound to before this step";
/// The label of a step copied from another run.
pub(crate) const COPIED: &str = "copied from another run and counted there";

/// Where a step is shown, which determines its links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepPlace {
    /// Next to the list of steps.
    List,
    /// On the step's own page.
    Alone,
}

/// Elements of all values of a step next to the list of steps. The page has 1,200 elements.
const MAX_TREES_IN_LIST: usize = 300;

pub(crate) fn step_view(view: &RunView<'_>, n: usize, place: StepPlace) -> Option<StepView> {
    let (mut step_view, bytes, mut fold) = read_step(view, n, place)?;
    if let Some(group) = view.index.round_of(n) {
        step_view.prompt = prompt(view, n, group, &mut fold);
        step_view.new_messages = new_messages(view, n, &mut fold);
        step_view.exchange = exchange(view, n);
        if step_view.error.is_some() {
            step_view.wrote = step_view
                .prompt
                .as_mut()
                .and_then(|prompt| prompt.output.take());
        }
        step_view.events = events(view, group);
        step_view.raw_events = raw_events(view, n, group);
        let file = view.index.format().file_name(TraceFile::Events);
        step_view.raw_events_of =
            match view.index.steps().get(n).map_or(0, |step| step.parts.len()) {
                0 => format!(
                    "{} of {file}",
                    format::counted(group.end - group.first, "line")
                ),
                parts => format!("{} of the {file}", format::counted(parts, "record")),
            }
            .into();
    }
    step_view.editor = view.editor.and_then(|_| in_editor(view, n));
    step_view.started = started(&view.children(), n);
    step_view.raw = raw(view, n, bytes.as_deref(), &mut fold);
    Some(step_view)
}

/// Returns links to the request and the response of step `n`, if one of its first records has them.
fn exchange(view: &RunView<'_>, n: usize) -> Vec<Link> {
    if !view.index.format().has_exchange {
        return Vec::new();
    }
    let links = |at: usize| {
        let span = view.index.events().get(at)?.span;
        let record = view.lines.record(TraceFile::Events, span).ok()?;
        let call = TraceValue {
            text: &record.text,
            ..TraceValue::default()
        }
        .get("call")?;
        let has = |key: &str| {
            walk::members(call).any(|(name, value)| {
                walk::string(name).as_deref() == Some(key) && value.starts_with(['{', '['])
            })
        };
        let to = ValueLinks::below(&href::event(view.key(), at));
        let link = |(key, label): (&str, &str)| {
            let pointer = format!("/call/{key}");
            has(key).then(|| Some(Link::new(label, to.value(&pointer)?)))?
        };
        let parts = [("request", "Request"), ("response", "Response")];
        let links: Vec<Link> = parts.into_iter().filter_map(link).collect();
        (!links.is_empty()).then_some(links)
    };
    let parts = view.index.parts_of(n).flatten().take(MAX_EXCHANGE);
    parts.into_iter().find_map(links).unwrap_or_default()
}

/// Maximum number of records of a step that are searched for the request.
const MAX_EXCHANGE: usize = 4;

/// Limits the child runs listed for a step. The header links to the others.
const MAX_STARTED: usize = 20;

/// Lists the child runs that started during step `n`.
pub(crate) fn started(children: &[(Arc<Summary>, Option<usize>)], n: usize) -> Vec<Phrase> {
    started_by(children, n).map(card).collect()
}

/// Returns the child runs that step `n` started.
pub(crate) fn started_by(
    children: &[(Arc<Summary>, Option<usize>)],
    n: usize,
) -> impl Iterator<Item = &Summary> {
    let own = children.iter().filter(move |(_, step)| *step == Some(n));
    own.map(|(child, _)| &**child).take(MAX_STARTED)
}

/// Describes a child run, with its title as the link.
pub(crate) fn card(child: &Summary) -> Phrase {
    let link = Phrase::new().link(name(child), href::run(child.key.as_str()));
    link.text(format!(" · {}", about(child)))
}

/// Describes how a run ended, its number of steps, and its duration.
pub(crate) fn about(child: &Summary) -> String {
    let mut facts = vec![
        child.verdict.sentence.to_string(),
        format::counted(child.steps_now, "step"),
    ];
    facts.extend(child.duration_ms.map(|ms| micros((ms * 1e3) as i64)));
    facts.join(" · ")
}

/// Reads the first call of a step, for its row in a list. `None` if the record is too long for that,
/// or can't be read.
pub(crate) fn first_call(view: &RunView<'_>, n: usize) -> Option<Pair> {
    let step = view.index.steps().get(n)?;
    let parts = view.index.parts_of(n).flatten();
    let parts = parts.filter_map(|at| view.index.events().get(at));
    let len = parts.map(|event| event.span.len).sum::<u64>();
    if len.max(step.span.len) > MAX_LISTED_BYTES {
        return None;
    }
    let bytes = line(view, step.span).ok()?;
    let record = Record::of(&bytes);
    let step = crate::format::step(&record)?;
    let mut fold = Fold::brief(ValueLinks::default());
    fold.set_project(view.summary.project.as_deref().unwrap_or_default());
    Actions::first(&step, &mut fold)
}

/// Links the file and line that the step's error names.
fn in_editor(view: &RunView<'_>, n: usize) -> Option<Link> {
    let printed = || {
        let call = view.index.steps().get(n)?.failed_call.as_ref()?;
        call.printed.as_deref()
    };
    view.error_in_editor(view.index.failure_of(n).or_else(printed)?)
}

/// Returns the view without reference material: prompt, events, and raw lines.
pub(crate) fn step_line(view: &RunView<'_>, n: usize, place: StepPlace) -> Option<StepView> {
    read_step(view, n, place).map(|(step_view, _, _)| step_view)
}

/// Returns the view without reference material, for a page that shows many steps. `fold` belongs to
/// the page.
pub(crate) fn step_brief(
    view: &RunView<'_>,
    n: usize,
    place: StepPlace,
    fold: &mut Fold,
) -> Option<StepView> {
    let own = fold.elsewhere(ValueLinks::below(&href::step(view.key(), n)));
    let step_view = read_with(view, n, place, fold).map(|(step_view, _)| step_view);
    fold.elsewhere(own);
    step_view
}

/// Reads the step's line. Also returns its bytes.
fn read_step(
    view: &RunView<'_>,
    n: usize,
    place: StepPlace,
) -> Option<(StepView, Option<Vec<u8>>, Fold)> {
    let mut fold = Fold::new(ValueLinks::below(&href::step(view.key(), n)));
    if place == StepPlace::List {
        fold.tree_elements = MAX_TREES_IN_LIST;
    }
    let (step_view, bytes) = read_with(view, n, place, &mut fold)?;
    Some((step_view, bytes, fold))
}

fn read_with(
    view: &RunView<'_>,
    n: usize,
    place: StepPlace,
    fold: &mut Fold,
) -> Option<(StepView, Option<Vec<u8>>)> {
    let step = view.index.steps().get(n)?;
    let group = view.index.round_of(n);
    let page = href::step(view.key(), n);
    fold.set_project(view.summary.project.as_deref().unwrap_or_default());
    let mut step_view = StepView {
        n,
        title: format!("Step {}", view.label(n)).into(),
        facts: facts(view, n, group).into(),
        marks: marks(view, n, group),
        previous: n.checked_sub(1).and_then(|n| neighbour(view, n, place)),
        next: neighbour(view, n + 1, place),
        own: if place == StepPlace::List {
            page.clone()
        } else {
            String::new()
        },
        command: format!("board show {} --step {n}", shell_word(&view.summary.path)),
        link: view.at_step(n),
        replay: href::replay_at(view.key(), n),
        error: group.and_then(|group| error(view, n, group, fold)),
        ..StepView::default()
    };
    let bytes = line(view, step.span);
    match &bytes {
        Err(why) => {
            step_view.unreadable = Some(Phrase::from(format!("The line can't be shown: {why}")))
        }
        Ok(bytes) => {
            let record = Record::of(bytes);
            match crate::format::step(&record) {
                Some(step) => read_line(view, n, group, &step, &mut step_view, fold),
                None => step_view.unreadable = Some(no_step(&record, bytes.len())),
            }
        }
    }
    Some((step_view, bytes.ok()))
}

/// Explains why a line contains no step.
fn no_step(record: &Record<'_>, len: usize) -> Phrase {
    match Json::parse(&record.text).filter(|_| record.fate == Fate::Foreign) {
        Some(other) => Phrase::new()
            .text("The line is JSON, but not an object: ")
            .code(capped(&other.to_string(), MAX_FOREIGN_BYTES).into_string()),
        None => Phrase::from(format!(
            "The line isn't JSON. Its raw content ({}) is below.",
            format::bytes(len as u64)
        )),
    }
}

/// Limits the bytes quoted from a line that isn't an object. The raw line is below.
const MAX_FOREIGN_BYTES: usize = 4_000;

/// Returns the bytes of a step's line, or an error if it exceeds what board parses.
fn line(view: &RunView<'_>, span: Span) -> Result<Vec<u8>, String> {
    if span.len > MAX_LINE_BYTES {
        return Err(format!(
            "it has {}, more than board can parse",
            format::bytes(span.len)
        ));
    }
    view.lines.line(TraceFile::Steps, span)
}

fn read_line(
    view: &RunView<'_>,
    n: usize,
    group: Option<&Group>,
    step: &Step<'_>,
    step_view: &mut StepView,
    fold: &mut Fold,
) {
    let before = |name: &str| {
        let symbol = view.index.names().find(name)?;
        let marks = view
            .index
            .steps()
            .range(0..n)
            .rev()
            .flat_map(|step| step.critics.iter());
        marks
            .into_iter()
            .find(|mark| mark.name == symbol)
            .and_then(|mark| mark.score)
    };
    let picture = |recorded: &str| {
        let at = step
            .pictures
            .iter()
            .position(|picture| picture.path.as_deref() == Some(recorded));
        let at = at.ok_or_else(|| "the line has no such picture".to_owned())?;
        view.lines
            .has_asset(recorded)
            .map(|()| format!("{}/assets/{at}", href::step(view.key(), n)))
    };
    // Steps that failed before their action, and wait steps of QitOS 0.6, have no observation. The
    // event at their start has the state.
    let ready = group
        .filter(|_| step.state.is_none())
        .and_then(|group| event_of(view, group, EventKind::StateBefore));
    let first = if ready.is_none() {
        first_state(view)
    } else {
        None
    };
    let event = ready
        .as_ref()
        .map(|(_, event)| event)
        .or(first.as_ref())
        .map(crate::format::event);
    let state = event.and_then(|event| event.state).map(TraceValue::json);
    let state = state.as_ref();
    step_view.reply = reply(view, step, fold);
    step_view.read(
        step,
        &Around {
            previous_score: &before,
            picture: &picture,
            state,
        },
        fold,
    );
    if view.index.format().is_one_file() && is_text_the_rationale(step) {
        step_view.reply = step_view.thought.take();
    }
    step_view
        .critics
        .iter_mut()
        .for_each(|critic| critic.colour(&view.summary.critics));
    // A mark names the interruption of a reply.
    let is_interrupted = || {
        view.index
            .steps()
            .get(n)
            .is_some_and(|step| step.is_interrupted())
    };
    if step_view.error.is_none() && !is_interrupted() {
        step_view.error = step.error.and_then(|error| own_error(&error.json(), fold));
    }
}

/// Returns the model's text next to its calls. Omits text that QitOS parsed the calls from, because
/// it repeats them.
fn reply(view: &RunView<'_>, step: &Step<'_>, fold: &mut Fold) -> Option<Folded> {
    let decision = step
        .decision
        .as_ref()
        .filter(|decision| decision.mode.as_deref() == Some("act"))?;
    let text = step.text.filter(|_| view.index.format().is_one_file())?;
    let words = text
        .string()
        .filter(|words| decision.rationale.and_then(TraceValue::string).as_ref() != Some(words))?;
    let thought = decision.rationale.and_then(TraceValue::string);
    if says_again(&words, thought.as_deref().unwrap_or_default(), &step.calls) {
        return None;
    }
    Some(fold.prose(&words, &text.at.to_string()))
}

/// Returns whether the rationale is the text of a reply without recorded thoughts.
fn is_text_the_rationale(step: &Step<'_>) -> bool {
    let rationale = step
        .decision
        .as_ref()
        .and_then(|decision| decision.rationale);
    let text = step.text.and_then(TraceValue::string);
    text.is_some() && text == rationale.and_then(TraceValue::string)
}

/// Whether a text contains nothing but the thought and the command of the only call, which are
/// shown anyway.
fn says_again(words: &str, thought: &str, calls: &[Call<'_>]) -> bool {
    let (Some(rest), [call]) = (words.trim().strip_prefix(thought.trim()), calls) else {
        return false;
    };
    let command = rest.trim().trim_matches('`').trim();
    let args = call.args.map(TraceValue::json);
    let shell_command = args
        .as_ref()
        .and_then(|args| args.get("command"))
        .and_then(Json::as_str)
        .unwrap_or_default();
    !shell_command.is_empty() && command == shell_command.trim()
}

/// Returns the event that starts the run, if it has the complete state and therefore the field
/// names.
fn first_state(view: &RunView<'_>) -> Option<Record<'static>> {
    let whole = view.index.format().state == StateRecord::Initial;
    let (at, _) = view
        .index
        .newest_segments()
        .first()
        .filter(|_| whole)?
        .init
        .as_ref()?;
    view.lines
        .record(TraceFile::Events, view.index.events().get(*at)?.span)
        .ok()
}

/// Returns the error on a step's line, if no event reports it. Failed calls are shown with the
/// calls.
fn own_error(error: &Json<'_>, fold: &mut Fold) -> Option<StepError> {
    let phase = error
        .get("phase")
        .and_then(Json::as_str)
        .filter(|phase| *phase != "act")?;
    let outcome = match error.get("recovered") {
        Some(Json::Bool(true)) => "The engine recovered and continued.",
        Some(Json::Bool(false)) => "The engine stopped the run.",
        _ => "How the engine reacted isn't recorded.",
    };
    Some(StepError {
        category: Line::default(),
        message: fold.text(
            error.get("message").and_then(Json::as_str)?,
            "/error/message",
        ),
        place: format!("in {phase}").into(),
        outcome: Phrase::from(outcome),
    })
}

/// Returns the line after the title of step `n`: the number of steps, its time, and its tokens.
pub(crate) fn step_facts(view: &RunView<'_>, n: usize) -> String {
    facts(view, n, view.index.round_of(n))
}

fn facts(view: &RunView<'_>, n: usize, group: Option<&Group>) -> String {
    let Some(step) = view.index.steps().get(n) else {
        return String::new();
    };
    // Skipped steps count but have no page.
    let mut facts = vec![format!(
        "· {}",
        format::counted(
            view.index.step_count(),
            if view.summary.steps_unknown {
                "line"
            } else {
                "step"
            },
        )
    )];
    let offset = view.offset(group.and_then(|group| began(view.index, group)));
    if !offset.is_empty() {
        facts.push(offset.as_str().to_owned());
    }
    facts.extend(
        group
            .and_then(took)
            .map(|time| format!("took {}", micros(time))),
    );
    let mark = format::bound(false, view.index.tokens_estimated(n));
    facts.extend(
        view.index
            .tokens_of(n)
            .map(|tokens| format!("{mark}{} tokens", format::count(tokens))),
    );
    let agent = view.index.name(step.agent);
    if !agent.is_empty() {
        facts.push(agent.to_owned());
    }
    facts.join(" · ")
}

fn marks(view: &RunView<'_>, n: usize, group: Option<&Group>) -> Vec<Sign> {
    let Some(step) = view.index.steps().get(n) else {
        return Vec::new();
    };
    let mut marks = Vec::new();
    if group.is_some_and(|group| group.error.is_some()) {
        let recovered = view.index.steps().len() > n + 1;
        marks.push(Sign::word(
            "mk err",
            "error",
            if recovered {
                "error, the run continued"
            } else {
                "error"
            },
        ));
    }
    if let (true, Some(error)) = (step.is_interrupted(), &step.error) {
        let why = error.trim_start_matches(BROKEN_REPLY);
        marks.push(Sign::word(
            "mk cut",
            "split",
            format!("reply cut off: {why}"),
        ));
    } else if step.error.is_some() {
        let words = match (step.is_of_reply(), step.is_cancelled()) {
            (true, _) if step.is_undecided() => "no reply",
            (true, _) => "incomplete reply",
            (false, true) => "call cancelled",
            (false, false) => "tool error",
        };
        marks.push(Sign::word("mk err", "error", words));
    } else if step.fate.is_readable() && step.is_undecided() {
        marks.push(Sign::word("mk err", "error", "no decision recorded"));
    }
    marks.extend(
        step.returncode
            .map(|code| Sign::plain("mk err", format!("≠0 a command exited with code {code}"))),
    );
    if step.requested(CriticAction::Retry) {
        marks.push(Sign::word("mk retry", "retry", "retry requested"));
    }
    if step.requested(CriticAction::Stop) {
        marks.push(Sign::word("mk stop", "critic", "stop requested"));
    }
    if let Some(left_out) = view.index.unassembled(n) {
        marks.push(Sign::word(
            "mk",
            "unknown",
            format!("shows {}", first_of(left_out)),
        ));
    }
    if step.is_abandoned {
        marks.push(Sign::word("mk", "split", LEFT));
    }
    marks.extend(
        compactions_before(view, n)
            .map(|one| Sign::word("mk", "split", compaction_in_words(view.index, one))),
    );
    if n < view.summary.copied_steps() {
        marks.push(Sign::word("mk", "split", COPIED));
    }
    match step.fate {
        Fate::Repaired => marks.push(Sign::word("mk", "unknown", "repaired line")),
        Fate::Provisional => marks.push(Sign::word("mk", "unknown", "incomplete line")),
        _ => {}
    }
    marks
}

fn neighbour(view: &RunView<'_>, n: usize, place: StepPlace) -> Option<StepLink> {
    let step = view.index.steps().get(n)?;
    let (call, _) =
        crate::page::part::text::one_line(step.call.split('(').next().unwrap_or_default(), 40);
    let page = href::step(view.key(), n);
    let (href, fragment) = match place {
        StepPlace::List => (view.at_step(n), format!("{page}/part")),
        StepPlace::Alone => (page, String::new()),
    };
    Some(StepLink {
        href,
        fragment,
        label: format!("{} {call}", view.label(n)).into(),
    })
}

fn error(view: &RunView<'_>, n: usize, group: &Group, fold: &mut Fold) -> Option<StepError> {
    let (symbol, text) = group.error.as_ref()?;
    let step_id = view.index.steps().get(n).and_then(|step| step.step_id);
    let failures = view
        .index
        .manifest()
        .get()
        .map_or(&[][..], |manifest| &manifest.failures);
    let failure = failures
        .iter()
        .find(|failure| failure.step_id.is_some() && failure.step_id == step_id);
    let began = view
        .index
        .groups()
        .last()
        .is_some_and(|last| last.first > group.first && last.step_id.is_some());
    let outcome = match (
        failure.map(|failure| &*failure.decision),
        view.index.steps().len() > n + 1,
    ) {
        (Some("continue"), _) => Phrase::from("The engine recovered and continued."),
        (Some("stop"), _) => Phrase::from("The engine stopped the run."),
        (_, true) => Phrase::from("The run continued."),
        (_, false) if began => Phrase::from("Another step started but was never recorded."),
        (_, false) => Phrase::from("No step follows."),
    };
    Some(StepError {
        category: failure.map_or_else(|| "".into(), |failure| (&*failure.category).into()),
        message: fold.text(failure.map_or(text, |failure| &failure.message), ""),
        place: format!("recorded by {}", view.index.name(*symbol)).into(),
        outcome,
    })
}

fn events(view: &RunView<'_>, group: &Group) -> StepEvents {
    let stretches = stretches(view.index, group);
    let shown: Vec<_> = stretches
        .iter()
        .take(MAX_STRETCHES)
        .map(|stretch| (phase(view.index.name(stretch.phase)), stretch))
        .collect();
    let times: Vec<_> = shown
        .iter()
        .filter_map(|((class, name), stretch)| {
            Some((*class, name.as_str(), stretch.micros? as f64 / 1e3))
        })
        .collect();
    let rows = shown.iter().map(|((class, name), stretch)| {
        let events = view.index.events().range(stretch.first..stretch.end);
        let mut stages: Vec<&str> = events
            .clone()
            .map(|event| view.index.name(event.stage))
            .filter(|stage| !stage.is_empty())
            .collect();
        if stages.len() > 3 {
            stages = [stages.first(), Some(&"…"), stages.last()]
                .into_iter()
                .flatten()
                .copied()
                .collect();
        }
        let failed = events.clone().filter(|event| !event.ok).count();
        let mut note = Phrase::new().link(
            format::counted(events.len(), "event"),
            view.at_event(stretch.first),
        );
        if failed > 0 {
            note = note.text(format!(" · {failed} failed"));
        }
        StepEvent {
            class,
            phase: name.as_str().into(),
            stage: stages.join(" → ").into(),
            at: view.offset(stretch.started),
            lasted: stretch
                .micros
                .map_or_else(|| format::MISSING.to_owned(), micros)
                .into(),
            note,
        }
    });
    let mut rows: Vec<StepEvent> = rows.collect();
    if let Some(next) = stretches.get(MAX_STRETCHES) {
        let label = format!(
            "{} more events",
            format::count((group.end - next.first) as u64)
        );
        let note = Phrase::new().link(label, view.at_event(next.first));
        rows.push(StepEvent {
            phase: "and others".into(),
            note,
            ..StepEvent::default()
        });
    }
    StepEvents {
        count: format::counted(group.end - group.first, "event").into(),
        strip: PhaseStrip::new(&times),
        rows,
    }
}

/// Limits the rows for blocks of consecutive events of one phase. A normal run has six per step.
const MAX_STRETCHES: usize = 100;
/// Limits the event lines that are linked individually. A normal run has about thirteen per step.
const MAX_RAW_EVENTS: usize = 100;

fn place(view: &RunView<'_>, file: TraceFile, line: u64, span: Span) -> Line {
    let (from, to) = (
        format::count(span.offset),
        // The last byte, not the one after it.
        format::count(span.offset + span.len.saturating_sub(1)),
    );
    let name = view.index.format().file_name(file);
    match own_line(view, line) {
        Some(own) if own == line => {
            format!("{name} line {}, bytes {from} to {to}", format::count(line)).into()
        }
        Some(own) => format!("{name} line {}", format::count(own)).into(),
        None => SAVED.into(),
    }
}

/// The place of a record that was made from other files.
const SAVED: &str = "made from the session's saved state";

/// Returns the number of a line in the run's own file. `None` if the record isn't in it.
fn own_line(view: &RunView<'_>, line: u64) -> Option<u64> {
    let made = view
        .index
        .manifest()
        .get()
        .map_or(0, |manifest| manifest.records_made);
    line.checked_sub(made).filter(|line| *line > 0)
}

/// Describes how many of a step's records were read.
fn first_of(Unassembled { read, all }: Unassembled) -> String {
    format!(
        "{} of {}",
        format::count(read as u64),
        format::counted(all, "record")
    )
}

/// Returns the location of a step's line, or the records it was assembled from.
fn place_of(view: &RunView<'_>, n: usize, step: &StepHead) -> Line {
    if step.parts.is_empty() {
        return place(view, TraceFile::Steps, step.line, step.span);
    }
    let from = match view.index.unassembled(n) {
        None => format::counted(step.parts.len(), "record"),
        Some(left_out) => first_of(left_out),
    };
    let file = view.index.format().file_name(TraceFile::Steps);
    let document = match view.index.format().is_database() {
        true => " of the document that board builds",
        false => "",
    };
    match own_line(view, step.line) {
        Some(line) => format!(
            "built from {from} of the {file}, starting at line {}{document}",
            format::count(line)
        )
        .into(),
        None => format!("built from {from} {SAVED}").into(),
    }
}

fn raw(view: &RunView<'_>, n: usize, bytes: Option<&[u8]>, fold: &mut Fold) -> Option<RawLine> {
    let step = view.index.steps().get(n)?;
    Some(RawLine {
        place: place_of(view, n, step),
        size: format::bytes(bytes.map_or(step.span.len, |bytes| bytes.len() as u64)).into(),
        text: bytes.map(|bytes| fold.text(&String::from_utf8_lossy(bytes), "")),
        href: href::alone(&href::step(view.key(), n), step.span.len),
    })
}

fn raw_events(view: &RunView<'_>, n: usize, group: &Group) -> Vec<RawLine> {
    let events = view.index.events();
    let line = |at: usize| {
        let event: &EventHead = events.get(at)?;
        Some(RawLine {
            place: place(view, TraceFile::Events, event.line, event.span),
            size: format::bytes(event.span.len).into(),
            text: None,
            href: href::alone(&href::event(view.key(), at), event.span.len),
        })
    };
    if view
        .index
        .steps()
        .get(n)
        .is_some_and(|step| !step.parts.is_empty())
    {
        return view
            .index
            .parts_of(n)
            .flatten()
            .take(MAX_RAW_EVENTS)
            .filter_map(line)
            .collect();
    }
    let mut lines: Vec<RawLine> = (group.first..group.end)
        .take(MAX_RAW_EVENTS)
        .filter_map(line)
        .collect();
    let others = events.range(group.first..group.end).skip(MAX_RAW_EVENTS);
    if others.len() > 0 {
        lines.push(RawLine {
            place: format!("and {}", format::counted(others.len(), "more line")).into(),
            size: format::bytes(others.clone().map(|event| event.span.len).sum()).into(),
            text: None,
            href: view.at_event(group.first + MAX_RAW_EVENTS),
        });
    }
    lines
}

/// Returns the value at a JSON pointer of a line. Long texts are returned in parts; `part` is the
/// number of the part. `None` if there is no such value.
pub(crate) fn value_of(
    bytes: &[u8],
    pointer: &str,
    part: usize,
    links: ValueLinks,
) -> Option<Value> {
    let text = Record::of(bytes).text;
    let json = match Json::parse(&text) {
        Some(json) if !pointer.is_empty() => json,
        // The empty pointer refers to the line itself, as text.
        _ => return Part::of(&text, part, pointer, &links).map(Value::Text),
    };
    match find(&json, pointer)? {
        Json::String(text) => Part::of(text, part, pointer, &links).map(Value::Text),
        Json::Deep(text) => Part::of(text, part, pointer, &links).map(Value::Text),
        other => Some(Value::Json(Fold::new(links).json(other, pointer))),
    }
}
