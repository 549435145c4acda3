//! How does the page look that lays the scores of several runs over each other? Lines for up to six runs, the median and
//! the quartiles for more, and the same in numbers.

use askama::Template;

use crate::analysis::format;
use crate::analysis::scores::{Series, aligned, bands, in_words, series};
use crate::analysis::summary::Summary;
use crate::model::Index;
use crate::page::part::href;
use crate::page::part::sign::Link;
use crate::page::part::text::Line;
use crate::page::scores::overlay::{Axis, BAND, BAND_COLUMNS, MAX_LINES, Overlay, Source, letter};
use crate::page::scores::plot::ticks;
use crate::page::shell::{Shell, Status};

/// At most so many runs at once.
pub(crate) const MAX_RUNS: usize = 200;
/// So many runs are offered to choose from.
const OFFERED: usize = 30;

/// The page of several runs' scores.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "scores/scores_over.html")]
pub(crate) struct SeveralPage {
    /// What is around it.
    pub shell: Shell,
    /// What the lines are: `Lowest score of each step, 3 runs`.
    pub title: Line,
    /// The runs that are asked for and are not there, and what else is wrong.
    pub faults: Vec<Line>,
    /// What to do where no run is chosen; empty else.
    pub howto: &'static str,
    /// The fields.
    pub form: Fields,
    /// The picture; `None` where there is nothing to draw.
    pub overlay: Option<Overlay>,
    /// What is said in its place, or besides.
    pub notes: Vec<Line>,
    /// The threshold in words, for the head of its column; empty for none.
    pub threshold: Line,
    /// One for each run.
    pub rows: Vec<RunLine>,
    /// Runs to choose from.
    pub offer: Vec<Offer>,
}

/// The fields of the page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    /// The runs that are shown.
    pub runs: Vec<String>,
    /// The axes, with whether each is chosen: its word in the address, and its name.
    pub axes: Vec<(&'static str, &'static str, bool)>,
    /// The critics to choose from.
    pub critics: Vec<(String, bool)>,
    /// The critic that is chosen; empty for the lowest of all.
    pub critic: String,
    /// The axis that is chosen, as in the address.
    pub axis: &'static str,
    /// The threshold as typed.
    pub threshold: String,
}

/// One run in the table.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunLine {
    /// Its letter; empty where it has no line.
    pub letter: String,
    /// Its colour and dash, from 1 to 6; 0 where it has no line.
    pub series: usize,
    /// The run's scores.
    pub run: Link,
    /// How it stands.
    pub status: Option<Status>,
    /// How many steps it has.
    pub steps: String,
    /// The last score.
    pub last: Line,
    /// The lowest.
    pub lowest: Line,
    /// The mean.
    pub mean: Line,
    /// How many retries were asked for.
    pub retries: String,
    /// The first step below the threshold; `None` where there is none.
    pub below: Option<Link>,
}

/// A run to choose.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offer {
    /// Its key.
    pub key: String,
    /// What is said of it.
    pub about: Line,
    /// Whether it is shown already.
    pub chosen: bool,
}

/// What the address asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// The keys.
    pub runs: Vec<String>,
    /// The critic; empty for the lowest score of each step.
    pub critic: String,
    /// `progress` for shares of a run, `aligned` for the steps of the first run, anything else for steps.
    pub axis: String,
    /// The threshold as typed.
    pub threshold: String,
}

/// A run that is there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'a> {
    /// The facts of its row.
    pub summary: &'a Summary,
    /// What is known of its steps.
    pub index: &'a Index,
}

