//! Shows the overlay of several runs' scores: lines for up to six runs, the median and the
//! quartiles for more, and the same as numbers.

use std::sync::Arc;

use askama::Template;

use crate::analysis::format;
use crate::analysis::query::Query as Filter;
use crate::analysis::scores::{At, Series, aligned, in_words, series};
use crate::analysis::summary::Summary;
use crate::page::part::{href, text};
use crate::page::run_view::RunView;
use crate::page::scores::overlay::{Axis, BAND, MAX_LINES, Overlay, Source, letter};
use crate::page::scores::plot::ticks_between;
use crate::page::scores::query::Query;
use crate::page::shell::Shell;

/// Maximum number of runs in one overlay.
const MAX_RUNS: usize = 200;
/// Maximum number of runs offered for selection.
const OFFERED: usize = 30;
/// Maximum number of critics offered for selection.
const MAX_CRITICS: usize = 100;

/// The page of several runs' scores.
#[derive(Template)]
#[template(path = "scores/scores_over.html")]
pub(crate) struct SeveralPage<'a> {
    pub shell: Shell,
    /// The meaning of the lines: `Lowest score of each step, 3 runs`.
    pub title: String,
    pub query: Query,
    pub along: Along,
    /// The runs in the overlay, each with its scores.
    pub runs: Vec<(&'a RunView<'a>, Series)>,
    /// Requested keys that belong to no run.
    pub missing: Vec<String>,
    /// The query that filters the runs offered for selection.
    pub find: String,
    /// All runs, newest first.
    pub known: Vec<Arc<Summary>>,
    /// All critics of the runs.
    pub critics: Vec<&'a str>,
    /// The picture. `None` if there is nothing to draw.
    pub overlay: Option<Overlay>,
    /// Notes that explain the picture or replace it.
    pub notes: Vec<String>,
}

