//! What does the run table say about a run? One row of facts, taken from the index alone.

use serde::{Deserialize, Serialize};

use super::life::{Life, Outside, life};
use super::verdict::{Verdict, tokens, verdict};
use super::{health, life::Liveness, newest::took_ms};
use crate::model::index::Distinct;
use crate::model::{Can, Index, RunKey};

#[cfg(test)]
mod tests;

/// What lists, search and headers need of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Its name on the board; not written down, since it depends on how the roots were named.
    #[serde(skip, default = "unnamed")]
    pub key: RunKey,
    /// The directory, as the person would type it; not written down either.
    #[serde(skip)]
    pub path: String,
    /// The recorded run id.
    pub run_id: Option<String>,
    /// The manifest's word.
    pub status: Option<String>,
    /// How alive it is.
    pub life: Life,
    /// Why it stopped.
    pub verdict: Verdict,
    /// How many runs wrote into the directory. All that follows is of the newest one.
    pub segments: usize,
    /// Step lines that are JSON.
    pub steps: usize,
    /// Event lines that are JSON.
    pub events: usize,
    /// Step lines; what the step limit counts.
    pub steps_now: usize,
    /// Tokens, where recorded.
    pub tokens: Option<u64>,
    /// What it cost in US dollars, where recorded.
    pub cost_usd: Option<f64>,
    /// Run time in milliseconds: the writer's figure, else from the first to the last event.
    pub duration_ms: Option<f64>,
    /// The lowest score of the last step that has one.
    pub last_score: Option<f64>,
    /// The lowest score of each step with one, thinned.
    pub spark: Vec<f64>,
    /// The critics' names, in order of appearance.
    pub critics: Vec<String>,
    /// The tools' names, in order of appearance.
    pub tools: Vec<String>,
    /// The agents' names, in order of appearance.
    pub agents: Vec<String>,
    /// The state keys that steps changed.
    pub changed: Vec<String>,
    /// The model's name.
    pub model: Option<String>,
    /// The task in words.
    pub task: Option<String>,
    /// The answer.
    pub answer: Option<String>,
    /// The run that started this one.
    pub parent: Option<String>,
    /// What the trace is called that it was read from.
    pub format: String,
    /// The program that wrote it, with its version.
    pub tool: Option<String>,
    /// The directory that the agent worked in.
    pub project: Option<String>,
    /// How many prompts of a person it answers.
    pub turns: Option<u64>,
    /// How many runs it started.
    pub children: Option<u64>,
    /// Of the tokens, those that the model's cache held.
    pub cached_tokens: Option<u64>,
    /// How many files its tools changed, as far as the trace tells.
    pub files_changed: Option<u64>,
    /// Microseconds since the epoch.
    pub started: Option<i64>,
    /// The newest recorded time, else the newest time a file changed; microseconds since the epoch.
    pub updated: Option<i64>,
    /// How many oddities the files have, and how many of them cost data.
    pub issues: (usize, usize),
    /// Steps in which something failed.
    pub errors: usize,
    /// The reader has bytes before it that are not in the index yet: all counts are "at least".
    pub partial: bool,
}

fn unnamed() -> RunKey {
    RunKey::new("")
}

impl Summary {
    /// Whether both say the same of a run, whatever it is called.
    pub fn is_like(&self, other: &Self) -> bool {
        *self == Self { key: self.key.clone(), path: self.path.clone(), ..other.clone() }
    }
}

/// How many of the state's keys that steps changed are files; `None` where the format does not tell of files, and where it
/// tells of some and of none here: commands change files as well.
fn files_changed(index: &Index) -> Option<u64> {
    let (format, changed) = (index.format(), index.tally().run.changed.iter());
    let files = changed.filter(|key| index.name(*key).starts_with("files.")).count() as u64;
    (format.is_one_file() && (files > 0 || format.can.state == Can::Yes)).then_some(files)
}

/// Sums a run up.
pub fn summary(key: &RunKey, path: String, index: &Index, outside: Outside) -> Summary {
    let life = life(index, outside);
    let written = outside.written.map(|(_, newest)| newest);
    let manifest = index.manifest().get();
    let init = index.segment().and_then(|segment| segment.init.as_ref()).map(|(_, init)| init);
    let text = |text: Option<&Box<str>>| text.map(|text| text.to_string());
    let run = &index.tally().run;
    let names = |symbols: &Distinct| symbols.iter().map(|symbol| index.name(symbol).to_owned()).collect::<Vec<_>>();
    let segments = index.newest_segments();
    let first_event = segments.first().map_or(0, |segment| segment.first_event);
    let unreadable: usize = segments.iter().map(|segment| segment.unreadable).sum();
    let manifest_time = manifest.and_then(|manifest| manifest.updated_at);
    let recorded = index.last_ts().max(manifest_time);
    let answer = manifest.and_then(|manifest| manifest.final_result.as_ref());
    let stop_answer = index.segment().and_then(|segment| segment.stop.as_ref()?.1.answer.as_ref());
    Summary {
        key: key.clone(),
        path,
        run_id: text(manifest.and_then(|manifest| manifest.run_id.as_ref())),
        status: text(manifest.and_then(|manifest| manifest.status.as_ref())),
        verdict: verdict(index, &life),
        segments: index.segments().len(),
        steps: run.readable,
        events: index.events().len().saturating_sub(first_event + unreadable),
        steps_now: index.steps().len() - index.newest_start(),
        tokens: tokens(index),
        cost_usd: manifest.and_then(|manifest| manifest.cost_usd),
        duration_ms: took_ms(index),
        last_score: run.last_score,
        spark: run.lows.as_slice().to_vec(),
        critics: names(&run.critics),
        tools: names(&run.tools),
        agents: names(&run.agents)
            .into_iter()
            .chain(text(manifest.and_then(|m| m.agent.as_ref())))
            .fold(Vec::new(), distinct),
        changed: names(&run.changed),
        model: text(
            manifest.and_then(|manifest| manifest.model.as_ref()).or(init.and_then(|init| init.model.as_ref())),
        ),
        task: text(init.and_then(|init| init.task.as_ref())),
        answer: text(answer.or(stop_answer)),
        parent: text(manifest.and_then(|manifest| manifest.parent.as_ref())),
        format: index.format().name.to_owned(),
        tool: text(manifest.and_then(|manifest| manifest.tool.as_ref())),
        project: text(manifest.and_then(|manifest| manifest.project.as_ref())),
        turns: manifest.and_then(|manifest| manifest.turns),
        children: manifest.and_then(|manifest| manifest.children),
        cached_tokens: manifest.and_then(|manifest| manifest.cached_tokens),
        files_changed: files_changed(index),
        started: manifest
            .and_then(|manifest| manifest.started_at)
            .or(segments.first().and_then(|segment| segment.span).map(|(first, _)| first)),
        updated: if life.liveness == Liveness::Finished {
            recorded.or(written)
        } else {
            recorded.max(life.sign).or(written)
        },
        issues: health::counts(index),
        errors: index.failed_steps(),
        partial: index.is_partial(),
        life,
    }
}

fn distinct(mut list: Vec<String>, name: String) -> Vec<String> {
    if !list.contains(&name) {
        list.push(name);
    }
    list
}
