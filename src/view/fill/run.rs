//! What stands above the tabs of a run? The header, the verdict panel and the tabs themselves.

use super::{Lens, micros, status};
use crate::analysis::health;
use crate::analysis::life::{Basis, Life};
use crate::analysis::verdict::{Certainty, Mark, reading, recorded};
use crate::analysis::why::{Kind, why};
use crate::model::time::Stamp;
use crate::model::{CriticAction, Manifest, RecordedStop};
use crate::view::fold::{Fold, ValueLinks};
use crate::view::run::{Evidence, Failure, LastWord, RunHead, Tab, Tabs, TraceSays, Verdict};
use crate::view::sign::{Fact, Link, Phrase, Sign};
use crate::view::svg::Axis;
use crate::view::{format, href};

/// A task longer than this many characters is also offered whole.
const TASK_CHARS: usize = 200;

/// The title of a run page: the run, what of it is shown where that was chosen, and the verdict.
pub fn content_title(lens: &Lens<'_>, part: &str) -> String {
    let part = if part.is_empty() { String::new() } else { format!("{part} · ") };
    format!("{}: {part}{}", lens.key(), lens.summary.verdict.sentence)
}

/// The header.
pub fn head(lens: &Lens<'_>) -> RunHead {
    let task = lens.summary.task.as_deref().unwrap_or_default();
    let (line, whole) = crate::view::text::one_line(task, TASK_CHARS);
    RunHead {
        name: lens.key().into(),
        task: line.into(),
        whole_task: (!whole).then(|| Fold::new(ValueLinks::default()).text(task, "").prose()),
        status: status(lens.summary),
        facts: facts(lens),
        acts: vec![Link::new("Raw JSON", format!("/api/runs/{}/raw", href::encode(lens.key())))],
    }
}

fn facts(lens: &Lens<'_>) -> Vec<Fact> {
    let summary = lens.summary;
    let manifest = lens.index.manifest().get();
    let mut facts = Vec::new();
    let mut add = |term: &str, says: Option<Phrase>| facts.extend(says.map(|says| Fact::new(term, says)));
    let text = |text: Option<&str>| text.map(Phrase::from);
    add("model", text(summary.model.as_deref()));
    add("agent", (!summary.agents.is_empty()).then(|| Phrase::from(summary.agents.join(", "))));
    let started = summary.started.and_then(|micros| format::clock(Stamp { micros, zoned: true }, lens.zone));
    add(
        "started",
        started.map(|clock| {
            Phrase::new().time(
                format!("{} {}", format::date(summary.started.unwrap_or_default(), lens.now, lens.zone), clock.text),
                clock.iso,
            )
        }),
    );
    let took = if summary.life.liveness.may_grow() { "so far" } else { "took" };
    add(took, summary.duration_ms.map(|ms| Phrase::from(micros((ms * 1e3) as i64))));
    add("tokens", summary.tokens.map(|tokens| Phrase::from(format::count(tokens))));
    add("seed", manifest.and_then(|manifest| manifest.seed).map(|seed| Phrase::from(seed.to_string())));
    let hash = |hash: Option<&str>| hash.map(|hash| Phrase::from(hash.chars().take(8).collect::<String>()));
    add("prompt", hash(manifest.and_then(|manifest| manifest.prompt_hash.as_deref())));
    add("config", hash(manifest.and_then(|manifest| manifest.config_hash.as_deref())));
    let resumed = manifest.and_then(|manifest| manifest.resumed_after);
    add(
        "goes on",
        resumed.map(|steps| {
            Phrase::from(format!("after {} of an earlier run", format::counted(steps.max(0) as usize, "step")))
        }),
    );
    add("part of", summary.parent.as_deref().map(|parent| Phrase::new().link(parent, href::run(parent))));
    add("written by", manifest.map(|manifest| Phrase::new().dim(manifest.layout.label())));
    let other = |id: &&str| Some(*id) != lens.key().rsplit('/').next();
    add("run id", summary.run_id.as_deref().filter(other).map(Phrase::from));
    add("directory", Some(Phrase::new().dim(summary.path.as_str())));
    facts
}

/// The verdict panel.
pub fn verdict(lens: &Lens<'_>) -> Verdict {
    let summary = lens.summary;
    let explained = why(summary, lens.index);
    let certainty = match summary.verdict.certainty {
        Certainty::Recorded => Phrase::new(),
        Certainty::Inferred if summary.life.liveness.may_grow() => Phrase::new(),
        Certainty::Inferred => Phrase::from("Inferred: no file says how the run ended."),
        Certainty::Unknown => Phrase::from("The files do not tell why."),
    };
    let trouble = explained.first_trouble.map_or_else(Phrase::new, |(n, words)| {
        Phrase::new().link(format!("Step {}", lens.label(n)), lens.at_step(n)).text(format!(": {words}"))
    });
    Verdict {
        status: status(summary),
        headline: Phrase::from(format!("{}.", summary.verdict.sentence)),
        second: if summary.verdict.second.is_empty() {
            Phrase::new()
        } else {
            Phrase::from(summary.verdict.second.as_str())
        },
        certainty,
        evidence: explained.evidence.iter().map(|evidence| line_of(lens, evidence)).collect(),
        first_trouble: trouble,
        contradictions: explained.contradictions.into_iter().map(Phrase::from).collect(),
        liveness: liveness(lens, &summary.life),
        health: health_line(lens),
        says: says(lens),
    }
}

