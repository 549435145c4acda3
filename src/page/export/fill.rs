//! Collects what goes into a saved run: everything the replay needs, but no prompts, observations
//! or raw lines.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::sync::Arc;

use base64::Engine as _;

use crate::analysis::format;
use crate::analysis::state::walk;
use crate::analysis::summary::Summary;
use crate::model::TraceFile;
use crate::model::json::Json;
use crate::model::redact::{Blanked, MAX_SOUGHT};
use crate::page::export::{
    ExportHead, ExportStep, picture_type, write_end, write_head, write_part,
};
use crate::page::part::json_tree::find;
use crate::page::part::sign::Phrase;
use crate::page::part::strip::Strip;
use crate::page::part::{attachment, href};
use crate::page::run::head::RunHead;
use crate::page::run::pending::PendingSlot;
use crate::page::run::verdict::Verdict;
use crate::page::run_view::{RunView, phase};
use crate::page::scores::ScoresBody;
use crate::page::scores::query::Query;
use crate::page::step::fill::{StepPlace, about, step_view};
use crate::page::step::{self, StepView};

/// Limits the bytes of all pictures in the file.
const MAX_PICTURES: usize = 8_000_000;
/// Limits the bytes of the file up to which steps are written in full.
const MAX_TEXT: usize = 64_000_000;
/// Limits the bytes of the states in the file.
const MAX_STATES: usize = 8_000_000;
/// Limits the bytes of a state value. Longer values are truncated.
const MAX_VALUE: usize = 2_000;
/// Limits the child runs listed.
const MAX_STARTED: usize = 500;

/// Options for saving a run.
pub(crate) struct Export<'a> {
    /// The step to open at and how many of its events to show, as in the replay. `None` opens the
    /// verdict.
    pub cursor: Option<(usize, usize)>,
    /// How much was redacted, if redaction was requested.
    pub redacted: Option<Blanked>,
    /// Reads the picture at a recorded path.
    pub picture: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}

impl std::fmt::Debug for Export<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Export")
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}

/// Writes the run as a self-contained page.
///
/// # Errors
/// Returns errors of the writer.
pub(crate) fn write_export(
    view: &RunView<'_>,
    export: &Export<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let total = view.index.steps().len();
    let nonce = nonce(view);
    let scored = !view.summary.critics.is_empty();
    let children = view.children();
    // The child runs are matched to steps once above, rather than again for each step.
    let alone = RunView {
        related_runs: &Vec::new,
        ..*view
    };
    let page = ExportHead {
        nonce: nonce.clone(),
        cursor: export.cursor.filter(|_| total > 0),
        notes: notes(view, export),
        head: RunHead {
            acts: false,
            ..RunHead::new(view)
        },
        verdict: Verdict::new(view),
        strip: Strip::new(view, "", None),
        scores: scored.then(|| ScoresBody::new(view, Query::default())),
        started: started(view, &children),
    };
    let mut written = write_head(out, &page, view.key())?;
    let mut pictures = 0;
    for n in 0..total {
        let mut step_view = step_view(&alone, n, StepPlace::Alone).unwrap_or_default();
        step_view.started = step::fill::started(&children, n);
        put_pictures_in(view, &mut step_view, export, &mut pictures);
        let full = written > MAX_TEXT;
        let call = view
            .index
            .steps()
            .get(n)
            .map(|step| step.call.to_string())
            .unwrap_or_default();
        let left_out = if full {
            format!("{call} (size limit reached, the rest of this step is omitted)")
        } else {
            String::new()
        };
        let step = ExportStep {
            step_view,
            phases: phases(view, n),
            left_out: left_out.into(),
        };
        let redacted = export.redacted.is_some();
        let mut picture = |address: &str| in_value(view, address, redacted, &mut pictures);
        written += write_part(out, &step, view.key(), &mut picture)?;
    }
    if view.index.unfinished_group().is_some() {
        write_part(out, &PendingSlot { view }, view.key(), &mut |_| {
            Err(String::new())
        })?;
    }
    write_end(out, &states(view), &nonce)
}

