//! Shows a session from top to bottom: prompts in full, replies as Markdown, each tool call as one
//! line that opens, and an outline of the prompts.
//!
//! A page holds a part of the steps, however long the run. `transcript.js` requests the part around
//! the visible steps when they scroll into view; without scripts, links lead to the next part.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Weak};

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::search::{LineMatch, Needle};
use crate::analysis::summary::Summary;
use crate::analysis::timing::{began, took};
use crate::analysis::turn_end::TurnEnd;
use crate::analysis::turns::{Turn, cost_words, prompts, turn_steps};
use crate::live::{HitSink, Run, search};
use crate::model::TraceFile;
use crate::model::json::Json;
use crate::model::telling::said_line;
use crate::page::part::attachment::{self, Attachment};
use crate::page::part::fold::{Fold, Folded, ValueLinks};
use crate::page::part::href;
use crate::page::part::json_tree::find;
use crate::page::part::sign::{Link, Phrase, Sign, escape};
use crate::page::part::text::{self, Line, one_line};
use crate::page::part::tool::ToolLine;
use crate::page::run::pending::PendingSlot;
use crate::page::run::steps::Window;
use crate::page::run_view::{RunView, micros};
use crate::page::step::fill::{StepPlace, card, started_by, step_brief};
use crate::page::step::messages::{
    Prompted, UserCommand, answered_prompt, compaction_in_words, compactions_before,
    interruption_before, line_of_prompt, model_change, pictures_in, prompt_line, prompts_or_task,
    system_before, user_commands_before,
};
use crate::page::step::{Asset, StepError};

/// A part ends after this many elements of markup, or this many steps.
const MAX_ELEMENTS: usize = 630;
const MAX_STEPS: usize = 120;
/// The assumed height of a step.
const LINES_PER_STEP: usize = 5;
/// The outline has no costs if its turns have more steps, because it's built for each page and update,
/// and the price of each step is looked up.
const MAX_PRICED_STEPS: usize = 4_000;
/// Maximum number of prompts shown before one step.
const MAX_PROMPTS: usize = 20;
/// System messages shown before one step, at most: as many as a reader keeps of a sample.
const MAX_SYSTEM: usize = 50;
/// The characters that are shown of a command that the user ran, and of its output on one line.
const MAX_COMMAND_CHARS: usize = 200;
/// The hits of a search are counted if it finds at most this many steps. Each is rendered for that.
const MAX_COUNTED: usize = 200;
/// Maximum number of places that are marked without a script.
const MAX_MARKS: usize = 60;
/// Maximum number of steps found by a search.
const MAX_FOUND: usize = 2_000;
/// Prompts that the outline lists with their facts, around the current one.
const OUTLINE: usize = 30;
/// Prompts before and after these that it lists by their first line, on each side.
const BRIEF: usize = 35;
/// The other prompts are linked in groups of at least this many.
const GROUP: usize = 30;
/// Maximum number of groups on each side. In longer runs, they are larger.
const GROUPS: usize = 20;

/// Which steps a part shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Those from this step on.
    From(usize),
    /// Those before this step.
    Before(usize),
    /// Those on both sides of this step.
    Around(usize),
}

/// The steps that contain a text.
#[derive(Debug, Default)]
pub(crate) struct Find {
    text: String,
    /// The steps, in order.
    steps: Vec<usize>,
    /// How often each of these steps shows the text. Empty if there are too many steps to count.
    hits: Vec<usize>,
    /// The number of other steps whose records have the text where the transcript doesn't show it.
    hidden: usize,
    /// Why the text can't be searched for, or what wasn't searched. Empty if all was.
    note: String,
}

impl Find {
    /// Searches the run for a text. An empty text finds nothing. The search ends when `request` is
    /// dropped, because the result is then unused.
    pub(crate) fn new(run: &Run, view: &RunView<'_>, text: &str, request: &Weak<()>) -> Self {
        let mut find = Self {
            text: text.to_owned(),
            ..Self::default()
        };
        if text.is_empty() {
            return find;
        }
        let needle = match Needle::new(text) {
            Ok(needle) => needle,
            Err(why) => {
                find.note = why;
                return find;
            }
        };
        let mut found = FoundSteps {
            view,
            request,
            steps: BTreeSet::new(),
            left_out: 0,
        };
        let mut index = || run.index();
        search(run.dir(), &needle, &mut index, &mut found);
        if found.left_out > 0 {
            find.note = format!("{} not searched", format::counted(found.left_out, "part"));
        }
        find.steps = found.steps.into_iter().collect();
        if find.steps.len() <= MAX_COUNTED {
            let mut writer = Writer::new(view, text);
            for n in &find.steps {
                if request.strong_count() == 0 {
                    break;
                }
                writer.fold = Fold::brief(ValueLinks::default()).finding(text);
                find.hits
                    .push(writer.block(*n).map_or(0, |block| block.hits(text)));
            }
            if find.hits.len() == find.steps.len() {
                find.leave_out_hidden();
            }
        }
        find
    }

    /// Removes the steps that don't show the text.
    fn leave_out_hidden(&mut self) {
        let shown = |(step, hits): (usize, usize)| (hits > 0).then_some((step, hits));
        let all = std::mem::take(&mut self.steps).into_iter();
        let hits = std::mem::take(&mut self.hits);
        let found = all.len();
        (self.steps, self.hits) = all.zip(hits).filter_map(shown).unzip();
        self.hidden = found - self.steps.len();
    }

    /// Returns the first step found.
    pub(crate) fn first(&self) -> Option<usize> {
        self.steps.first().copied()
    }