fn line_of(lens: &Lens<'_>, evidence: &crate::analysis::why::Evidence) -> Evidence {
    let (icon, class) = match evidence.kind {
        Kind::End => ("doc", ""),
        Kind::Rule if lens.summary.verdict.mark == Mark::Limit => ("limit", "lim"),
        Kind::Rule => ("rule", ""),
        Kind::Critic if lens.summary.verdict.mark == Mark::Critic => ("critic", "stop"),
        Kind::Critic => ("brand", ""),
        Kind::Error => ("error", "err"),
        Kind::Manifest => ("doc", ""),
        Kind::Answer => ("ok", ""),
        Kind::Gap => ("died", "err"),
    };
    let link = match (evidence.event, evidence.step) {
        (Some(event), _) => Some(Link::new(format!("event {event}"), lens.at_event(event))),
        (None, Some(n)) => Some(Link::new(format!("step {}", lens.label(n)), lens.at_step(n))),
        (None, None) => None,
    };
    let (text, _) = crate::view::text::one_line(&evidence.text, 240);
    Evidence { icon, class, text: Phrase::from(text), link }
}

fn liveness(lens: &Lens<'_>, life: &Life) -> Phrase {
    let words = match life.basis {
        Basis::End | Basis::Manifest => return Phrase::new(),
        Basis::Teardown => return "Ended: tool sets were torn down and no END event followed".into(),
        Basis::Process => return "The recorded process does not exist any more".into(),
        Basis::Nothing => return "Nothing carries a time".into(),
        Basis::Event => "The newest event is from",
        Basis::Growth => "The board saw the files grow",
        Basis::ManifestTime => "No event has a time; the manifest is from",
        Basis::FileTime => {
            "Nothing in the files has a time; a copy would change that of the newest file, which is from"
        }
    };
    let Some(silence) = life.silence else { return Phrase::from(format!("{words} an unknown time")) };
    let since = lens.now - silence;
    let said = Phrase::new().text(format!("{words} ")).age(format::age(since, lens.now, lens.zone), lens.iso(since));
    match lens.index.slowest_gap() {
        0 => said,
        slowest => said.dim(format!(" · longest pause in the run {}", micros(slowest))),
    }
}

fn health_line(lens: &Lens<'_>) -> Phrase {
    let (total, problems) = lens.summary.issues;
    let tab = href::tab(lens.key(), "issues");
    let notes = total - problems;
    if total == 0 {
        return Phrase::from("clean");
    }
    let mut parts = Vec::new();
    if problems > 0 {
        parts.push(format::counted(problems, "problem"));
    }
    if notes > 0 {
        parts.push(format::counted(notes, "note"));
    }
    let first = health::issues(lens.index).into_iter().min_by_key(|issue| !issue.kind.is_problem());
    let first = first.map_or_else(String::new, |issue| format!(" {}: {}", issue.file.name(), issue.reason));
    Phrase::new().link(parts.join(", "), tab).text(first)
}

fn says(lens: &Lens<'_>) -> TraceSays {
    let index = lens.index;
    let manifest = index.manifest().get();
    let segment = index.segment();
    let mut facts = Vec::new();
    let mut add = |term: &str, says: Option<Phrase>| facts.extend(says.map(|says| Fact::new(term, says)));
    let code = |text: &str| Phrase::new().code(text);
    let step_limit = lens.summary.verdict.limit.map(|limit| {
        use crate::analysis::verdict::LimitFrom;
        let from = match limit.from {
            LimitFrom::Task => "set by the task's budget",
            LimitFrom::Engine => "set by the engine's budget",
            LimitFrom::Cli => "set on the command line",
            LimitFrom::Default => "the engine's default; nobody set one",
            LimitFrom::Inferred => "inferred from where the budget ended the run",
            LimitFrom::State => "from the agent's state; the engine's own budget is not recorded",
        };
        Phrase::new().text(limit.steps.to_string()).dim(format!(" {from}"))
    });
    add("Status", manifest.and_then(|manifest| manifest.status.as_deref()).map(code));
    let end = segment.and_then(|segment| segment.end.as_ref());
    let from_end = end.and_then(|(_, end, _)| end.reason.as_deref());
    add("Stop reason", manifest.and_then(|manifest| manifest.stop_reason.as_deref()).or(from_end).map(code));
    add("Rule", recorded(index).map(rule));
    let stop = segment.and_then(|segment| segment.stop.as_ref());
    let told = |detail: &&str| recorded(index).is_none_or(|stop| *stop.detail != **detail);
    add("Stop detail", stop.and_then(|(_, stop)| stop.detail.as_deref()).filter(told).map(code));
    add(
        "Success",
        manifest.and_then(|manifest| manifest.success).map(|success| code(if success { "true" } else { "false" })),
    );
    add("Step limit", step_limit);
    let (answer, _) = crate::view::text::one_line(lens.summary.answer.as_deref().unwrap_or_default(), 300);
    add("Answer", (!answer.is_empty()).then(|| Phrase::from(answer)));
    let error = segment.and_then(|segment| segment.error.as_ref());
    add(
        "Last error",
        error.map(|(event, text)| {
            Phrase::new().text(&**text).text(" ").link(format!("event {event}"), lens.at_event(*event))
        }),
    );
    let (critics, critics_of) = last_words(lens);
    let failures: Vec<Failure> = manifest.map_or_else(Vec::new, |manifest| failures(lens, manifest));
    let nothing = if facts.is_empty() && critics.is_empty() && failures.is_empty() {
        "No manifest, no stop check and no END event can be read."
    } else {
        ""
    };
    TraceSays { facts, critics, critics_of, failures, nothing: nothing.into() }
}

