//! Shows the header of a run and its tabs. The verdict between them is in a separate module.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format::{self, count};
use crate::analysis::lanes::Lanes;
use crate::analysis::summary::Summary;
use crate::model::time::Stamp;
use crate::model::{Can, ManifestState, RunKey, tool_of};
use crate::page::part::fold::{Fold, Folded, ValueLinks};
use crate::page::part::share_form::ShareForm;
use crate::page::part::sign::{Fact, Phrase};
use crate::page::part::{href, text};
use crate::page::run::setup::has_setup;
use crate::page::run_view::{RelatedRun, RunView, micros, name};

/// Maximum number of child runs that are linked. The run table lists all of them: `parent:ID`.
const MAX_CHILDREN: usize = 20;
/// Maximum number of scores that the header lists. The page of the scores has all.
const MAX_SCORES: usize = 4;
/// Longer targets and answers are truncated in the header; characters.
const GRADED_CHARS: usize = 160;
/// How many characters of a Git commit are shown, as `git log --oneline` does.
const COMMIT_CHARS: usize = 7;
/// For longer tasks, the whole text can be opened; characters.
const TASK_CHARS: usize = 200;

/// The header of a run (`#runhead`).
#[derive(Clone, Copy, Template)]
#[template(path = "run/run_head.html")]
pub(crate) struct RunHead<'a> {
    pub view: &'a RunView<'a>,
    /// Whether the facts include the verdict, for pages without the verdict panel.
    pub verdict: bool,
    /// Whether the header offers actions for the run.
    pub acts: bool,
    /// The current step, if the request has one.
    pub step: Option<usize>,
}

impl HtmlSafe for RunHead<'_> {}

impl<'a> RunHead<'a> {
    pub(crate) fn new(view: &'a RunView<'a>) -> Self {
        Self {
            view,
            verdict: false,
            acts: true,
            step: None,
        }
    }

    /// Returns how the run ended, in a few words. `None` if it may continue.
    fn end(&self) -> Option<String> {
        let run = self.view.summary;
        let is_over = !run.partial && run.life.liveness.is_over();
        is_over.then(|| format::visible_line(&run.end_in_brief()).into_owned())
    }

    /// Returns the form that saves the run as a file.
    fn share(&self) -> ShareForm {
        ShareForm::new(self.view, self.step)
    }

    fn replay(&self) -> String {
        let key = self.view.key();
        self.step
            .map_or_else(|| href::replay(key), |n| href::replay_at(key, n))
    }

    /// Returns the command that continues the run once it's over.
    fn resume(&self) -> Option<String> {
        let manifest = self.view.index.manifest().get()?;
        manifest.resume().filter(|_| !self.view.is_alive())
    }

    /// Returns the title, and whether it's only the name of the run's directory or file.
    fn title(&self) -> (text::Line, bool) {
        let summary = self.view.summary;
        let title = summary.title();
        let (words, _) = text::one_line(title, TASK_CHARS);
        (words.into(), title == summary.key.name())
    }

    /// Returns the title with its code.
    fn coded_title(&self) -> Phrase {
        Phrase::coded(self.title().0.as_str())
    }

    fn task(&self) -> &str {
        self.view.summary.task.as_deref().unwrap_or_default()
    }

    /// Returns whether the task contains the title, and whether it's only the title.
    fn repeats_task(&self) -> (bool, bool) {
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        // A tool may write the title on one line.
        let task = one_line(self.task());
        let title = one_line(self.view.summary.title());
        let beginning = title.trim_end_matches('…');
        let has_title = self.view.summary.recorded_title().is_none() || task.starts_with(beginning);
        (has_title, task == title)
    }

    fn whole_task(&self) -> Folded {
        Fold::new(ValueLinks::default())
            .text(self.task(), "")
            .prose()
    }