    /// Returns the numbers of hits and of steps found, or the reason if there aren't any.
    fn words(&self) -> String {
        if self.text.is_empty() {
            return String::new();
        }
        let hits: usize = self.hits.iter().sum();
        let steps = format::counted(self.steps.len(), "step");
        let mut all = match self.steps.len() {
            0 if self.hidden == 0 && self.note.is_empty() => vec!["no matches".to_owned()],
            0 => Vec::new(),
            MAX_FOUND.. => vec![format!(
                "more than {} steps",
                format::count(MAX_FOUND as u64 - 1)
            )],
            _ if hits > 0 => vec![format!("{} in {steps}", format::counted(hits, "match"))],
            _ => vec![steps],
        };
        if self.hidden > 0 {
            let word = if all.is_empty() { "only" } else { "also" };
            let records = if self.hidden == 1 {
                "record"
            } else {
                "records"
            };
            let steps = format::counted(self.hidden, "step");
            all.push(format!("{word} in the {records} of {steps}"));
        }
        all.extend(Some(self.note.clone()).filter(|note| !note.is_empty()));
        all.join(", ")
    }

    /// Returns the steps and their hits as the script reads them.
    fn lists(&self) -> [String; 2] {
        [&self.steps, &self.hits].map(|numbers| {
            let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
            numbers.join(" ")
        })
    }

    fn at(&self, key: &str, n: usize) -> String {
        let query = [
            ("tab", "transcript"),
            ("find", &*self.text),
            ("step", &n.to_string()),
        ];
        format!("{}#t{n}", href::with_query(&href::run(key), &query))
    }
}

/// Collects the steps of lines that contain a text.
struct FoundSteps<'a> {
    view: &'a RunView<'a>,
    request: &'a Weak<()>,
    steps: BTreeSet<usize>,
    left_out: usize,
}

impl HitSink for FoundSteps<'_> {
    fn read(&mut self, _: u64) -> bool {
        self.request.strong_count() > 0
    }

    fn found(&mut self, found: LineMatch) -> bool {
        // Names of fields aren't part of what is read.
        if found.line.hits.iter().all(|hit| hit.in_key) {
            return true;
        }
        let index = self.view.index;
        // A prompt is shown above the step that follows it.
        let after = |event: usize| {
            index
                .step_after(event)
                .or(index.steps().len().checked_sub(1))
        };
        let step = found.place.step.or_else(|| after(found.place.event?));
        self.steps.extend(step);
        self.steps.len() < MAX_FOUND
    }

    fn left_out(&mut self, _: TraceFile, _: String) {
        self.left_out += 1;
    }
}

/// The number of steps that contain a text, with links to the previous and the next one
/// (`#finds`).
#[derive(Template)]
#[template(path = "run/transcript_found.html")]
pub(crate) struct Found<'a> {
    key: &'a str,
    find: &'a Find,
    /// The first step on the page.
    first: usize,
}

impl HtmlSafe for Found<'_> {}

impl<'a> Found<'a> {
    /// Returns the result of a search for a page whose steps begin at `first`.
    pub(crate) fn new(view: &'a RunView<'a>, find: &'a Find, first: usize) -> Self {
        Self {
            key: view.key(),
            find,
            first,
        }
    }

    /// Returns the addresses of the previous and the next step found. They wrap around at the ends.
    fn hits(&self) -> Option<(String, String)> {
        let steps = &self.find.steps;
        let before = steps.iter().rev().find(|n| **n < self.first);
        let after = steps.iter().find(|n| **n > self.first);
        let at = |n: Option<&usize>| Some(self.find.at(self.key, *n?));
        at(before.or(steps.last())).zip(at(after.or(steps.first())))
    }
}

/// The transcript of a run, with the outline of its prompts.
#[derive(Template)]
#[template(path = "run/transcript.html")]
pub(crate) struct Transcript<'a> {
    view: &'a RunView<'a>,
    outline: Outline,
    part: TranscriptPart<'a>,
    find: Find,
    /// Whether the run may still write.
    is_live: bool,
}

impl HtmlSafe for Transcript<'_> {}

/// Other steps of the transcript, for a page that has it open.
#[derive(Template)]
#[template(path = "run/transcript_other.html")]
pub(crate) struct OtherPart<'a> {
    outline: Outline,
    part: TranscriptPart<'a>,
}

impl<'a> OtherPart<'a> {
    /// Shows the steps at `place`, and where they contain the text `find`.
    pub(crate) fn new(view: &'a RunView<'a>, place: Place, find: &str) -> Self {
        let part = TranscriptPart::new(view, place, find);
        Self {
            outline: Outline::new(view, part.at(place)),
            part,
        }
    }
}

/// The prompts of a run (`#outline`).
#[derive(Template)]
#[template(path = "run/transcript_outline.html")]
pub(crate) struct Outline {
    /// The number of steps.
    steps: usize,
    /// The number of prompts.
    count: Line,
    rows: Vec<OutlineRow>,
    /// Links to the groups of prompts before and after those listed.
    earlier: Vec<Link>,
    later: Vec<Link>,
}

impl HtmlSafe for Outline {}

/// A prompt in the outline.
struct OutlineRow {
    /// The first step of the turn.
    step: usize,
    href: String,
    /// The beginning of the prompt.
    words: Phrase,
    /// Time of day, steps, duration and tokens. Empty if the prompt is far from the current one.
    facts: Line,
    /// How the turn ended, if not with an answer, and whether that's an error.
    ended: Line,
    is_error: bool,
    /// The number of failed steps. Empty if none failed.
    failed: Line,
    /// The number of cancelled steps. Empty if none was cancelled.
    cancelled: Line,
    is_current: bool,
}