/// Lists the child runs: the name, the step if the timestamps show it, and the outcome.
fn started(view: &RunView<'_>, children: &[(Arc<Summary>, Option<usize>)]) -> Vec<Phrase> {
    let row = |(child, step): &(Arc<Summary>, Option<usize>)| {
        let words = Phrase::new().strong(child.key.name());
        let words = match step {
            Some(n) => words
                .text(" · ")
                .link(format!("step {}", view.label(*n)), view.at_step(*n)),
            None => words,
        };
        words.text(format!(" · {}", about(child)))
    };
    children.iter().take(MAX_STARTED).map(row).collect()
}

/// Returns what the file states about itself.
fn notes(view: &RunView<'_>, export: &Export<'_>) -> Vec<String> {
    let mut notes = vec![format!(
        "Exported by board {} on {} from {}.",
        env!("CARGO_PKG_VERSION"),
        view.exact(view.now),
        view.summary.path
    )];
    if view.is_alive() {
        notes
            .push("The run hadn't ended yet. This file contains its record up to then.".to_owned());
    }
    notes.push("Left out: prompts, observations and raw lines.".to_owned());
    notes.push(format!(
        "Also left out if the file would grow too large: images after the first {}, step details after the first {}.",
        format::bytes(MAX_PICTURES as u64),
        format::bytes(MAX_TEXT as u64)
    ));
    if let Some(Blanked { found, not_sought }) = export.redacted {
        if view.summary.children.is_some_and(|children| children > 0) {
            notes.push("Child runs aren't listed.".to_owned());
        }
        let values = if found == 1 {
            "1 value is".to_owned()
        } else {
            format!("{} values are", format::count(found as u64))
        };
        notes.push(format!(
            "{values} redacted: values of keys that name a secret, in JSON and in text such as key=value, and texts that look like a well-known service's key. The same text is redacted wherever it occurs if it has at least 8 bytes, or at least 5 as a separate word. Shorter ones, common words and short words without quotes are redacted only next to their keys. Pictures are omitted. Secrets under other names aren't found."
        ));
        if not_sought > 0 {
            notes.push(format!(
                "{} of these values {} redacted only next to keys and may occur elsewhere in this file. The search covers at most {} different values.",
                format::count(not_sought as u64),
                if not_sought == 1 { "is" } else { "are" },
                format::count(MAX_SOUGHT as u64)
            ));
        }
    }
    notes
}

/// Embeds the pictures of a step as data while there is room.
fn put_pictures_in(
    view: &RunView<'_>,
    step_view: &mut StepView,
    export: &Export<'_>,
    spent: &mut usize,
) {
    if step_view.assets.is_empty() {
        return;
    }
    let span = view
        .index
        .steps()
        .get(step_view.n)
        .map(|step| step.span)
        .unwrap_or_default();
    let record = view.lines.record(TraceFile::Steps, span).ok();
    let step = record
        .as_ref()
        .and_then(crate::format::step)
        .unwrap_or_default();
    for asset in &mut step_view.assets {
        // The address on the board ends with the picture's index in its list.
        let Some(place) = asset
            .href
            .take()
            .and_then(|href| href.rsplit_once('/')?.1.parse::<usize>().ok())
        else {
            continue;
        };
        let path = step
            .pictures
            .get(place)
            .and_then(|picture| picture.path.as_deref());
        let read = path.and_then(|path| Some((picture_type(path)?, (export.picture)(path)?)));
        match read {
            Some((_, bytes)) if bytes.len() > MAX_PICTURES => {
                asset.note = format!(
                    "omitted: larger than the limit of {} for all pictures",
                    format::bytes(MAX_PICTURES as u64)
                )
                .into();
            }
            Some((kind, bytes)) if *spent + bytes.len() <= MAX_PICTURES => {
                *spent += bytes.len();
                let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
                asset.href = Some(format!("data:{kind};base64,{data}"));
            }
            Some(_) => {
                asset.note = format!(
                    "omitted: this file already has {} of pictures",
                    format::bytes(*spent as u64)
                )
                .into()
            }
            None => asset.note = "the picture can't be read or is too large".into(),
        }
    }
}