    /// Returns the project, the tool and the model, which say what kind of run it is: the term, the
    /// words and the whole of what they shorten.
    fn badges(&self) -> Vec<(&'static str, text::Line, text::Line)> {
        let summary = self.view.summary;
        let manifest = self.view.index.manifest().get();
        let mut badges = Vec::new();
        let mut add = |term, words: &str, whole: &str| {
            badges.push((term, text::shown(words), text::shown(whole)));
        };
        if let Some(sample) = summary.sample.as_deref() {
            for (term, value) in sample.named() {
                let whole = sample.task.as_deref().filter(|_| term == "eval");
                add(term, &value, whole.unwrap_or(&value));
            }
        }
        if let Some(project) = manifest.and_then(|manifest| manifest.project.as_deref()) {
            let name = project.trim_end_matches('/').rsplit('/').next();
            let name = name.filter(|name| !name.is_empty());
            add("project", name.unwrap_or(project), project);
        }
        if let Some(manifest) = manifest {
            let format = manifest.format.name;
            let tool = manifest.tool.as_deref().unwrap_or_else(|| tool_of(format));
            add("writer", tool, format);
        }
        if let Some(model) = summary.models_words() {
            add("model", &model, &model);
        }
        badges
    }

    /// Returns what the run was scored against, the answer that was scored, and the scores: each with
    /// its term, the words, and the whole of what they shorten.
    fn graded(&self) -> Vec<(text::Line, text::Line, text::Line)> {
        let summary = self.view.summary;
        let fact = |term: &str, words: &str| {
            let (short, _) = text::one_line(words.trim(), GRADED_CHARS);
            (
                text::shown(term),
                text::shown(short),
                text::shown(words.trim()),
            )
        };
        let target = summary.target.as_deref();
        let answer = summary
            .scored_answer
            .as_deref()
            .or(summary.answer.as_deref().filter(|_| target.is_some()));
        let is_said = |words: &&str| !words.trim().is_empty();
        let mut graded = Vec::new();
        graded.extend(target.map(|target| fact("target", target)));
        graded.extend(answer.filter(is_said).map(|answer| fact("answer", answer)));
        let scores = summary.whole_scores().take(MAX_SCORES);
        graded.extend(scores.map(|(name, value)| fact(name, value)));
        graded
    }

    /// Counts the scores that the header doesn't list. Empty if it lists all.
    fn more_scores(&self) -> String {
        match self
            .view
            .summary
            .whole_scores()
            .count()
            .saturating_sub(MAX_SCORES)
        {
            0 => String::new(),
            more => format::counted(more, "more score"),
        }
    }

    /// Returns the address of the page of the scores, if the run has any.
    fn scores(&self) -> Option<String> {
        let has_scores = self.view.summary.whole_scores().next().is_some();
        has_scores.then(|| href::scores(self.view.key()))
    }

    /// Returns whether the description of a fact says what it is, so that the term is for screen
    /// readers.
    fn is_plain(&self, term: &str) -> bool {
        matches!(term, "started" | "duration" | "cost" | "file" | "directory")
    }