/// Some steps of a transcript (`#transcript`).
#[derive(Template)]
#[template(path = "run/transcript_part.html")]
pub(crate) struct TranscriptPart<'a> {
    view: &'a RunView<'a>,
    /// The steps shown.
    steps: Range<usize>,
    /// The markup of each step.
    blocks: VecDeque<Block>,
    /// What comes after the last step, if that is shown.
    rest: Option<Rest>,
}

impl HtmlSafe for TranscriptPart<'_> {}

/// The prompts after the last step of a run, the interruption before them or what is left out of
/// them, and how the run ended.
#[derive(Template)]
#[template(path = "run/transcript_rest.html")]
pub(crate) struct Rest {
    dividers: Vec<Line>,
    prompts: Vec<Said>,
    /// Compactions after the prompts.
    compactions: Vec<Line>,
    /// The verdict. Empty while the run is alive.
    end: Line,
    is_error: bool,
}

impl HtmlSafe for Rest {}

/// The markup of a step, with what came before it.
struct Block(String);

impl std::fmt::Display for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Block {}

impl Block {
    /// Returns the number of elements. Texts are escaped, so each `<` begins or ends an element.
    fn elements(&self) -> usize {
        let bytes = self.0.as_bytes();
        memchr::memchr_iter(b'<', bytes)
            .filter(|at| bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic))
            .count()
    }

    /// Counts how often a text occurs, as `found.js` does: within one element, and not in the line of a
    /// part that opens if it's also in the part.
    fn hits(&self, text: &str) -> usize {
        let text = text.to_lowercase();
        // The hits in the line and in the rest of each open part, the outermost first.
        let mut parts = vec![(0, 0)];
        let mut is_line = false;
        for piece in self.0.split('<') {
            let (tag, words) = piece.split_once('>').unwrap_or(("", piece));
            let mut hits = unescaped(words).to_lowercase().matches(&text).count();
            match tag.split(' ').next().unwrap_or_default() {
                "details" => parts.push((0, 0)),
                "summary" => is_line = true,
                "/summary" => is_line = false,
                "/details" if parts.len() > 1 => {
                    let (line, rest) = parts.pop().unwrap_or_default();
                    hits += if rest > 0 { rest } else { line };
                }
                _ => {}
            }
            match parts.last_mut() {
                Some((line, _)) if is_line => *line += hits,
                Some((_, rest)) => *rest += hits,
                None => {}
            }
        }
        parts.iter().map(|(line, rest)| line + rest).sum()
    }

    /// Opens the parts that contain a text, and marks up to `most` places of it. Scripts do that, too.
    fn showing(self, text: &str, most: &mut usize) -> Self {
        let lower = text.to_lowercase();
        let mut needle = String::new();
        escape(&text.to_ascii_lowercase(), &mut needle);
        let pieces: Vec<&str> = self.0.split('<').collect();
        // The open parts, and whether their line is open, too.
        let mut parts: Vec<(usize, bool)> = Vec::new();
        let mut opened: BTreeSet<usize> = BTreeSet::new();
        for (at, piece) in pieces.iter().enumerate() {
            let (tag, words) = piece.split_once('>').unwrap_or(("", piece));
            match tag.split(' ').next().unwrap_or_default() {
                "details" => parts.push((at, false)),
                "/details" => drop(parts.pop()),
                name @ ("summary" | "/summary") => {
                    if let Some((_, is_line)) = parts.last_mut() {
                        *is_line = name == "summary";
                    }
                }
                _ => {}
            }
            if unescaped(words).to_lowercase().contains(&lower) {
                let open = parts.iter().filter(|(_, is_line)| !is_line);
                opened.extend(open.map(|(at, _)| *at));
            }
        }
        let mut markup = String::with_capacity(self.0.len());
        for (at, piece) in pieces.iter().enumerate() {
            let (tag, words) = match piece.split_once('>') {
                Some((tag, words)) if at > 0 => (Some(tag), words),
                _ => (None, *piece),
            };
            if let Some(tag) = tag {
                let is_opened = opened.contains(&at) && !tag.ends_with(" open");
                let open = if is_opened { " open" } else { "" };
                markup.push_str(&format!("<{tag}{open}>"));
            }
            mark_in(words, &needle, most, &mut markup);
        }
        Self(markup)
    }
}

/// Writes escaped words and marks up to `most` places of `needle`, which is escaped and in lower case.
fn mark_in(words: &str, needle: &str, most: &mut usize, out: &mut String) {
    let lower = words.to_ascii_lowercase();
    let mut done = 0;
    for (place, _) in lower.match_indices(needle) {
        let before = words.get(done..place).unwrap_or_default();
        // A number may be part of an escaped letter.
        let is_letter = before.rfind('&') > before.rfind(';');
        let Some(found) = words.get(place..place + needle.len()) else {
            continue;
        };
        if is_letter || *most == 0 {
            continue;
        }
        *most -= 1;
        out.push_str(&format!("{before}<mark>{found}</mark>"));
        done = place + needle.len();
    }
    out.push_str(words.get(done..).unwrap_or_default());
}

/// Returns the text of markup without elements.
fn unescaped(markup: &str) -> String {
    let mut text = markup.to_owned();
    for (escaped, letter) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#60;", "<"),
        ("&#62;", ">"),
        ("&#38;", "&"),
        ("&amp;", "&"),
    ] {
        if text.contains(escaped) {
            text = text.replace(escaped, letter);
        }
    }
    text
}