/// Returns the picture in a value as data while there is room. `address` is the value's address on
/// the board.
fn in_value(
    view: &RunView<'_>,
    address: &str,
    redacted: bool,
    spent: &mut usize,
) -> Result<String, String> {
    if redacted {
        return Err("picture omitted:".to_owned());
    }
    let read = || {
        let rest = address.strip_prefix(&href::run(view.key()))?;
        let (line, query) = rest.strip_prefix('/')?.split_once("/value?at=")?;
        let (file, n) = line.split_once('/')?;
        let n: usize = n.parse().ok()?;
        let (file, span) = match file {
            "steps" => (TraceFile::Steps, view.index.steps().get(n)?.span),
            _ => (TraceFile::Events, view.index.events().get(n)?.span),
        };
        let at = percent_encoding::percent_decode_str(query.split('&').next()?)
            .decode_utf8()
            .ok()?;
        let record = view.lines.record(file, span).ok()?;
        let json = Json::parse(&record.text)?;
        attachment::of(find(&json, &at)?)?.picture()
    };
    let (kind, bytes) = read().ok_or_else(|| "unreadable picture:".to_owned())?;
    if *spent + bytes.len() > MAX_PICTURES {
        return Err(format!(
            "picture omitted (over {} in total):",
            format::bytes(MAX_PICTURES as u64)
        ));
    }
    *spent += bytes.len();
    Ok(format!(
        "data:{kind};base64,{}",
        base64::engine::general_purpose::STANDARD.encode(&bytes)
    ))
}

/// Returns the phases of step `n`'s events as colour classes.
fn phases(view: &RunView<'_>, n: usize) -> String {
    let Some(group) = view.index.round_of(n) else {
        return String::new();
    };
    let events = view.index.events().range(group.first..group.end);
    events
        .map(|event| phase(view.index.name(event.phase)).0)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns as JSON, for each step, the keys whose value or writer differs from the step before:
/// `[key, value or null, writer or null, doubt]`.
fn states(view: &RunView<'_>) -> String {
    let mut known: BTreeMap<String, (Option<String>, Option<usize>)> = BTreeMap::new();
    let mut out = String::from("[");
    walk(view.index, view.lines, &mut |n, keys| {
        out.push_str(if n == 0 { "[" } else { ",\n[" });
        let mut first = true;
        for key in keys {
            if known
                .get(&key.key)
                .is_some_and(|(value, written)| *value == key.value && *written == key.written)
            {
                continue;
            }
            known.insert(key.key.clone(), (key.value.clone(), key.written));
            let quote = |text: &str| Json::String(text.into()).to_string();
            let value = key
                .value
                .as_deref()
                .map_or_else(|| "null".to_owned(), |value| quote(&cut(value)));
            let writer = key
                .written
                .map_or_else(|| "null".to_owned(), |step| step.to_string());
            out.push_str(if first { "" } else { "," });
            out.push_str(&format!(
                "[{},{value},{writer},{}]",
                quote(&format::visible_line(&key.key)),
                quote(key.doubt)
            ));
            first = false;
        }
        out.push(']');
        out.len() < MAX_STATES
    });
    out.push(']');
    out
}

fn cut(value: &str) -> String {
    match value.len() > MAX_VALUE {
        true => {
            let head = crate::model::names::cut_at(value, MAX_VALUE);
            format!(
                "{}… ({} more)",
                format::visible_line(head),
                format::bytes((value.len() - head.len()) as u64)
            )
        }
        false => format::visible_line(value).into_owned(),
    }
}

/// Returns the nonce for the file. It depends on the microsecond of saving, which no trace can
/// know.
fn nonce(view: &RunView<'_>) -> String {
    let mut hash = DefaultHasher::new();
    (
        view.now,
        view.key(),
        view.index.steps().len(),
        view.index.events().len(),
    )
        .hash(&mut hash);
    view.summary.verdict.sentence.hash(&mut hash);
    format!("{:016x}", hash.finish())
}