    /// Lists the agent, start, duration, tokens, and other known facts.
    fn facts(&self) -> Vec<Fact> {
        let (view, summary) = (self.view, self.view.summary);
        let manifest = view.index.manifest().get();
        let mut facts = Vec::new();
        let mut add = |term: &str, description: Option<Phrase>| {
            facts.extend(description.map(|description| Fact::new(term, description)))
        };
        let text = |text: Option<&str>| text.map(Phrase::from);
        let steps = || {
            self.step
                .map_or_else(|| href::run(view.key()), |n| href::run_at(view.key(), n))
        };
        let verdict = || Phrase::new().link(summary.verdict.sentence.as_str(), steps());
        add("not up to date", text(view.stale));
        add("verdict", self.verdict.then(verdict));
        // The title is the heading, unless it's too long for one.
        let is_whole = |title: &&str| text::one_line(title, TASK_CHARS).1;
        let title = summary.recorded_title().filter(|title| !is_whole(title));
        add("title", text(title));
        add(
            "agent",
            (!summary.agents.is_empty()).then(|| Phrase::from(summary.agents.join(", "))),
        );
        let started = summary.started.and_then(|micros| {
            let clock = format::clock(
                Stamp {
                    micros,
                    zoned: true,
                },
                view.zone,
            )?;
            let words = format!(
                "{} {}",
                format::date(micros, view.now, view.zone),
                clock.text
            );
            let started = Phrase::new().time(words, clock.iso);
            Some(match view.index.lacks_offset() {
                true => started.dim(" (UTC assumed)"),
                false => started,
            })
        });
        add("started", started);
        let list = |names: &[Box<str>]| (!names.is_empty()).then(|| names.join(", "));
        if let Some(manifest) = manifest {
            let commit = manifest
                .commit
                .as_deref()
                .map(|commit| commit.chars().take(COMMIT_CHARS).collect::<String>());
            let branch = match (list(&manifest.branches), commit) {
                (Some(branches), Some(commit)) => Some(format!("{branches} at {commit}")),
                (branches, commit) => branches.or(commit),
            };
            add("branch", branch.map(Phrase::from));
            add("effort", list(&manifest.efforts).map(Phrase::from));
        }
        let took = summary
            .took_words()
            .map(|took| match summary.copied_steps() {
                0 => took,
                1 => format!("{took} without the copied step"),
                _ => format!("{took} without the copied steps"),
            });
        let took = took.map(|took| match summary.duration_ms {
            Some(_) => match active(view) {
                Some(active) => Phrase::from(format!("{active} active over {took}")),
                None => Phrase::from(took),
            },
            None => Phrase::from(format!("{took} · "))
                .link("timestamps go backwards", href::tab(view.key(), "issues")),
        });
        add(
            if view.is_alive() {
                "so far"
            } else {
                "duration"
            },
            took,
        );
        let graders = summary
            .grader_tokens
            .map(|tokens| format!("{} grader", format::count(tokens)));
        let tokens: Vec<String> = summary.tokens_words().into_iter().chain(graders).collect();
        add(
            "tokens",
            (!tokens.is_empty()).then(|| Phrase::from(tokens.join(" + "))),
        );
        // The source of an estimate is in the tooltip.
        let cost = |(usd, note): (String, Option<String>)| match note {
            Some(note) => Phrase::new().tip(usd.clone(), &format!("{usd}, {note}")),
            None => Phrase::from(usd),
        };
        add("cost", summary.cost_and_note().map(cost));
        add(
            "seed",
            manifest
                .and_then(|manifest| manifest.seed)
                .map(|seed| Phrase::from(seed.to_string())),
        );
        let short = |hash: &str| hash.chars().take(8).collect::<String>();
        let hash = |hash: Option<&str>| hash.map(|hash| Phrase::from(short(hash)));
        let prompt = manifest.and_then(|manifest| manifest.prompt_hash.as_deref());
        let setup = || view.index.format().is_one_file() && has_setup(view);
        let words = prompt
            .map(short)
            .or(setup().then(|| "system prompt, tools".to_owned()));
        add(
            "prompt",
            words.map(|words| Phrase::new().link(words, href::tab(view.key(), "prompt"))),
        );
        add(
            "config hash",
            hash(manifest.and_then(|manifest| manifest.config_hash.as_deref())),
        );
        let resumed = |steps: i64| {
            Phrase::from(format!(
                "after {} of an earlier run",
                format::counted(steps.max(0) as usize, "step")
            ))
        };
        add(
            "resumed",
            manifest
                .and_then(|manifest| manifest.resumed_after)
                .map(resumed),
        );
        let among = || {
            Phrase::new().dim(format!(
                "{} runs in this directory. Totals cover only the newest; lists cover all.",
                summary.runs_here()
            ))
        };
        add("run", (summary.runs_here() > 1).then(among));
        let in_parts = || {
            Phrase::from(format!(
                "in {} parts (totals cover all of them)",
                summary.parts
            ))
        };
        add("recorded", (summary.parts > 1).then(in_parts));
        let link = |key: &RunKey| Phrase::new().link(key.as_str(), href::run(key.as_str()));
        let related_runs = (view.related_runs)();
        let parent = related_runs
            .iter()
            .find_map(|related_runs| match related_runs {
                RelatedRun::Parent(key) => Some(match summary.branched_after {
                    Some(steps) => (link(key).text(format!(
                        " after {} · ",
                        format::counted(steps as usize, "step")
                    )))
                    .link("compare", href::compare(key.as_str(), view.key())),
                    None => link(key)
                        .text(" · ")
                        .link("calling step", href::run_started(key.as_str(), view.key())),
                }),
                RelatedRun::Child(_) | RelatedRun::Branch(_) | RelatedRun::Segment(_) => None,
            });
        let segments = related_runs
            .iter()
            .filter_map(|related_runs| match related_runs {
                RelatedRun::Segment(segment) => Some(segment),
                _ => None,
            });
        let segments =
            segments
                .take(MAX_CHILDREN)
                .enumerate()
                .fold(Phrase::new(), |words, (at, segment)| {
                    let words = if at > 0 { words.text(" · ") } else { words };
                    let when = if segment.started < summary.started {
                        "continues "
                    } else {
                        "continued in "
                    };
                    words
                        .text(when)
                        .link(segment.key.name(), href::run(segment.key.as_str()))
                });
        let alone = || {
            summary
                .continues
                .as_deref()
                .map(|thread| Phrase::from(format!("continues {thread}")))
        };
        add(
            "thread",
            Some(segments)
                .filter(|segments| !segments.is_empty())
                .or_else(alone),
        );
        let relation = &summary.relation;
        let copies = |steps: usize| {
            let words = Phrase::from(format!("{} at the start", format::counted(steps, "step")));
            let from = match &relation.copied {
                Some((from, _)) => words
                    .text(", from ")
                    .link(from.as_str(), href::run(from.as_str())),
                None => words,
            };
            from.text(" (counted only in the original run)")
        };
        let copied_records = || {
            let copied = summary.copied_records.as_ref()?;
            let records = usize::try_from(copied.records).unwrap_or(usize::MAX);
            let words = format!("{} at the start, from ", format::counted(records, "record"));
            let from = match &relation.records_from {
                Some(from) => Phrase::from(words).link(from.as_str(), href::run(from.as_str())),
                None => Phrase::from(words).text(summary.copied_from().unwrap_or("another run")),
            };
            Some(from.text(" (counted only in the original run)"))
        };
        add(
            "copied",
            Some(summary.copied_steps())
                .filter(|steps| *steps > 0)
                .map(copies)
                .or_else(copied_records),
        );
        let duplicate = |key: &RunKey| link(key).text(" (counted there)");
        add(
            "duplicate of",
            relation.duplicate_of.as_ref().map(duplicate),
        );
        // A duplicate that differs is named with the differences.
        let differing = relation.differences.iter().take(MAX_CHILDREN);
        let differing: Vec<_> = differing.map(|copy| &copy.key).collect();
        let is_same = |key: &&String| !differing.iter().any(|other| other.as_str() == key.as_str());
        let stored = relation.also_at.iter().filter(is_same).enumerate().fold(
            Phrase::new(),
            |words, (at, key)| {
                let words = if at > 0 { words.text(" · ") } else { words };
                words.link(key.as_str(), href::run(key))
            },
        );
        let behind = relation.copies.saturating_sub(relation.also_at.len());
        let stored = if behind > 0 {
            stored.text(format!(" and {} more", count(behind as u64)))
        } else {
            stored
        };
        let has_same = behind > 0 || relation.also_at.iter().any(|key| is_same(&key));
        add("duplicates", has_same.then_some(stored));
        for copy in relation.differences.iter().take(MAX_CHILDREN) {
            // An end that only the duplicate records is the run's.
            let is_other = copy.is_other_end && !relation.is_end_of(copy);
            let verdict = is_other.then_some(&copy.verdict);
            let words = verdict
                .into_iter()
                .chain(&copy.differs)
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join("; ");
            if words.is_empty() {
                continue;
            }
            let link = Phrase::new().link(copy.key.as_str(), href::run(&copy.key));
            add(
                "differs in a duplicate",
                Some(link.text(format!(": {words}"))),
            );
        }
        let separate_children = relation
            .separate_children
            .as_ref()
            .map(|separate_children| format::counted(separate_children.ids.len(), "sub-agent"));
        add(
            "sub-agents",
            separate_children
                .map(|runs| Phrase::from(format!("{runs} (counted in their own rows)"))),
        );
        // A parent run that isn't known is shown by its id.
        let relation = if summary.branched_after.is_some() {
            "branched from"
        } else {
            "parent run"
        };
        add(
            relation,
            parent.or_else(|| summary.parent.as_deref().map(Phrase::from)),
        );
        let known: Vec<_> = related_runs
            .iter()
            .filter_map(|related_runs| match related_runs {
                RelatedRun::Child(child) => Some(&**child),
                RelatedRun::Parent(_) | RelatedRun::Branch(_) | RelatedRun::Segment(_) => None,
            })
            .collect();
        let branches = related_runs
            .iter()
            .filter_map(|related_runs| match related_runs {
                RelatedRun::Branch(branch) => Some(&branch.key),
                RelatedRun::Parent(_) | RelatedRun::Child(_) | RelatedRun::Segment(_) => None,
            });
        let mut branches = branches.take(MAX_CHILDREN).peekable();
        let is_branched = branches.peek().is_some();
        let listed = branches
            .enumerate()
            .fold(Phrase::new(), |words, (at, key)| {
                let words = if at > 0 { words.text(" · ") } else { words };
                let compare = href::compare(view.key(), key.as_str());
                words
                    .link(key.name(), href::run(key.as_str()))
                    .text(" (")
                    .link("compare", compare)
                    .text(")")
            });
        add("branches", is_branched.then_some(listed));
        // Child runs may have the same task.
        let label = |child: &Summary| {
            let is_same = |other: &&&Summary| other.title() == child.title();
            match known.iter().filter(is_same).count() {
                0 | 1 => name(child),
                _ => child.key.name().to_owned(),
            }
        };
        // Not every trace counts its child runs.
        let children = summary.children.unwrap_or_default().max(known.len() as u64);
        // Some tools record their steps in the same file.
        let mut steps = view.index.steps().iter();
        let inside = steps.position(|step| step.is_nested && known.is_empty());
        let inside = inside.filter(|_| children > 0);
        add(
            "sub-agents",
            inside.map(|n| {
                let first = format!("first at step {}", view.label(n));
                Phrase::from(format!("{} · ", count(children))).link(first, view.at_step(n))
            }),
        );
        add(
            "child runs",
            (children > 0 && inside.is_none()).then(|| {
                known.iter().take(MAX_CHILDREN).fold(
                    Phrase::from(count(children)),
                    |words, child| {
                        let to = href::run(child.key.as_str());
                        words.text(" · ").link(label(child), to)
                    },
                )
            }),
        );
        add(
            "turns",
            summary
                .turns
                .filter(|turns| *turns > 1)
                .map(|turns| Phrase::from(count(turns))),
        );
        // A session's file name contains its id.
        let is_named = |id: &str| match view.index.format().is_one_file() {
            true => summary.key.name().contains(id),
            false => summary.key.name() == id,
        };
        let other = |id: &&str| !is_named(id);
        add(
            "run id",
            summary.run_id.as_deref().filter(other).map(Phrase::from),
        );
        let (place, path) = if view.index.format().is_one_file() {
            ("file", file(view))
        } else {
            ("directory", summary.path.to_string())
        };
        let words = Phrase::new().path(summary.key.name(), &path);
        // What is copied would differ from what is shown if the path has hidden characters.
        let is_plain = text::shown(&*summary.path).as_str() == &*summary.path;
        let words = if self.acts && is_plain {
            words.text(" ").copy(&summary.path, "Copy the path")
        } else {
            words
        };
        add(place, Some(words));
        facts
    }
}