/// Fills the page; `missing` are the keys no run has, `known` all runs, newest first.
pub(crate) fn page(
    shell: Shell,
    wanted: &Wanted,
    found: &[Found<'_>],
    missing: &[String],
    known: &[&Summary],
) -> SeveralPage {
    let mut along = Along::of(&wanted.axis);
    let critic = Some(wanted.critic.as_str()).filter(|critic| !critic.is_empty());
    let query =
        crate::page::scores::Query { threshold: wanted.threshold.clone(), ..crate::page::scores::Query::default() };
    let threshold = query.threshold();
    let shown = found.get(..found.len().min(MAX_RUNS)).unwrap_or_default();
    let all: Vec<Series> = shown.iter().map(|run| series(run.index, critic)).collect();
    let what = critic.map_or_else(|| "Lowest score of each step".to_owned(), |name| format!("Score of {name}"));
    let title = format!("{what}, {}", format::counted(shown.len(), "run"));
    let mut faults: Vec<Line> = missing.iter().map(|key| format!("There is no run called {key}.").into()).collect();
    if query.is_wrong() {
        faults.push("A threshold is a number, such as 0.3.".into());
    }
    let mut notes: Vec<Line> = Vec::new();
    if found.len() > MAX_RUNS {
        notes.push(format!("The first {MAX_RUNS} of {} runs are shown.", format::count(found.len() as u64)).into());
    }
    let silent = all.iter().filter(|series| series.points.is_empty()).count();
    if silent > 0 && !shown.is_empty() {
        let runs = format::counted(silent, "run");
        let verb = if silent == 1 { "has" } else { "have" };
        notes.push(match critic {
            Some(name) => format!("{runs} {verb} no score of {name}.").into(),
            None => format!("{runs} {verb} no scores.").into(),
        });
    }
    if along == Along::Aligned && shown.len() > MAX_LINES {
        along = Along::Step;
        notes.push(format!("Steps are aligned for up to {MAX_LINES} runs; these stand by their step.").into());
    }
    let longest = all.iter().map(|series| series.steps).max().unwrap_or_default();
    let overlay = (silent < shown.len()).then(|| draw(title.clone(), shown, &all, along, longest, threshold));
    let lines = if shown.len() > MAX_LINES { 1 } else { shown.len() };
    if shown.len() > MAX_LINES {
        notes.push(BAND.into());
    }
    let mut critics: Vec<&String> = found.iter().flat_map(|run| &run.summary.critics).collect();
    critics.sort();
    critics.dedup();
    SeveralPage {
        shell: Shell { title: format!("Scores: {title}"), ..shell },
        title: if shown.is_empty() { "Scores of several runs".into() } else { title.into() },
        faults,
        howto: if shown.is_empty() { "Choose runs whose scores are laid over each other." } else { "" },
        form: Fields {
            runs: shown.iter().map(|run| run.summary.key.to_string()).collect(),
            axes: Along::ALL.iter().map(|one| (one.word(), one.name(), *one == along)).collect(),
            critics: critics.into_iter().take(100).map(|name| (name.clone(), *name == wanted.critic)).collect(),
            critic: wanted.critic.clone(),
            axis: along.word(),
            threshold: wanted.threshold.clone(),
        },
        overlay,
        notes,
        threshold: threshold.map(in_words).unwrap_or_default().into(),
        rows: shown.iter().zip(&all).enumerate().map(|(at, (run, own))| row(at, lines, run, own, threshold)).collect(),
        offer: offer(known, shown),
    }
}

/// Along which axis steps stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Along {
    Step,
    Progress,
    Aligned,
}

impl Along {
    const ALL: [Self; 3] = [Along::Step, Along::Progress, Along::Aligned];

    fn of(word: &str) -> Self {
        Self::ALL.into_iter().find(|one| one.word() == word).unwrap_or(Along::Step)
    }

    fn word(self) -> &'static str {
        match self {
            Along::Step => "step",
            Along::Progress => "progress",
            Along::Aligned => "aligned",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Along::Aligned => "aligned step",
            other => other.word(),
        }
    }
}

