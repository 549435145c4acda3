//! What stands on the page of a run's scores? Lanes from the index; a few lines are read for what only they hold.

pub(crate) mod table;

use crate::analysis::format;
use crate::analysis::scores::{Asked, MAX_CRITICS, Rank, Scores, agreement};
use crate::model::{CriticAction, StepHead, TraceFile};
use crate::page::lens::Lens;
use crate::page::part::href;
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::part::text::one_line;
use crate::page::scores::heat::Heat;
use crate::page::scores::lane::LaneView;
use crate::page::scores::said::Said;
use crate::page::scores::{
    Agreement, AgreementRow, AskedList, AskedRow, Form, Place, Query, ScoresBody, address, said,
};
use crate::stop::{CriticBelow, StopSpec};

/// At most so many lanes are drawn.
const MAX_LANES: usize = 24;
/// At most so many places where ids start over are marked.
const MAX_STARTS: usize = 200;
/// Of at most so many retries and patches the lines are read.
const MAX_ASKED: usize = 50;
/// With more critics than this, a map of all is worth its room.
const MAX_WITHOUT_MAP: usize = 3;
/// A patch or a reason in the list is cut to this many characters.
const SAID_CHARS: usize = 160;

/// Which scores a page has: with the same mark it would look the same.
pub(crate) fn scores_mark(lens: &Lens<'_>) -> String {
    let steps = lens.index.steps();
    // The last line may still change without becoming another.
    let last = steps.last().map_or(0, |step| step.span.len);
    format!("{}.{last}", steps.len())
}

/// The fields above the lanes.
pub(crate) fn scores_form(lens: &Lens<'_>, query: &Query) -> Form {
    let critics = &lens.summary.critics;
    let names = || critics.iter().filter(|name| query.critic.is_empty() || **name == query.critic);
    let rule = |(score, critic): (f64, &String)| {
        StopSpec::from(CriticBelow { critic: critic.clone(), score, steps: 1 }).to_string()
    };
    let rules =
        query.threshold().map(|score| names().take(MAX_LANES).map(|name| rule((score, name))).collect::<Vec<_>>());
    let rules = rules.filter(|rules| !rules.is_empty());
    let wrong = if query.is_wrong() { "a threshold is a number, such as 0.3" } else { "" };
    Form {
        action: href::scores(lens.key()),
        threshold: query.threshold.clone(),
        wrong: wrong.into(),
        critics: critics.iter().take(MAX_LANES).map(|name| (name.clone(), *name == query.critic)).collect(),
        rule: rules.map(|rules| href::whatif_with(lens.key(), &rules)),
        overlay: href::overlay(lens.key()),
        csv: format!("{}.csv", href::scores(lens.key())),
    }
}

/// What the critics said.
pub(crate) fn scores_body(lens: &Lens<'_>, query: &Query) -> ScoresBody {
    let scores = Scores::of(lens.index);
    if scores.lanes.is_empty() {
        return ScoresBody { nothing: nothing(lens), ..ScoresBody::default() };
    }
    let label = |n: usize| lens.label(n);
    let reason = |n: usize, critic: &str| reason(lens, n, critic);
    let starts = lens.index.lap_starts().get(1..).unwrap_or_default();
    let place = Place {
        key: lens.key(),
        steps: scores.steps,
        label: &label,
        reason: &reason,
        starts: starts.get(..starts.len().min(MAX_STARTS)).unwrap_or_default(),
        lanes: scores.lanes.len().min(MAX_LANES),
    };
    let lanes = scores.lanes.iter().take(MAX_LANES).enumerate();
    let more = scores.lanes.len().saturating_sub(MAX_LANES);
    let unknown = !query.critic.is_empty() && !scores.lanes.iter().any(|lane| lane.name == query.critic);
    let more = match (more, unknown) {
        (_, true) => format!("No critic of this run is called {}.", query.critic),
        (0, false) => String::new(),
        (more, false) => format!("{} have no lane here; the CSV has them all.", format::counted(more, "more critic")),
    };
    ScoresBody {
        nothing: Phrase::default(),
        lanes: lanes.map(|(id, lane)| LaneView::new(id, lane, query, &place)).collect(),
        more: more.into(),
        asked: asked_list(lens, &scores),
        heat: (scores.lanes.len() > MAX_WITHOUT_MAP).then(|| Heat::new(&scores, label)),
        table: table::table(lens, &scores, query),
        agreement: agreement_of(&scores),
    }
}

fn nothing(lens: &Lens<'_>) -> Phrase {
    let steps = lens.index.steps().len();
    let phrase = match steps {
        0 => Phrase::from("This run has no steps yet, so no critic has spoken."),
        1 => Phrase::from("No critic spoke in the one step of this run."),
        _ => Phrase::from(format!("No critic spoke in the {} of this run.", format::counted(steps, "step"))),
    };
    let more = " A critic is part of an agent: it scores each step and may ask for a retry or a stop.";
    if lens.summary.life.liveness.may_grow() { phrase.text(" The run goes on.") } else { phrase.text(more) }
}