/// A prompt of the user, or a shell command that they ran.
struct Said {
    text: Folded,
    pictures: Vec<Attachment>,
    command: Option<Ran>,
    /// The time of day, and the full time.
    time: Line,
    exact: Line,
    /// The address of the turn as Markdown, if the prompt begins one.
    markdown: Option<String>,
}

/// A shell command that the user ran.
struct Ran {
    command: Line,
    /// The line of the output that tells most.
    preview: Line,
    output: Option<Folded>,
    /// Why there is no output.
    nothing: Phrase,
    /// The exit code, unless it's 0 or unknown.
    failed: Option<i64>,
}

/// The first line of a system message, and the message, or a link to the record if it's too long.
type SystemText = (Line, Result<Folded, Phrase>);

/// A step of a transcript (`#t{n}`).
#[derive(Template)]
#[template(path = "run/transcript_step.html")]
struct TranscriptStep {
    n: usize,
    /// `5`, with the recorded id.
    label: Line,
    /// The address of the step in the Steps tab, and the one in the transcript, which is empty in a
    /// file.
    href: String,
    place: String,
    /// The sub-agent that made the step. Empty if the run's own agent did.
    helper: Line,
    /// The time of day.
    time: Line,
    /// The duration, if it's at least a second.
    took: Line,
    /// The system messages before the step, each folded below its first line.
    system: Vec<SystemText>,
    /// The prompts before the step, and the compactions after them.
    prompts: Vec<Said>,
    compactions: Vec<Line>,
    /// Compactions and interruptions before the step, and the start of another run in the directory.
    dividers: Vec<Line>,
    unreadable: Option<Phrase>,
    thought: Option<Folded>,
    /// The first line of the thought.
    thought_line: Line,
    reply: Option<Folded>,
    tools: Vec<ToolLine>,
    more_tools: Line,
    /// The pictures that the step records, and how many are left out. A saved file has them next to
    /// the steps.
    assets: Vec<Asset>,
    more_assets: Line,
    answer: Option<Folded>,
    error: Option<StepError>,
    /// What the decision was, if the step has nothing else to show.
    otherwise: Option<Phrase>,
    /// What critics requested.
    notes: Vec<Sign>,
    /// The child runs that the step started, without those shown below their calls.
    started: Vec<Phrase>,
}

impl HtmlSafe for TranscriptStep {}

impl<'a> Transcript<'a> {
    /// Shows the steps at `place`.
    pub(crate) fn new(view: &'a RunView<'a>, place: Place, find: Find) -> Self {
        let part = TranscriptPart::new(view, place, &find.text);
        Self {
            view,
            outline: Outline::new(view, part.at(place)),
            part,
            find,
            is_live: view.is_alive(),
        }
    }

    /// Returns the steps on the page.
    pub(crate) fn held(&self) -> Window {
        self.part.held()
    }

    fn pending(&self) -> PendingSlot<'a> {
        PendingSlot { view: self.view }
    }

    fn found(&self) -> Found<'_> {
        Found::new(self.view, &self.find, self.part.steps.start)
    }

    fn markdown(&self) -> String {
        format!("{}/transcript.md", href::run(self.view.key()))
    }
}

impl Outline {
    /// Lists the prompts around step `at`.
    pub(crate) fn new(view: &RunView<'_>, at: usize) -> Self {
        let turns = turn_steps(view.index);
        let current = turns
            .partition_point(|turn| turn.start <= at)
            .saturating_sub(1);
        let end = (current + OUTLINE / 2).max(OUTLINE).min(turns.len());
        let near = end.saturating_sub(OUTLINE)..end;
        let listed = near.start.saturating_sub(BRIEF)..(end + BRIEF).min(turns.len());
        let near_turns = turns.get(near.clone()).unwrap_or_default();
        let has_costs = near_turns.iter().map(Range::len).sum::<usize>() <= MAX_PRICED_STEPS;
        // Estimates of steps don't add up to a recorded cost of the run.
        let is_recorded = view.summary.cost_usd.is_some() || view.summary.cost_by_run_usd.is_some();
        let prices = view.summary.prices.as_deref().filter(|_| !is_recorded);
        // A prompt without a reply begins no turn. If the run has no steps, its task is that prompt.
        let steps = view.index.steps().len();
        let last = prompts_or_task(view, steps, MAX_PROMPTS);
        let row = |(k, turn): (usize, &Range<usize>)| {
            let is_last = k + 1 == turns.len() && last.is_empty();
            let facts = near
                .contains(&k)
                .then(|| Turn::new(view.index, turn.clone()));
            let cost = match facts.is_some() && has_costs {
                true => cost_words(view.index, turn.clone(), prices),
                false => String::new(),
            };
            let is_current = k == current;
            let row = OutlineRow::new(view, turn.start, facts.as_ref(), cost, is_last, is_current);
            let others = match facts {
                Some(_) => unanswered_before(view, turn.start),
                None => Vec::new(),
            };
            let others = others.into_iter().map(|prompt| {
                let href = at_step(view.key(), turn.start);
                OutlineRow::unanswered(view, turn.start, href, &prompt)
            });
            others.chain([row]).collect::<Vec<_>>()
        };
        let rows = turns.iter().enumerate();
        let rows = rows.skip(listed.start).take(listed.len());
        let mut rows: Vec<OutlineRow> = rows.flat_map(row).collect();
        let all = match listed.len() == turns.len() && near.len() == turns.len() {
            true => rows.len(),
            // Those without an answer are read only near the current prompt.
            false => prompts(view.index).len().max(turns.len()),
        } + last.len();
        if listed.end == turns.len() {
            let until = last.len();
            rows.extend(last.iter().enumerate().map(|(at, prompt)| {
                let mut row = OutlineRow::unanswered(view, steps, at_end(view, steps), prompt);
                if at + 1 == until {
                    (row.ended, row.is_error) = ended_as_run(view);
                }
                row.is_current = steps == 0 && at == 0;
                row
            }));
        }
        Self {
            steps,
            count: format::counted(all, "prompt").into(),
            rows,
            earlier: groups(view.key(), &turns, 0..listed.start),
            later: groups(view.key(), &turns, listed.end..turns.len()),
        }
    }
}