impl<'a> SeveralPage<'a> {
    pub(crate) fn new(
        shell: Shell,
        query: Query,
        axis: &str,
        requested: &'a [RunView<'a>],
        missing: Vec<String>,
        (find, known): (&str, Vec<Arc<Summary>>),
    ) -> Self {
        let critic = Some(query.critic.as_str()).filter(|critic| !critic.is_empty());
        let shown = requested.get(..MAX_RUNS).unwrap_or(requested);
        let runs: Vec<_> = shown
            .iter()
            .map(|view| (view, series(view.index, critic)))
            .collect();
        let lengths = || runs.iter().map(|(_, series)| series.steps);
        let mut along =
            Along::of(axis).unwrap_or_else(|| Along::usual(lengths().min(), lengths().max()));
        let what = critic.map_or_else(
            || "Lowest score of each step".to_owned(),
            |name| format!("Score of {name}"),
        );
        let title = format!("{what}, {}", format::counted(runs.len(), "run"));
        let mut notes = Vec::new();
        if requested.len() > MAX_RUNS {
            notes.push(format!(
                "The first {MAX_RUNS} of {} runs are shown.",
                format::count(requested.len() as u64)
            ));
        }
        let without_points = || {
            let runs = runs.iter();
            runs.filter(|(_, series)| series.points.is_empty())
        };
        let silent = without_points().count();
        // A score of the whole run belongs to no step.
        let is_scored = |view: &RunView<'_>| {
            let mut names = view.summary.whole_scores().map(|(name, _)| name);
            names.any(|name| critic.is_none_or(|critic| critic == name))
        };
        let as_whole = without_points().filter(|(view, _)| is_scored(view)).count();
        let from = critic.map_or_else(String::new, |name| format!(" from {name}"));
        let mut note = |silent: usize, what: &str| {
            let subject = match silent {
                0 => return,
                1 if runs.len() == 1 => "This run has".to_owned(),
                1 => "1 run has".to_owned(),
                silent => format!("{} have", format::counted(silent, "run")),
            };
            notes.push(format!("{subject} {what}."));
        };
        let none = match critic {
            Some(name) => format!("no score from {name}"),
            None => "no scores".to_owned(),
        };
        note(silent - as_whole, &none);
        note(
            as_whole,
            &format!("no scores by step{from}, only of the whole run"),
        );
        if along == Along::Aligned && runs.len() > MAX_LINES {
            along = Along::Step;
            notes.push(format!(
                "Only up to {MAX_LINES} runs can be aligned. These are placed by step number."
            ));
        }
        if runs.len() > MAX_LINES {
            notes.push(BAND.to_owned());
        }
        let drawn = (silent < runs.len()).then(|| draw(title.clone(), &runs, along, &query));
        let overlay = match drawn {
            Some(Err(end)) => {
                notes.push(nothing_in(&query, along, end));
                None
            }
            Some(Ok(overlay)) => Some(overlay),
            None => None,
        };
        let mut critics: Vec<&str> = requested
            .iter()
            .flat_map(|view| &view.summary.critics)
            .map(String::as_str)
            .collect();
        critics.sort_unstable();
        critics.dedup();
        critics.truncate(MAX_CRITICS);
        let shell = Shell {
            title: if shown.is_empty() {
                "Scores".to_owned()
            } else {
                format!("Scores: {title}")
            },
            ..shell
        };
        let find = find.to_owned();
        Self {
            shell,
            title,
            query,
            along,
            runs,
            missing,
            find,
            known,
            critics,
            overlay,
            notes,
        }
    }

    /// Returns how many runs are drawn as a line.
    fn lines(&self) -> usize {
        if self.runs.len() > MAX_LINES {
            1
        } else {
            self.runs.len()
        }
    }

    /// Returns the runs offered for selection, and whether each is shown. Runs in the overlay come
    /// first, then the newest runs that have scores and match the filter.
    fn offer(&self) -> Vec<(&Summary, bool)> {
        let is_shown = |run: &Summary| {
            self.runs
                .iter()
                .any(|(view, _)| view.summary.key == run.key)
        };
        let query = Filter::parse(&self.find);
        let has_scores = |run: &&Arc<Summary>| {
            run.last_score.is_some() && !is_shown(run) && query.matches(&***run)
        };
        let rest = self.known.iter().filter(has_scores).take(OFFERED);
        let shown = self.runs.iter().filter(|(view, series)| {
            !series.points.is_empty() || view.summary.last_score.is_some()
        });
        shown
            .map(|(view, _)| (view.summary, true))
            .chain(rest.map(|run| (&**run, false)))
            .collect()
    }

    /// Returns the address with the whole axis, if only a part is visible.
    fn whole(&self) -> Option<String> {
        (self.query.from.is_some() || self.query.to.is_some()).then(|| {
            let query = Query {
                from: None,
                to: None,
                ..self.query.clone()
            };
            let mut pairs = vec![("x", self.along.word())];
            pairs.extend(self.runs.iter().map(|(view, _)| ("run", view.key())));
            query.address("/scores", &pairs)
        })
    }
}

fn score(at: Option<At>) -> String {
    format::or_missing(at, |(_, score)| format::score(score))
}

/// The axis along which steps are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Along {
    Step,
    Progress,
    Aligned,
}

impl Along {
    const ALL: [Self; 3] = [Along::Step, Along::Progress, Along::Aligned];

    fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }

    /// Returns the default axis for runs of these lengths. Along steps, a much longer run would
    /// squeeze the others.
    fn usual(shortest: Option<usize>, longest: Option<usize>) -> Self {
        let (shortest, longest) = (shortest.unwrap_or_default(), longest.unwrap_or_default());
        if 2 * longest > 3 * shortest {
            Along::Progress
        } else {
            Along::Step
        }
    }

    /// Returns the axis's word in the address.
    fn word(self) -> &'static str {
        match self {
            Along::Step => "step",
            Along::Progress => "progress",
            Along::Aligned => "aligned",
        }
    }

    fn name(self) -> &'static str {
        if self == Along::Aligned {
            "aligned step"
        } else {
            self.word()
        }
    }
}

/// Returns the note that replaces the picture if the range is empty. The axis goes from 0 to `end`.
fn nothing_in(query: &Query, along: Along, end: f64) -> String {
    let unit = if along == Along::Progress { "%" } else { "" };
    let what = if along == Along::Progress {
        "share of the run"
    } else {
        "step"
    };
    let at = |at: Option<usize>, usual: f64| {
        at.map_or_else(|| format!("{usual:.0}"), |at| at.to_string())
    };
    let (from, to) = (at(query.from, 0.0), at(query.to, end));
    format!(
        "The range is empty: {what} {from}{unit} to {to}{unit}. The axis goes from 0{unit} to {end:.0}{unit}."
    )
}