/// Returns how long a session was active, if that is less than half of its duration.
fn active(view: &RunView<'_>) -> Option<String> {
    /// The lanes of longer sessions take too long for a head.
    const MAX_STEPS: usize = 20_000;
    let summary = view.summary;
    // Each pulse of a run that may grow sends its head again.
    let is_whole = summary.is_session && summary.copied_steps() == 0 && !view.is_alive();
    if !is_whole || view.index.steps().len() > MAX_STEPS {
        return None;
    }
    let span = summary.duration_ms? * 1e3;
    let active = Lanes::of(view.index).active()?;
    // A short wait is part of the work.
    (active as f64 * 2.0 < span).then(|| micros(active))
}

/// The tabs of a run (`#tabs`).
#[derive(Clone, Copy, Template)]
#[template(path = "run/tabs.html")]
pub(crate) struct Tabs<'a> {
    pub view: &'a RunView<'a>,
    /// The name of the open tab.
    pub current: &'a str,
    /// The current step, if the request has one. The links to other tabs keep it.
    pub step: Option<usize>,
}

impl HtmlSafe for Tabs<'_> {}

impl Tabs<'_> {
    fn is_transcript(&self) -> bool {
        self.current == "transcript"
    }

    /// Returns the last step.
    fn last(&self) -> Option<usize> {
        self.view.index.steps().len().checked_sub(1)
    }

    /// Returns whether a tab depends on the current step. All tabs keep the step in their address,
    /// so that it's restored when the reader comes back.
    pub(crate) fn has_step(name: &str) -> bool {
        matches!(
            name,
            "" | "transcript" | "timeline" | "scores" | "whatif" | "state" | "events" | "files"
        )
    }

    /// Returns the name, address, label and item count of each tab.
    pub(crate) fn tabs(&self) -> Vec<(&'static str, String, &'static str, String)> {
        let (index, summary, key) = (self.view.index, self.view.summary, self.view.key());
        let step = self.step.map(|n| n.to_string()).unwrap_or_default();
        let at_step = &[("step", step.as_str())];
        // A session opens with its transcript, as a sample does.
        let address = |name: &'static str| match name {
            "" if self.view.is_conversation() => "steps",
            name => name,
        };
        let tab = |name, words, count| {
            (
                name,
                href::with_query(&href::run(key), &[("tab", address(name)), ("step", &step)]),
                words,
                count,
            )
        };
        let count = |number: usize| count(number as u64);
        // The tabs show the lines of every run in the directory.
        let of_all = |newest: usize, all: usize| match summary.runs_here() {
            0 | 1 => count(all),
            _ => format!("{} ({} with earlier runs)", count(newest), count(all)),
        };
        let manifest = match index.manifest() {
            ManifestState::Missing => "none",
            _ if index.manifest().get().is_none() => "unreadable",
            _ => "",
        };
        let files = (self.view.files)();
        let steps = match of_all(summary.steps_now, index.step_count()) {
            lines if !summary.steps_unknown => lines,
            _ if index.steps().is_empty() => "unknown".to_owned(),
            lines if lines == "1" => "1 line".to_owned(),
            lines => format!("{lines} lines"),
        };
        let tabs = [
            tab("", "Steps", steps),
            tab("transcript", "Transcript", String::new()),
            tab("timeline", "Timeline", String::new()),
            (
                "scores",
                href::with_query(&href::scores(key), at_step),
                "Scores",
                String::new(),
            ),
            (
                "whatif",
                href::with_query(&href::whatif(key), at_step),
                "What-if",
                String::new(),
            ),
            tab("state", "State", String::new()),
            tab(
                "events",
                "Events",
                of_all(summary.events, index.events_read()),
            ),
            tab(
                "files",
                "Files",
                files
                    .filter(|files| *files > 0)
                    .map_or_else(String::new, format::count),
            ),
            tab("manifest", "Manifest", manifest.to_owned()),
            tab("issues", "Issues", count(summary.issues.0)),
        ];
        // Formats in which each step records the state may have one that never changes.
        let has_state = !index.steps().is_empty()
            && (!summary.changed.is_empty()
                || index.format().can.state == Can::Yes && !index.format().is_one_file());
        // A tab without content is hidden.
        let has = |name: &str| match name {
            _ if name == self.current => true,
            "manifest" => {
                !index.format().is_one_file() && *index.manifest() != ManifestState::Missing
            }
            "scores" => !summary.critics.is_empty(),
            "issues" => summary.issues.0 > 0,
            "events" => index.events_read() > 0,
            "timeline" => index.first_ts().is_some(),
            "state" => has_state,
            "files" => files.is_some(),
            "whatif" => !index.steps().is_empty(),
            _ => true,
        };
        let mut tabs: Vec<_> = tabs.into_iter().filter(|(name, ..)| has(name)).collect();
        // A session is read, other runs are looked through.
        if self.view.is_conversation() {
            tabs.swap(0, 1);
        }
        tabs
    }
}

/// Names the run's file, and the run in it if it holds several: `runs/traces.jsonl, trace bbbb`.
fn file(view: &RunView<'_>) -> String {
    let path = &*view.summary.path;
    let in_file = view.lines.in_file();
    let place = in_file.and_then(|run| Some(format!("{}, {}", run.file_of(path)?, run.name)));
    place.unwrap_or_else(|| path.to_owned())
}
