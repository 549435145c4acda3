//! What stands above the tabs of a run? The header and the tabs themselves; the verdict between them has a file of its own.

use crate::analysis::format;
use crate::model::time::Stamp;
use crate::page::lens::{Lens, micros, status};
use crate::page::part::fold::{Fold, ValueLinks};
use crate::page::part::href;
use crate::page::part::sign::{Fact, Link, Phrase};
use crate::page::run::{RunHead, Tab, Tabs};

/// A task longer than this many characters is also offered whole.
const TASK_CHARS: usize = 200;

/// The title of a run page: the run, what of it is shown where that was chosen, and the verdict.
pub(crate) fn content_title(lens: &Lens<'_>, part: &str) -> String {
    let part = if part.is_empty() { String::new() } else { format!("{part} · ") };
    format!("{}: {part}{}", lens.key(), lens.summary.verdict.sentence)
}

/// The header.
pub(crate) fn head(lens: &Lens<'_>) -> RunHead {
    let task = lens.summary.task.as_deref().unwrap_or_default();
    let (line, whole) = crate::page::part::text::one_line(task, TASK_CHARS);
    RunHead {
        name: lens.key().into(),
        task: line.into(),
        whole_task: (!whole).then(|| Fold::new(ValueLinks::default()).text(task, "").prose()),
        status: status(lens.summary),
        facts: facts(lens),
        acts: vec![
            Link::new("Replay", href::replay(lens.key())),
            Link::new("Compare…", href::compare(lens.key(), "")),
            Link::new("Export", format!("{}/export.html", href::run(lens.key()))),
            Link::new("Raw JSON", format!("/api/runs/{}/raw", href::encode(lens.key()))),
        ],
    }
}

/// The header of a page on which no panel says why the run stopped.
pub(crate) fn head_with_verdict(lens: &Lens<'_>) -> RunHead {
    let mut head = head(lens);
    let verdict = Phrase::new().link(lens.summary.verdict.sentence.as_str(), href::run(lens.key()));
    head.facts.insert(0, Fact::new("verdict", verdict));
    head
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
    let among = format!("the newest of {} in this directory; all numbers are its own", summary.segments);
    add("run", (summary.segments > 1).then(|| Phrase::new().dim(among)));
    add("part of", summary.parent.as_deref().map(|parent| Phrase::new().link(parent, href::run(parent))));
    add("written by", manifest.map(|manifest| Phrase::new().dim(manifest.format.name)));
    let other = |id: &&str| Some(*id) != lens.key().rsplit('/').next();
    add("run id", summary.run_id.as_deref().filter(other).map(Phrase::from));
    add("directory", Some(Phrase::new().dim(summary.path.as_str())));
    facts
}

/// The tabs; `current` is the name of the one shown.
pub(crate) fn tabs(lens: &Lens<'_>, current: &str) -> Tabs {
    let tab = |name: &'static str, value: &str, count: String| Tab {
        name,
        count: count.into(),
        href: href::tab(lens.key(), value),
        current: current == value,
    };
    let count = |number: usize| format::count(number as u64);
    // The tabs show the lines of every run in the directory.
    let of_all = |newest: usize, all: usize| match lens.summary.segments {
        0 | 1 => count(all),
        _ => format!("{} of {}", count(newest), count(all)),
    };
    let manifest = if lens.index.manifest().get().is_some() { String::new() } else { "none".to_owned() };
    Tabs {
        tabs: vec![
            tab("Steps", "", of_all(lens.summary.steps_now, lens.index.steps().len())),
            Tab {
                name: "Scores",
                count: count(lens.summary.critics.len()).into(),
                href: href::scores(lens.key()),
                current: current == "scores",
            },
            Tab { name: "What-if", count: "".into(), href: href::whatif(lens.key()), current: current == "whatif" },
            tab("State", "state", String::new()),
            tab("Events", "events", of_all(lens.summary.events, lens.index.events().len())),
            tab("Manifest", "manifest", manifest),
            tab("Issues", "issues", count(lens.summary.issues.0)),
        ],
    }
}