/// Links to groups of the turns in `range`: `Prompts 1–30`.
fn groups(key: &str, turns: &[Range<usize>], range: Range<usize>) -> Vec<Link> {
    let size = range.len().div_ceil(GROUPS).max(GROUP);
    let links = range.clone().step_by(size).filter_map(|first| {
        let last = (first + size).min(range.end);
        let numbers = format::range(first as u64 + 1, last as u64);
        let words = if first + 1 == last {
            "Prompt"
        } else {
            "Prompts"
        };
        let to = at_step(key, turns.get(first)?.start);
        Some(Link::new(format!("{words} {numbers}"), to))
    });
    links.collect()
}

impl OutlineRow {
    /// Describes a prompt before `step` without an answer. `href` is its address.
    fn unanswered(view: &RunView<'_>, step: usize, href: String, prompt: &Prompted) -> Self {
        let facts = match prompt.ts {
            Some(ts) => format!("{} · no steps", short_time(view, ts)),
            None => "No steps".to_owned(),
        };
        Self {
            step,
            href,
            words: Phrase::coded(line_of_prompt(prompt).as_str()),
            facts: facts.into(),
            ended: Line::default(),
            is_error: false,
            failed: Line::default(),
            cancelled: Line::default(),
            is_current: false,
        }
    }

    /// Describes the turn that begins with `step`: its prompt, and the facts of `turn` if given, with
    /// its cost in words. The run ended with the turn if it `is_last`.
    fn new(
        view: &RunView<'_>,
        step: usize,
        turn: Option<&Turn>,
        cost: String,
        is_last: bool,
        is_current: bool,
    ) -> Self {
        let prompt = answered_prompt(view, step);
        let words = prompt.as_ref().map(line_of_prompt);
        let row = Self {
            step,
            href: at_step(view.key(), step),
            words: match words {
                // Far from the current prompt, a row has as few elements as possible.
                Some(words) if turn.is_some() => Phrase::coded(words.as_str()),
                Some(words) => Phrase::from(words.as_str()),
                None => Phrase::from("No prompt recorded"),
            },
            facts: Line::default(),
            ended: Line::default(),
            is_error: false,
            failed: Line::default(),
            cancelled: Line::default(),
            is_current,
        };
        let Some(turn) = turn else { return row };
        let (ended, is_error) = ended(view, turn.first..turn.end, is_last);
        let mut facts: Vec<String> = Vec::new();
        let asked = prompt.and_then(|prompt| prompt.ts).or(turn.started);
        facts.extend(asked.map(|ts| short_time(view, ts)));
        facts.push(format::counted(turn.end - turn.first, "step"));
        facts.extend(turn.took.filter(|took| *took > 0).map(micros));
        let mark = format::bound(false, turn.tokens_estimated);
        facts.extend(
            turn.tokens
                .filter(|tokens| *tokens > 0)
                .map(|tokens| format!("{mark}{} tokens", format::tokens(tokens))),
        );
        facts.extend(Some(cost).filter(|cost| !cost.is_empty()));
        let counted = |count: usize, word: &str| match count {
            0 => Line::default(),
            count => format!("{} {word}", format::count(count as u64)).into(),
        };
        let ended_words = ended.as_str().to_owned();
        Self {
            facts: facts.join(" · ").into(),
            ended,
            is_error,
            failed: counted(turn.failed, "failed"),
            // The end says it already.
            cancelled: match turn.cancelled {
                1 if !is_error && !ended_words.is_empty() => Line::default(),
                cancelled => counted(cancelled, "cancelled"),
            },
            ..row
        }
    }
}

/// Returns the prompts before step `n` but the one that it answers.
fn unanswered_before(view: &RunView<'_>, n: usize) -> Vec<Prompted> {
    let answered = answered_prompt(view, n).and_then(|prompt| prompt.event);
    let mut prompts = prompts_or_task(view, n, MAX_PROMPTS);
    match prompts.iter().position(|prompt| prompt.event == answered) {
        Some(at) => prompts.truncate(at),
        None => prompts.clear(),
    }
    prompts
}

/// Returns the address of what follows the last of `steps` steps.
fn at_end(view: &RunView<'_>, steps: usize) -> String {
    match steps.checked_sub(1) {
        Some(last) => at_step(view.key(), last),
        None => href::with_query(&href::run(view.key()), &[("tab", "transcript")]),
    }
}

/// Says how a turn ended, if not with an answer, and whether that's an error.
fn ended(view: &RunView<'_>, turn: Range<usize>, is_last: bool) -> (Line, bool) {
    let is_interrupted = interruption_before(view, turn.end).is_some();
    let end = match is_last && !is_interrupted {
        true => TurnEnd::Run(view.summary.shown_status()),
        false => TurnEnd::of(view.index, turn, is_interrupted),
    };
    (end.words().into(), end.is_error())
}