/// The rule that ended the run: its id, what was compared, and where it was asked.
fn rule(stop: &RecordedStop) -> Phrase {
    let says = Phrase::new().code(&*stop.criterion);
    let says = match reading(stop) {
        Some(compared) => says.text(format!(": {compared}")),
        None if stop.detail.is_empty() => says,
        None => says.text(format!(": {}", crate::view::text::one_line(&stop.detail, 200).0)),
    };
    match stop.gate.as_deref() {
        Some("before_step") => says.dim(" · asked before the step"),
        Some("after_decide") => says.dim(" · asked after the decision"),
        Some("after_step") => says.dim(" · asked after the step"),
        Some(other) => says.dim(format!(" · asked at {other}")),
        None => says.dim(" · before the first step"),
    }
}

fn last_words(lens: &Lens<'_>) -> (Vec<LastWord>, Option<Link>) {
    let last = lens.index.steps().iter().enumerate().rev().find(|(_, step)| !step.critics.is_empty());
    let Some((n, step)) = last else { return (Vec::new(), None) };
    let words = step.critics.iter().map(|mark| LastWord {
        name: lens.index.name(mark.name).into(),
        asked: match mark.action {
            CriticAction::Continue => Sign::plain("mk", "continue"),
            CriticAction::Retry => Sign::word("mk retry", "retry", "retry"),
            CriticAction::Stop => Sign::word("mk stop", "critic", "stop"),
            CriticAction::Failed => Sign::word("mk err", "error", "failed"),
            CriticAction::Other => Sign::plain("mk", "another word"),
        },
        axis: mark.score.and_then(|score| Axis::new(score, None)),
        score: mark.score.map_or_else(|| "no number".to_owned(), format::score).into(),
        reason: if step.asked(mark.action) {
            step.critic_reason.as_deref().unwrap_or_default().into()
        } else {
            "".into()
        },
    });
    (words.collect(), Some(Link::new(format!("step {}", lens.label(n)), lens.at_step(n))))
}

fn failures(lens: &Lens<'_>, manifest: &Manifest) -> Vec<Failure> {
    let at = |id: Option<i64>| lens.index.steps().iter().rposition(|step| step.step_id.is_some() && step.step_id == id);
    let link = |id: Option<i64>| {
        let label = id.map_or_else(|| "–".to_owned(), |id| id.to_string());
        at(id).map_or_else(
            || Link::new(label.clone(), href::run(lens.key())),
            |n| Link::new(label.clone(), lens.at_step(n)),
        )
    };
    let failure = |failure: &crate::model::manifest::Failure| Failure {
        step: link(failure.step_id),
        phase: (&*failure.phase).into(),
        category: (&*failure.category).into(),
        message: crate::view::text::one_line(&failure.message, 200).0.into(),
        outcome: (&*failure.decision).into(),
    };
    manifest.failures.iter().map(failure).collect()
}

/// The tabs; `current` is the name of the one shown.
pub fn tabs(lens: &Lens<'_>, current: &str) -> Tabs {
    let tab = |name: &'static str, value: &str, count: String| Tab {
        name,
        count: count.into(),
        href: href::tab(lens.key(), value),
        current: current == value,
    };
    let count = |number: usize| format::count(number as u64);
    let manifest = if lens.index.manifest().get().is_some() { String::new() } else { "none".to_owned() };
    Tabs {
        tabs: vec![
            tab("Steps", "", count(lens.index.steps().len())),
            Tab { name: "What-if", count: "".into(), href: href::whatif(lens.key()), current: current == "whatif" },
            tab("Events", "events", count(lens.index.events().len())),
            tab("Manifest", "manifest", manifest),
            tab("Issues", "issues", count(lens.summary.issues.0)),
        ],
    }
}
