//! Lists the searchable texts of a run: its title, and the prompts, thoughts, replies, calls, results
//! and errors of each step.
//!
//! Each text is a whole string of the trace, so a search of the files finds it too.

use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::analysis::search::{PROMPT, TITLE};
use crate::analysis::summary::Summary;
use crate::live::Run;
use crate::model::json::Json;
use crate::model::names::clipped;
use crate::model::step::{Step, Value};
use crate::model::{InFile, Index, Lines, MAX_LINE_BYTES, Record, Span, TraceFile};
use crate::page::run_view::RunView;
use crate::page::step::messages::{prompts_before, prompts_or_task};
use crate::text_index::Text;

/// Longer names of tools are shortened in labels; characters.
const MAX_NAME_CHARS: usize = 60;

/// Calls `each` with the texts of a run until it returns false. Returns whether it had all of them.
pub(crate) fn texts(
    run: &Run,
    summary: &Summary,
    index: &Arc<Index>,
    each: &mut dyn FnMut(Text<'_>) -> bool,
) -> bool {
    let lines = Read { run, index };
    let view = RunView {
        summary,
        index,
        lines: &lines,
        now: 0,
        stale: None,
        related_runs: &Vec::new,
        files: &|| None,
        zone: &TimeZone::UTC,
        editor: None,
    };
    let mut said = Said {
        place: (None, 0),
        number: 0,
        goes_on: true,
        each,
    };
    said.text(TITLE, summary.title());
    let total = index.steps().len();
    for n in 0..total {
        if !said.goes_on {
            return false;
        }
        let Some(head) = index.steps().get(n) else {
            continue;
        };
        said.place = (Some(n), head.span.offset);
        for prompt in prompts_or_task(&view, n, usize::MAX) {
            said.text(PROMPT, &prompt.words);
        }
        if head.span.len > MAX_LINE_BYTES {
            continue;
        }
        if let Ok(bytes) = lines.line(TraceFile::Steps, head.span) {
            let record = Record::of(&bytes);
            if let Some(step) = crate::format::step(&record) {
                said.step(&step);
            }
        }
    }
    said.place = (None, 0);
    for prompt in prompts_before(&view, total) {
        said.text(PROMPT, &prompt.words);
    }
    said.goes_on
}

/// Reads the lines of a run whose index isn't kept.
struct Read<'a> {
    run: &'a Run,
    index: &'a Index,
}

impl Lines for Read<'_> {
    fn line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>, String> {
        self.run.dir().line(|| self.index, file, span)
    }

    fn manifest(&self) -> Result<Vec<u8>, String> {
        self.run.manifest()
    }

    fn has_asset(&self, recorded: &str) -> Result<(), String> {
        self.run.has_asset(recorded)
    }

    fn in_file(&self) -> Option<InFile> {
        self.run.in_file()
    }
}

/// Passes on texts.
struct Said<'a> {
    /// The step, and the position of its line.
    place: (Option<usize>, u64),
    number: u64,
    goes_on: bool,
    each: &'a mut dyn FnMut(Text<'_>) -> bool,
}

impl Said<'_> {
    fn text(&mut self, label: &str, text: &str) {
        if text.is_empty() || !self.goes_on {
            return;
        }
        let (step, offset) = self.place;
        self.number += 1;
        self.goes_on = (self.each)(Text {
            number: self.number,
            step,
            offset,
            label,
            text,
        });
    }

    fn step(&mut self, step: &Step<'_>) {
        let decision = step.decision.as_ref();
        self.value("thought", decision.and_then(|decision| decision.rationale));
        self.value("reply", step.text);
        self.value("answer", decision.and_then(|decision| decision.answer));
        for call in step.calls.iter() {
            let label = labelled("call", call.name.as_deref());
            self.value(&label, call.args.or(Some(call.value)));
        }
        for result in step.results.iter() {
            let label = labelled("result", result.tool.as_deref());
            self.value(&label, result.output);
            self.value(&labelled("error", result.tool.as_deref()), result.error);
        }
        for critic in step.critics.iter() {
            self.value("critic", critic.reason);
        }
        self.value("error", step.error);
    }

    /// Passes on all strings in a value.
    fn value(&mut self, label: &str, value: Option<Value<'_>>) {
        if let Some(value) = value {
            self.json(label, &value.json());
        }
    }

    fn json(&mut self, label: &str, json: &Json<'_>) {
        match json {
            Json::String(text) => self.text(label, text),
            Json::Array(items) => items.iter().for_each(|item| self.json(label, item)),
            Json::Object(members) => members
                .iter()
                .for_each(|(_, value)| self.json(label, value)),
            _ => {}
        }
    }
}

/// Names a text of a tool.
fn labelled(what: &str, tool: Option<&str>) -> String {
    match tool {
        None | Some("") => what.to_owned(),
        Some(tool) => format!("{what} {}", clipped(tool, MAX_NAME_CHARS)),
    }
}