/// Says the same of the run.
fn ended_as_run(view: &RunView<'_>) -> (Line, bool) {
    let end = TurnEnd::Run(view.summary.shown_status());
    (end.words().into(), end.is_error())
}

/// Formats the time of day without seconds.
fn short_time(view: &RunView<'_>, ts: i64) -> String {
    let time = view.time_of_day(ts);
    time.get(..5).unwrap_or(&time).to_owned()
}

/// Returns the address of the transcript at step `n`.
fn at_step(key: &str, n: usize) -> String {
    let query = [("tab", "transcript"), ("step", &n.to_string())];
    format!("{}#t{n}", href::with_query(&href::run(key), &query))
}

impl<'a> TranscriptPart<'a> {
    /// Shows as many steps at `place` as fit on a page, and where they contain the text `find`.
    pub(crate) fn new(view: &'a RunView<'a>, place: Place, find: &str) -> Self {
        let total = view.index.steps().len();
        let mut writer = Writer::new(view, find);
        let (steps, blocks) = match place {
            Place::From(n) => {
                let n = n.min(total.saturating_sub(1));
                writer.write(n..n, n..total)
            }
            Place::Before(n) => {
                let n = n.clamp(total.min(1), total);
                writer.write(0..n, n..n)
            }
            Place::Around(n) => {
                let n = n.min(total.saturating_sub(1));
                writer.write(0..n, n..total)
            }
        };
        let mut most = MAX_MARKS;
        let show = |block: Block| match find.is_empty() {
            true => block,
            false => block.showing(find, &mut most),
        };
        Self {
            view,
            rest: (steps.end == total).then(|| writer.rest()),
            steps,
            blocks: blocks.into_iter().map(show).collect(),
        }
    }

    /// Returns the steps shown.
    pub(crate) fn held(&self) -> Window {
        Window {
            first: self.steps.start,
            end: self.steps.end,
        }
    }

    /// Returns the step that the outline marks.
    fn at(&self, place: Place) -> usize {
        match place {
            Place::Around(n) => n,
            Place::Before(_) => self.steps.end.saturating_sub(1),
            Place::From(_) => self.steps.start,
        }
    }

    fn total(&self) -> usize {
        self.view.index.steps().len()
    }

    fn above(&self) -> usize {
        self.steps.start
    }

    fn below(&self) -> usize {
        self.total() - self.steps.end
    }

    /// Returns the assumed height of steps that aren't on the page, in lines. `transcript.js` measures
    /// the steps that are.
    fn gap(&self, steps: usize) -> usize {
        steps * LINES_PER_STEP
    }

    fn earlier(&self) -> String {
        format::counted(self.above(), "earlier step")
    }

    fn later(&self) -> String {
        format::counted(self.below(), "later step")
    }

    fn before(&self) -> String {
        let query = [
            ("tab", "transcript"),
            ("before", &self.steps.start.to_string()),
        ];
        href::with_query(&href::run(self.view.key()), &query)
    }

    fn after(&self) -> String {
        at_step(self.view.key(), self.steps.end)
    }
}

/// The transcript in a saved file, which has all steps.
pub(crate) struct SavedTranscript<'a>(Writer<'a>);

impl<'a> SavedTranscript<'a> {
    pub(crate) fn new(view: &'a RunView<'a>) -> Self {
        Self(Writer {
            is_saved: true,
            ..Writer::new(view, "")
        })
    }

    /// Returns the first step of each turn in `steps`, and the beginning of its prompt.
    pub(crate) fn turns(&self, steps: &Range<usize>) -> Vec<(usize, Line)> {
        let turns = self.0.turns.iter();
        let turns = turns.filter(|turn| steps.contains(&turn.start));
        let row = |turn: &Range<usize>| Some((turn.start, prompt_line(self.0.view, turn.start)?));
        turns.filter_map(row).collect()
    }

    /// Returns the markup of step `n`.
    pub(crate) fn step(&mut self, n: usize) -> Option<String> {
        self.0.block(n).map(|block| block.0)
    }

    /// Returns the prompts after the last step.
    pub(crate) fn rest(&mut self) -> Rest {
        self.0.rest()
    }
}

/// Writes the markup of steps until the page is full.
struct Writer<'a> {
    view: &'a RunView<'a>,
    fold: Fold,
    project: &'a str,
    /// The steps of each turn.
    turns: Vec<Range<usize>>,
    laps: &'a [usize],
    children: Vec<(Arc<Summary>, Option<usize>)>,
    /// Whether the markup is for a file, without links to board.
    is_saved: bool,
}

impl<'a> Writer<'a> {
    fn new(view: &'a RunView<'a>, find: &str) -> Self {
        Self {
            view,
            fold: Fold::brief(ValueLinks::default()).finding(find),
            project: view.summary.project.as_deref().unwrap_or_default(),
            turns: turn_steps(view.index),
            laps: Some(view.index.lap_starts())
                .filter(|laps| laps.len() > 1)
                .unwrap_or_default(),
            children: view.children(),
            is_saved: false,
        }
    }

    /// Returns what comes after the last step of the run.
    fn rest(&mut self) -> Rest {
        let total = self.view.index.steps().len();
        // The task of a run without steps is its prompt.
        let (prompts, more, last) = self.all_said(total);
        let (compactions, compactions_later) = self.compactions(total, last);
        let dividers = interruption_before(self.view, total)
            .into_iter()
            .chain(compactions);
        let dividers = dividers.chain(more.into_iter().map(str::to_owned));
        let end = match self.view.is_alive() {
            true => String::new(),
            false => self.view.summary.verdict.head().to_owned(),
        };
        Rest {
            dividers: dividers.map(Line::from).collect(),
            prompts,
            compactions: compactions_later,
            end: end.into(),
            is_error: TurnEnd::Run(self.view.summary.shown_status()).is_error(),
        }
    }