/// Draws the overlay. If the requested range is empty, returns the end of the axis as the error.
fn draw(
    title: String,
    runs: &[(&RunView<'_>, Series)],
    along: Along,
    query: &Query,
) -> Result<Overlay, f64> {
    let longest = runs
        .iter()
        .map(|(_, series)| series.steps)
        .max()
        .unwrap_or_default();
    let share = |n: usize, steps: usize| {
        if steps > 1 {
            n as f64 / (steps - 1) as f64
        } else {
            0.5
        }
    };
    let (by_share, threshold) = (along == Along::Progress, query.threshold());
    let end = if by_share {
        100
    } else {
        longest.saturating_sub(1)
    };
    if along != Along::Aligned && query.is_empty_range(end + 1) {
        return Err(end as f64);
    }
    let visible = query.visible(end as f64);
    let at = |share: f64| (share * end as f64).round() as usize;
    let ends = Some((visible.from * end as f64, visible.to * end as f64));
    let axis = match along {
        Along::Aligned => return draw_aligned(title, runs, query),
        Along::Progress => {
            let tick = |part: u32| {
                let here = f64::from(part) / 4.0;
                (
                    here,
                    format!(
                        "{:.0}%",
                        (visible.from + here * (visible.to - visible.from)) * 100.0
                    ),
                )
            };
            Axis {
                name: "share of the run",
                ticks: (0..=4).map(tick).collect(),
                ends,
            }
        }
        Along::Step => {
            let tick = |n: usize| (visible.of(share(n, longest)), n.to_string());
            let ticks = ticks_between(at(visible.from), at(visible.to), 20).take(longest);
            Axis {
                name: "step, counted from 0",
                ticks: ticks.map(tick).collect(),
                ends,
            }
        }
    };
    let steps = |series: &Series| if by_share { series.steps } else { longest };
    let mut sources = runs
        .iter()
        .map(|(view, series)| Source::new(view, series, |n| visible.of(share(n, steps(series)))));
    if runs.len() > MAX_LINES {
        let all: Vec<Series> = runs.iter().map(|(_, series)| series.clone()).collect();
        return Ok(Overlay::band(
            title,
            axis,
            sources.next().as_ref(),
            &all,
            by_share,
            (visible, threshold),
        ));
    }
    Ok(Overlay::lines(
        title,
        axis,
        &sources.collect::<Vec<_>>(),
        threshold,
    ))
}

/// Draws the runs aligned to the first one. Matching steps are at the same position.
fn draw_aligned(
    title: String,
    runs: &[(&RunView<'_>, Series)],
    query: &Query,
) -> Result<Overlay, f64> {
    let first = runs.first().map(|(view, _)| *view);
    let places: Vec<Vec<f64>> = runs
        .iter()
        .map(|(view, _)| first.map_or_else(Vec::new, |first| aligned(first.index, view.index)))
        .collect();
    let last = places.iter().flatten().copied().fold(0.0_f64, f64::max);
    if query.is_empty_range(last.ceil() as usize + 1) {
        return Err(last);
    }
    let visible = query.visible(last);
    let share = |place: f64| visible.of(if last > 0.0 { place / last } else { 0.5 });
    let sources = runs.iter().zip(&places).map(|((view, series), places)| {
        Source::new(view, series, |n| {
            share(places.get(n).copied().unwrap_or_default())
        })
    });
    let sources: Vec<Source<'_>> = sources.collect();
    let tick = |view: &RunView<'_>, n: usize| (share(n as f64), view.label(n));
    let (from, to) = (visible.from * last, visible.to * last);
    let seen =
        |view: &RunView<'_>| (to.floor() as usize).min(view.index.steps().len().saturating_sub(1));
    let ticks = first.map(|view| {
        ticks_between(from.ceil() as usize, seen(view), 20)
            .map(|n| tick(view, n))
            .collect()
    });
    let name = "step of A, with matching steps of the other runs aligned to it";
    let axis = Axis {
        name,
        ticks: ticks.unwrap_or_default(),
        ends: Some((from, to)),
    };
    Ok(Overlay::lines(title, axis, &sources, query.threshold()))
}