/// The reason of the critic that asked first; the index keeps no other.
fn reason(lens: &Lens<'_>, n: usize, critic: &str) -> Option<String> {
    let step: &StepHead = lens.index.steps().get(n)?;
    let asks = step.critics.iter().find(|mark| matches!(mark.action, CriticAction::Retry | CriticAction::Stop))?;
    let own = lens.index.name(asks.name) == critic;
    step.critic_reason.as_ref().filter(|_| own).map(|reason| reason.to_string())
}

/// What the line of step `n` says of its critics; nothing where it cannot be read.
fn said_at(lens: &Lens<'_>, n: usize) -> Vec<Said> {
    let span = lens.index.steps().get(n).map(|step| step.span).unwrap_or_default();
    lens.lines.short_line(TraceFile::Steps, span).map(|line| said(&line)).unwrap_or_default()
}

fn asked_list(lens: &Lens<'_>, scores: &Scores) -> AskedList {
    let asked = scores.asked();
    let earlier = asked.len().saturating_sub(MAX_ASKED);
    let about = match earlier {
        0 => "the score that went with it, and the critic's next one".to_owned(),
        _ => format!("the last {MAX_ASKED}; {} before them are not listed", format::count(earlier as u64)),
    };
    let rows = asked.iter().skip(earlier).map(|asked| asked_row(lens, scores, asked)).collect();
    AskedList { about: about.into(), rows }
}

fn asked_row(lens: &Lens<'_>, scores: &Scores, asked: &Asked) -> AskedRow {
    let point = asked.point;
    let said = said_at(lens, point.n).into_iter().nth(point.place).unwrap_or_default();
    let words = if said.patch.is_empty() { said.reason } else { said.patch };
    let sign = match point.action {
        CriticAction::Retry => Sign::word("mk retry", "retry", if point.patches { "retry, patch" } else { "retry" }),
        CriticAction::Stop => Sign::word("mk stop", "critic", if point.patches { "stop, patch" } else { "stop" }),
        _ => Sign::plain("mk", "patch"),
    };
    let after = match (asked.next, point.score) {
        (Some((n, score)), before) => {
            let change = before.map(|before| format!(" {}", change(score - before))).unwrap_or_default();
            let score = Phrase::from(format!("{}{change} at ", format::score(score)));
            score.link(format!("step {}", lens.label(n)), lens.at_step(n))
        }
        (None, _) => Phrase::new().dim("no later score"),
    };
    AskedRow {
        step: Link::new(lens.label(point.n), lens.at_step(point.n)),
        critic: scores.lanes.get(asked.lane).map(|lane| lane.name.as_str()).unwrap_or_default().into(),
        before: point.score.map_or_else(|| "no score".to_owned(), format::score).into(),
        asked: sign,
        said: one_line(&words, SAID_CHARS).0.into(),
        after,
    }
}

/// `(+0.40)`.
fn change(by: f64) -> String {
    let text = format::score(by);
    if by > 0.0 && text != "0.00" { format!("(+{text})") } else { format!("({text})") }
}

fn agreement_of(scores: &Scores) -> Agreement {
    let name = |at: usize| scores.lanes.get(at).map(|lane| lane.name.as_str()).unwrap_or_default();
    let pairs = agreement(&scores.lanes);
    let left_out = if scores.lanes.len() > MAX_CRITICS {
        format!(" · pairs of the first {MAX_CRITICS} critics")
    } else {
        String::new()
    };
    let about = format!("Spearman's rank correlation over the steps that both scored, from −1 to 1{left_out}");
    let rows = pairs.iter().map(|pair| {
        let (value, words) = match pair.rank {
            Rank::TooFew => ("too few".to_owned(), "fewer than 3 steps with both scores"),
            Rank::Flat => ("none".to_owned(), "one of them never changes its score"),
            Rank::Of(rank) => (format::score(rank), in_other_words(rank)),
        };
        AgreementRow {
            names: format!("{} and {}", name(pair.a), name(pair.b)).into(),
            value: value.into(),
            steps: format::count(pair.steps as u64).into(),
            words: words.into(),
        }
    });
    Agreement { about: about.into(), rows: rows.collect() }
}

/// What a rank correlation says; the borders are the usual ones of textbooks, not of any test.
fn in_other_words(rank: f64) -> &'static str {
    match rank {
        0.7.. => "rise and fall together",
        0.3.. => "rise and fall together more often than not",
        -0.3.. => "have little to do with each other",
        -0.7.. => "one rises where the other falls more often than not",
        _ => "one rises where the other falls",
    }
}

/// The address of the page with another window of the table.
fn window_of(lens: &Lens<'_>, query: &Query, before: Option<usize>) -> String {
    format!("{}#numbers", address(lens.key(), &Query { before, ..query.clone() }))
}