fn draw(
    title: String,
    runs: &[Found<'_>],
    all: &[Series],
    along: Along,
    longest: usize,
    threshold: Option<f64>,
) -> Overlay {
    let by_share = along == Along::Progress;
    let place = |steps: usize, n: usize| {
        let last = if by_share { steps } else { longest }.saturating_sub(1);
        if last == 0 { 0.5 } else { n as f64 / last as f64 }
    };
    if along == Along::Aligned {
        return draw_aligned(title, runs, all, threshold);
    }
    let axis = if by_share {
        let tick = |part: u32| (f64::from(part) / 4.0, format!("{} %", part * 25));
        Axis { name: "share of the run", ticks: (0..=4).map(tick).collect() }
    } else {
        let tick = |n: usize| (place(longest, n), n.to_string());
        Axis { name: "step, counted from 0", ticks: ticks(longest, 20).into_iter().map(tick).collect() }
    };
    let source = |(run, series): (&Found<'_>, &Series)| Source {
        key: run.summary.key.to_string(),
        labels: series.points.iter().map(|(n, _)| run.index.label(*n)).collect(),
        places: series.points.iter().map(|(n, _)| place(series.steps, *n)).collect(),
        series: series.clone(),
    };
    if runs.len() <= MAX_LINES {
        let sources: Vec<Source> = runs.iter().zip(all).map(source).collect();
        return Overlay::lines(title, &axis, &sources, threshold);
    }
    let steps = |run: &Series| if by_share { run.steps } else { longest }.max(1) as f64;
    // In shares a step is as wide as its part of the run, so that a short run is in every column.
    let columns = if by_share { BAND_COLUMNS } else { longest.clamp(1, BAND_COLUMNS) };
    let bands = bands(all, columns, |run, n| (n as f64 / steps(run), (n + 1) as f64 / steps(run)));
    let first = runs.iter().zip(all).next().map(source);
    Overlay::band(title, &axis, first.as_ref(), &bands, threshold)
}

/// Steps that ask for the same stand over each other, along the steps of the first run.
fn draw_aligned(title: String, runs: &[Found<'_>], all: &[Series], threshold: Option<f64>) -> Overlay {
    let Some(first) = runs.first() else { return Overlay::default() };
    let places: Vec<Vec<f64>> = runs.iter().map(|run| aligned(first.index, run.index)).collect();
    let last = places.iter().flatten().copied().fold(0.0_f64, f64::max);
    let share = |place: f64| if last > 0.0 { place / last } else { 0.5 };
    let sources = runs.iter().zip(all).zip(&places).map(|((run, series), places)| Source {
        key: run.summary.key.to_string(),
        labels: series.points.iter().map(|(n, _)| run.index.label(*n)).collect(),
        places: series.points.iter().map(|(n, _)| share(places.get(*n).copied().unwrap_or_default())).collect(),
        series: series.clone(),
    });
    let sources: Vec<Source> = sources.collect();
    let marks = ticks(first.index.steps().len(), 20).into_iter();
    let axis = Axis {
        name: "step of A; steps of the others stand over the one that asks for the same",
        ticks: marks.map(|n| (share(n as f64), first.index.label(n))).collect(),
    };
    Overlay::lines(title, &axis, &sources, threshold)
}

fn row(at: usize, lines: usize, run: &Found<'_>, own: &Series, threshold: Option<f64>) -> RunLine {
    let key = run.summary.key.as_str();
    let score = |score: Option<f64>| Line::from(format::or_missing(score, format::score));
    let below = threshold.and_then(|threshold| own.first_below(threshold));
    RunLine {
        letter: if at < lines { letter(at) } else { String::new() },
        series: if at < lines { at % MAX_LINES + 1 } else { 0 },
        run: Link::new(key, href::scores(key)),
        status: Some(crate::page::lens::status(run.summary)),
        steps: format::counted(own.steps, "step"),
        last: score(own.last().map(|(_, score)| score)),
        lowest: score(own.lowest().map(|(_, score)| score)),
        mean: score(own.mean()),
        retries: format::count(own.retries.len() as u64),
        below: below.map(|n| Link::new(format!("step {}", run.index.label(n)), href::run_at(key, n))),
    }
}

/// The chosen runs, then the newest that have scores.
fn offer(known: &[&Summary], shown: &[Found<'_>]) -> Vec<Offer> {
    let is_shown = |run: &Summary| shown.iter().any(|found| found.summary.key == run.key);
    let make = |run: &Summary, chosen: bool| Offer {
        key: run.key.to_string(),
        about: format!("{} · last score {}", run.verdict.sentence, format::or_missing(run.last_score, format::score))
            .into(),
        chosen,
    };
    let rest = known.iter().filter(|run| run.last_score.is_some() && !is_shown(run));
    let chosen = shown.iter().map(|found| make(found.summary, true));
    chosen.chain(rest.take(OFFERED).map(|run| make(run, false))).collect()
}