    /// Writes the steps of `after`, and those of `before` from its end, until the page is full. Half
    /// of the page is for each.
    fn write(
        &mut self,
        before: Range<usize>,
        after: Range<usize>,
    ) -> (Range<usize>, VecDeque<Block>) {
        let (mut first, mut end) = (before.end, after.start);
        let mut blocks = VecDeque::new();
        let mut elements = 0;
        let is_half = !before.is_empty() && !after.is_empty();
        let most = |half: usize| if is_half { half } else { 2 * half };
        for n in after {
            let Some(block) = self.block(n) else { break };
            let more = elements + block.elements();
            // The first step is shown even if it exceeds the limit.
            if !blocks.is_empty()
                && (more > most(MAX_ELEMENTS / 2) || blocks.len() >= most(MAX_STEPS / 2))
            {
                break;
            }
            elements = more;
            blocks.push_back(block);
            end = n + 1;
        }
        for n in before.rev() {
            let Some(block) = self.block(n) else { break };
            elements += block.elements();
            if !blocks.is_empty() && (elements > MAX_ELEMENTS || blocks.len() >= MAX_STEPS) {
                break;
            }
            blocks.push_front(block);
            first = n;
        }
        (first..end, blocks)
    }

    /// Formats what the user wrote and ran before step `n`, in order. Also returns notes about what
    /// is left out, and the event of the last prompt.
    fn all_said(&mut self, n: usize) -> (Vec<Said>, Vec<&'static str>, Option<usize>) {
        let mut asked = prompts_or_task(self.view, n, MAX_PROMPTS + 1);
        let mut ran = user_commands_before(self.view, n, MAX_PROMPTS + 1);
        let more = [
            (asked.len(), "More prompts are in the events"),
            (ran.len(), "More of the user's commands are in the events"),
        ];
        let more = more.into_iter().filter(|(count, _)| *count > MAX_PROMPTS);
        let more = more.map(|(_, note)| note).collect();
        asked.truncate(MAX_PROMPTS);
        ran.truncate(MAX_PROMPTS);
        let last = asked.last().and_then(|prompt| prompt.event);
        let mut ran = ran.into_iter().peekable();
        let mut said = Vec::new();
        for prompt in &asked {
            let is_earlier = |ran: &UserCommand| Some(ran.event) < prompt.event;
            while let Some(ran) = ran.next_if(is_earlier) {
                said.push(self.ran(&ran));
            }
            said.push(self.said(prompt));
        }
        said.extend(ran.map(|ran| self.ran(&ran)));
        (said, more, last)
    }

    /// Formats the compactions before step `n`: those before the last prompt, which is event `last`,
    /// and those after it.
    fn compactions(&self, n: usize, last: Option<usize>) -> (Vec<String>, Vec<Line>) {
        let (later, earlier): (Vec<_>, Vec<_>) = compactions_before(self.view, n)
            .partition(|one| last.is_some_and(|last| one.event > last));
        let words = |one| format::capitalised(&compaction_in_words(self.view.index, one));
        (
            earlier.into_iter().map(words).collect(),
            later.into_iter().map(words).map(Line::from).collect(),
        )
    }

    /// Formats the system messages before step `n`. Also returns whether some are left out.
    fn system(&mut self, n: usize) -> (Vec<SystemText>, bool) {
        let mut messages = system_before(self.view, n, MAX_SYSTEM + 1);
        let has_more = messages.len() > MAX_SYSTEM;
        messages.truncate(MAX_SYSTEM);
        let shown = messages.into_iter().map(|message| {
            let Some(words) = message.words else {
                let record = self.view.at_event(message.event);
                let link = Phrase::new().link("Show the record", &record);
                return ("Too long to show here".into(), Err(link));
            };
            let links = ValueLinks::below(&href::event(self.view.key(), message.event));
            let own = self.fold.elsewhere(links);
            let text = self.fold.prose(&words, "");
            self.fold.elsewhere(own);
            (text.first_line(), Ok(text))
        });
        (shown.collect(), has_more)
    }

    fn said(&mut self, prompt: &Prompted) -> Said {
        let href = prompt.event.map(|event| self.view.at_event(event));
        Said {
            pictures: self.pictures(prompt),
            command: None,
            ..self.beginning(&prompt.words, href, prompt.ts)
        }
    }

    fn ran(&mut self, ran: &UserCommand) -> Said {
        let href = self.view.at_event(ran.event);
        let output = ran
            .output
            .as_deref()
            .filter(|output| !output.trim().is_empty());
        let rest = self.view.at_event(ran.output_event);
        let preview = match ran.is_too_long {
            true => Some("Too long to show here".into()),
            false => output.map(said_line),
        };
        let command = Ran {
            command: one_line(&ran.command, MAX_COMMAND_CHARS).0.into(),
            preview: one_line(&preview.unwrap_or_default(), MAX_COMMAND_CHARS)
                .0
                .into(),
            nothing: match ran.output {
                Some(_) => Phrase::new().text("No output"),
                None if ran.is_too_long => Phrase::new().link("Show the record", &rest),
                None => Phrase::new().text("No output recorded"),
            },
            output: output.map(|output| self.fold.printed(output, rest)),
            failed: ran.exit.filter(|exit| *exit != 0),
        };
        Said {
            command: Some(command),
            ..self.beginning("", Some(href), ran.ts)
        }
    }

    fn beginning(&mut self, words: &str, href: Option<String>, ts: Option<i64>) -> Said {
        Said {
            text: self.fold.beginning(words, href),
            pictures: Vec::new(),
            command: None,
            time: ts
                .map(|ts| self.view.time_of_day(ts))
                .unwrap_or_default()
                .into(),
            exact: ts.map(|ts| self.view.exact(ts)).unwrap_or_default().into(),
            markdown: None,
        }
    }

    /// Reads the pictures of a prompt.
    fn pictures(&mut self, prompt: &Prompted) -> Vec<Attachment> {
        let (view, Some(at)) = (self.view, prompt.event) else {
            return Vec::new();
        };
        if !prompt.has_pictures {
            return Vec::new();
        }
        let event = view.index.events().get(at);
        let record = event.and_then(|event| view.lines.record(TraceFile::Events, event.span).ok());
        let Some(json) = record.as_ref().and_then(|record| Json::parse(&record.text)) else {
            return Vec::new();
        };
        let own = self
            .fold
            .elsewhere(ValueLinks::below(&href::event(view.key(), at)));
        let read = |pointer: String| {
            let inside = attachment::of(find(&json, &pointer)?)?;
            Some(Attachment::new(&inside, &pointer, &mut self.fold))
        };
        let pictures = pictures_in(&json).into_iter().filter_map(read).collect();
        self.fold.elsewhere(own);
        pictures
    }

    fn block(&mut self, n: usize) -> Option<Block> {
        let view = self.view;
        let (mut prompts, more, last) = self.all_said(n);
        let turn = self.turns.binary_search_by_key(&n, |turn| turn.start);
        let turn = turn.ok().and_then(|at| self.turns.get(at));
        // Those before the last one got no reply.
        let asked = prompts.iter_mut().rfind(|said| said.command.is_none());
        if let (Some(said), Some(turn)) = (asked, turn.filter(|_| !self.is_saved)) {
            let (from, until) = (turn.start.to_string(), turn.end.to_string());
            let base = format!("{}/transcript.md", href::run(view.key()));
            let query = [("from", &*from), ("until", &*until)];
            said.markdown = Some(href::with_query(&base, &query));
        }
        let step_view = step_brief(view, n, StepPlace::List, &mut self.fold)?;
        let (system, has_more_system) = self.system(n);
        let more_system = has_more_system.then_some("More system messages are in the events");
        let lap = self.laps.iter().position(|start| *start == n);
        let lap = lap.map(|at| {
            let laps = self.laps.len();
            format!("Run {} of {laps} in this directory", at + 1)
        });
        let (compactions, compactions_later) = self.compactions(n, last);
        let dividers = lap
            .into_iter()
            .chain(interruption_before(view, n))
            .chain(compactions)
            .chain(model_change(view, n))
            .chain(more.into_iter().chain(more_system).map(str::to_owned))
            .map(Line::from)
            .collect();
        let label = view.label(n);
        let group = view.index.round_of(n);
        let is_empty = step_view.thought.is_none()
            && step_view.reply.is_none()
            && step_view.wrote.is_none()
            && step_view.actions.is_empty()
            && step_view.assets.is_empty()
            && step_view.error.is_none()
            && step_view.unreadable.is_none();

        let tools = step_view.actions.pairs.into_iter();
        let tool = |pair| ToolLine::new(pair, &label, self.project, view.index.format());
        let mut tools: Vec<ToolLine> = tools.map(tool).collect();
        let mut started = Vec::new();
        for child in started_by(&self.children, n) {
            let task = child.task.as_deref().unwrap_or_default();
            let asked = tools
                .iter_mut()
                .filter_map(|tool| Some((tool.asked(task)?, tool)));
            // Two calls may give the same task.
            match asked.min_by_key(|(len, tool)| (Reverse(*len), tool.started.len())) {
                Some((_, tool)) => tool.started.push(card(child)),
                None => started.push(card(child)),
            }
        }
        let notes = step_view
            .marks
            .into_iter()
            .filter(|mark| matches!(mark.class, "mk retry" | "mk stop" | "mk cut"));
        let (answer, description) = step_view
            .decision
            .map(|decision| (decision.answer, decision.description))
            .unzip();
        let answer = answer.flatten();
        let step = TranscriptStep {
            otherwise: description.filter(|_| is_empty && answer.is_none()),
            n,
            href: view.at_step(n),
            place: match self.is_saved {
                true => String::new(),
                false => at_step(view.key(), n),
            },
            helper: view.helper(n).into(),
            took: group
                .and_then(took)
                .filter(|took| *took >= 1_000_000)
                .map(micros)
                .unwrap_or_default()
                .into(),
            time: group
                .and_then(|group| began(view.index, group))
                .map(|ts| view.time_of_day(ts))
                .unwrap_or_default()
                .into(),
            system,
            prompts,
            dividers,
            compactions: compactions_later,
            unreadable: step_view.unreadable,
            thought_line: step_view
                .thought
                .as_ref()
                .map(Folded::first_line)
                .unwrap_or_default(),
            thought: step_view.thought,
            reply: step_view.reply.or(step_view.wrote),
            tools,
            more_tools: step_view.actions.more,
            assets: match self.is_saved {
                true => Vec::new(),
                false => step_view.assets,
            },
            more_assets: step_view.more_assets,
            answer,
            error: step_view.error,
            notes: notes.collect(),
            started,
            label: label.into(),
        };
        step.render().ok().map(Block)
    }
}
