//! Evaluates other stop rules on many runs: the page at `/whatif`, the part that updates it, and the
//! JSON.
//!
//! The page starts with the answer in a sentence, followed by the form, the curve and the tables
//! behind the answer. A request starts a computation and changes nothing else. Repeating the request
//! returns the same computation.

mod curve;
mod table;
mod task;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use askama::Template;
use askama::filters::HtmlSafe;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use task::SweepTask;

use crate::analysis::format::{self, capitalised, count, counted};
use crate::analysis::headline::Headline;
use crate::analysis::query::{Ignored, Query};
use crate::analysis::summary::Summary;
use crate::analysis::sweep::{
    Choice, Effect, InvalidSweep, Measure, PreparedSweep, Sweep, SweepRule, SweepSpec, Typed,
    reasons, sweep_rules,
};
use crate::model::time::utc;
use crate::page::answer::{html, json};
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::{Answer, WebError};
use crate::page::jobs::over::Over;
use crate::page::jobs::{Job, Question};
use crate::page::params::Params;
use crate::page::part::job::{self, AsOf, Progress, Status};
use crate::page::part::{href, text};
use crate::page::shell::{NavItem, Shell};
use crate::page::sweep::curve::Curve;
use crate::page::sweep::table::{Table, amount};

/// Limits the critics to choose from.
const MAX_CRITICS: usize = 100;

/// `GET /whatif`
pub(crate) async fn page(State(state): State<AppState>, params: Params) -> Answer {
    let form = form(&params);
    let (status, job) = match ask(&state, &form, &params).await {
        Ok(job) => (StatusCode::OK, Ok(job)),
        // Errors in a rule are shown next to its field.
        Err(Refused::Rule(why)) => (StatusCode::BAD_REQUEST, Err(why)),
        Err(Refused::Other(error)) => return Err(error),
    };
    let shell = state.shell(NavItem::WhatIf);
    let page = show(&state, form, job, move |view| {
        html(&SweepPage {
            shell: Shell {
                title: view.title(),
                ..shell
            },
            view,
        })
    });
    Ok((status, page.await?).into_response())
}

/// `GET /live/whatif`
pub(crate) async fn part(State(state): State<AppState>, params: Params) -> Answer {
    let form = form(&params);
    let job = ask(&state, &form, &params).await?;
    show(&state, form, Ok(job), |view| html(&SweepPart { view })).await
}

/// `GET /api/whatif`
pub(crate) async fn api(State(state): State<AppState>, params: Params) -> Answer {
    let form = form(&params);
    let job = ask(&state, &form, &params).await?;
    let document = |view: View<'_>| {
        json(
            &view
                .standing
                .map(|standing| document(view.context, &standing)),
        )
    };
    show(&state, form, Ok(job), document).await
}

/// Why a question is refused.
enum Refused {
    /// An invalid rule or limit.
    Rule(InvalidSweep),
    Other(WebError),
}

impl From<Refused> for WebError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Rule(InvalidSweep { name, why, example }) => {
                let mut error = WebError::bad_request("Invalid rule or limit", &format!("{why}."));
                if let Some(name) = name {
                    error = error.named(&name);
                }
                match example {
                    Some(example) => error.hint(&format!("Example: {example}")),
                    None => error,
                }
            }
            Refused::Other(error) => error,
        }
    }
}

impl From<WebError> for Refused {
    fn from(error: WebError) -> Self {
        Refused::Other(error)
    }
}

fn form(params: &Params) -> Form {
    let text = |name: &str| params.text(name).to_owned();
    Form {
        query: text("q"),
        sweep: text("sweep"),
        values: text("values"),
        critic: text("critic"),
        streak: text("streak"),
        rules: params
            .all("rule")
            .unwrap_or_default()
            .into_iter()
            .filter(|rule| !rule.trim().is_empty())
            .collect(),
    }
}

/// Finds or starts the job for the question.
async fn ask(
    state: &AppState,
    form: &Form,
    params: &Params,
) -> Result<Arc<Job<SweepTask>>, Refused> {
    let typed = Typed {
        sweep: &form.sweep,
        values: &form.values,
        critic: &form.critic,
        streak: &form.streak,
        rules: form.rules.iter().map(String::as_str).collect(),
    };
    let spec = SweepSpec::parse(&typed).map_err(Refused::Rule)?;
    let query = state.query(&form.query);
    let question = Question {
        text: format!("{query}\n{spec}"),
        times: query.times(),
    };
    let library = Arc::clone(&state.library);
    let make = move || {
        let over = Over::of(&library, query);
        let summaries: Vec<Arc<Summary>> = over.runs.iter().map(|run| run.summary()).collect();
        let prepared = spec.ready(summaries.iter().map(|summary| &**summary));
        prepared
            .map(|prepared| SweepTask::new(prepared, over))
            .map_err(|wrong| Refused::Rule(wrong.into()))
    };
    state.sweeps.ask(params, question, make, |_| false).await
}

/// Renders the current state of the question on a blocking thread.
async fn show(
    state: &AppState,
    form: Form,
    job: Result<Arc<Job<SweepTask>>, InvalidSweep>,
    make: impl FnOnce(View<'_>) -> Answer + Send + 'static,
) -> Answer {
    let (library, zone, clock) = (
        Arc::clone(&state.library),
        state.zone.clone(),
        state.clock(),
    );
    blocking(move || {
        let summaries: Vec<Arc<Summary>> =
            library.counted().iter().map(|run| run.summary()).collect();
        let critics: BTreeSet<&str> = summaries
            .iter()
            .flat_map(|summary| &summary.critics)
            .map(String::as_str)
            .collect();
        let (job, fault) = match job {
            Ok(job) => (Some(job), None),
            Err(why) => (None, Some(why)),
        };
        let query = Query::parse_at(&form.query, &clock);
        let selected = match &job {
            Some(job) => job.task.over.runs.len(),
            None => summaries
                .iter()
                .filter(|summary| query.matches(&***summary))
                .count(),
        };
        let context = Context {
            critics: critics
                .into_iter()
                .take(MAX_CRITICS)
                .map(str::to_owned)
                .collect(),
            known: summaries.len(),
            selected,
            zone,
            query,
            form,
            fault,
        };
        let Some(job) = job else {
            return make(View {
                context: &context,
                standing: None,
            });
        };
        // Read the status before the progress, so that a finished question has its sums.
        let status = job.status(&job.task.over, &library);
        let progress = job.task.progress();
        let standing = Standing {
            status,
            done: progress.done,
            total: job.task.over.runs.len(),
            prepared: &job.task.prepared,
            sweep: progress.sweep.as_deref(),
        };
        make(View {
            context: &context,
            standing: Some(standing),
        })
    })
    .await?
}

/// The form fields as typed. The address contains them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Form {
    /// `q`: the query that selects runs.
    query: String,
    /// `sweep`: the rule whose limit is varied.
    sweep: String,
    /// `values`: the limits to try.
    values: String,
    /// `critic`: the critic, for `critic_below`.
    critic: String,
    /// `streak`: the number of consecutive low scores, for `critic_below`.
    streak: String,
    /// `rule`: the rules to evaluate unchanged.
    rules: Vec<String>,
}

impl Form {
    /// Returns an address for the same question, with one more parameter.
    fn url(&self, path: &str, more: (&str, &str)) -> String {
        let mut pairs = vec![
            ("q", self.query.as_str()),
            ("sweep", &self.sweep),
            ("values", &self.values),
            ("critic", &self.critic),
            ("streak", &self.streak),
        ];
        pairs.extend(self.rules.iter().map(|rule| ("rule", rule.as_str())));
        pairs.push(more);
        href::with_query(path, &pairs)
    }
}

/// The data the page needs in addition to the sums.
#[derive(Debug, Clone)]
struct Context {
    form: Form,
    /// The parsed query.
    query: Query,
    /// The invalid rule or limit that prevents the evaluation.
    fault: Option<InvalidSweep>,
    /// The critics to choose from.
    critics: Vec<String>,
    /// The number of known runs, and how many of them the query selects.
    known: usize,
    selected: usize,
    zone: TimeZone,
}

/// The progress of the question.
#[derive(Debug, Clone, Copy)]
struct Standing<'a> {
    status: Status,
    done: usize,
    total: usize,
    prepared: &'a PreparedSweep,
    /// The sums, once available.
    sweep: Option<&'a Sweep>,
}

/// A question and its answer. `standing` is missing until a question is asked.
#[derive(Debug, Clone, Copy)]
struct View<'a> {
    context: &'a Context,
    standing: Option<Standing<'a>>,
}

/// The page at `/whatif`.
#[derive(Debug, Template)]
#[template(path = "sweep/page.html")]
struct SweepPage<'a> {
    shell: Shell,
    view: View<'a>,
}

#[derive(Debug, Template)]
#[template(path = "sweep/sweep_poll.html")]
struct SweepPart<'a> {
    view: View<'a>,
}

/// The answer in a sentence, and the time it refers to.
#[derive(Debug, Template)]
#[template(path = "sweep/sweep_head.html")]
struct Head<'a> {
    view: View<'a>,
}

impl HtmlSafe for Head<'_> {}

/// The content below the form.
#[derive(Debug, Template)]
#[template(path = "sweep/sweep_body.html")]
struct Body<'a> {
    progress: Option<Progress>,
    /// The curve of the varied rule, or the reason why it can't be drawn.
    curve: Option<Result<Curve<'a>, &'static str>>,
    limits: Option<Table<'a>>,
    rules: Option<Table<'a>>,
    notes: Vec<String>,
}

impl HtmlSafe for Body<'_> {}

impl<'a> View<'a> {
    fn title(&self) -> String {
        let sweep_rule = self
            .standing
            .and_then(|standing| standing.prepared.sweep_rule());
        sweep_rule.map_or_else(
            || "What-if".to_owned(),
            |sweep_rule| format!("What-if: {}", sweep_rule.name()),
        )
    }

    /// Returns the address that updates the page while the question is being answered.
    fn poll(&self) -> Option<String> {
        self.standing?
            .status
            .state
            .is_running()
            .then(|| self.context.form.url("/live/whatif", ("", "")))
    }

    /// Lists the rules that can be varied: the name, the unit of the limit, and whether it is
    /// selected.
    fn sweep_rules(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        let sweep_rule = self
            .standing
            .and_then(|standing| standing.prepared.sweep_rule());
        let chosen = sweep_rule.map_or(&*self.context.form.sweep, |sweep_rule| sweep_rule.name());
        sweep_rules().map(move |(name, counts)| (name, counts, name == chosen))
    }

    /// Describes which runs the query selects.
    fn selected(&self) -> String {
        if self.context.known == 0 {
            return "none yet".to_owned();
        }
        let known = count(self.context.known as u64);
        if self.context.form.query.trim().is_empty() {
            return format!("all {known}");
        }
        format!("{} of {known}", count(self.context.selected as u64))
    }

    /// Returns why the question can't be evaluated, as the headline.
    fn fault(&self) -> Option<Headline> {
        let InvalidSweep { name, why, example } = self.context.fault.as_ref()?;
        let lead = match name {
            Some(name) if !why.contains(&format!("`{name}`")) => {
                format!("{}: {why}.", text::one_line(name, 80).0)
            }
            Some(_) | None => format!("{}.", capitalised(why)),
        };
        Some(match example {
            Some(example) => Headline::from(lead).and(&format!("Example: {example}.")),
            None => lead.into(),
        })
    }

    fn head(&self) -> Head<'a> {
        Head { view: *self }
    }

    fn as_of(&self, standing: &Standing<'_>) -> AsOf<'a> {
        let href = self
            .context
            .form
            .url("/whatif", ("again", &standing.status.number.to_string()));
        AsOf {
            status: standing.status,
            zone: &self.context.zone,
            again: "Evaluate again",
            href,
        }
    }

    fn progress(&self, standing: &Standing<'_>) -> Option<Progress> {
        standing.status.state.is_running().then(|| Progress {
            counts: "Runs evaluated",
            done: standing.done as u64,
            total: standing.total as u64,
            words: format!(
                "{} of {}",
                count(standing.done as u64),
                counted(standing.total, "run")
            ),
            cancel: self
                .context
                .form
                .url("/whatif", ("cancel", &standing.status.number.to_string())),
            reload: self.context.form.url("/whatif", ("", "")),
        })
    }

    fn body(&self) -> Body<'a> {
        let progress = self.standing.and_then(|standing| self.progress(&standing));
        let empty = Body {
            progress,
            curve: None,
            limits: None,
            rules: None,
            notes: Vec::new(),
        };
        let Some(standing) = self.standing else {
            return empty;
        };
        let Some(sweep) = standing.sweep.filter(|sweep| sweep.runs > 0) else {
            return empty;
        };
        let sweep_rule = standing.prepared.sweep_rule();
        let best = sweep_rule.and_then(|_| sweep.best());
        Body {
            curve: sweep_rule
                .map(|sweep_rule| Curve::of(standing.prepared, sweep_rule, sweep, best)),
            limits: Table::limits(standing.prepared, sweep, best),
            rules: Table::rules(standing.prepared, sweep),
            notes: notes(&standing, sweep),
            ..empty
        }
    }
}

/// The effect that one rule would have had on all runs.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SweepRule")]
struct Rule<'a> {
    rule: String,
    /// The limit, if the rule is the varied one.
    value: Option<f64>,
    #[serde(flatten)]
    effect: &'a Effect,
}

/// A what-if question over many runs. `answer` and the fields after it are null until there is a
/// result.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Sweep")]
pub(crate) struct SweepDocument<'a> {
    state: job::State,
    /// The id of this answer. `again=NUMBER` repeats the question, and `cancel=NUMBER` cancels it.
    number: i64,
    done: usize,
    total: usize,
    /// When the runs were selected.
    as_of: Option<String>,
    /// Runs that changed, appeared or disappeared since.
    changed: usize,
    query: String,
    /// The query's terms that were ignored.
    ignored: &'a [Ignored],
    /// The name of the varied rule.
    sweep: Option<&'static str>,
    /// The limits of the varied rule.
    values: &'a [f64],
    /// The answer in a sentence.
    answer: Option<String>,
    /// The limit that saves the most without losing an answer.
    best: Option<String>,
    runs: Option<&'a Sweep>,
    limits: Option<Vec<Rule<'a>>>,
    /// The rules that aren't varied.
    rules: Option<Vec<Rule<'a>>>,
    /// All of these rules combined, if there are several.
    together: Option<Rule<'a>>,
}

/// Returns a question in its current state.
fn document<'a>(context: &'a Context, standing: &Standing<'a>) -> SweepDocument<'a> {
    let (prepared, sums) = (standing.prepared, standing.sweep);
    let values = prepared.values();
    let limits = |sums: &'a Sweep| {
        let limits = prepared.names().zip(values).zip(sums.limits());
        limits
            .map(|((rule, value), effect)| Rule {
                rule,
                value: Some(*value),
                effect,
            })
            .collect::<Vec<_>>()
    };
    let rules = |sums: &'a Sweep| {
        let rules = prepared.names().skip(values.len()).zip(sums.rules());
        rules
            .map(|(rule, effect)| Rule {
                rule,
                value: None,
                effect,
            })
            .collect::<Vec<_>>()
    };
    let together = sums
        .filter(|_| prepared.asks_together())
        .and_then(|sums| sums.rules().last());
    SweepDocument {
        state: standing.status.state,
        number: standing.status.number,
        done: standing.done,
        total: standing.total,
        as_of: utc(standing.status.number),
        changed: standing.status.changed,
        query: context.query.to_string(),
        ignored: &context.query.ignored,
        sweep: prepared.sweep_rule().map(|sweep_rule| sweep_rule.name()),
        values,
        answer: sums.map(|_| {
            let answer = answer(standing).to_string();
            // The API's text has no final period.
            answer
                .strip_suffix('.')
                .map(str::to_owned)
                .unwrap_or(answer)
        }),
        best: best(standing).map(|(name, _)| name),
        runs: sums,
        limits: sums.map(limits),
        rules: sums.map(rules),
        together: together.map(|effect| Rule {
            rule: "all of them".to_owned(),
            value: None,
            effect,
        }),
    }
}

/// Returns the limit that saves the most without losing an answer: its rule as written, and its
/// effect.
fn best<'s>(standing: &Standing<'s>) -> Option<(String, &'s Effect)> {
    let sweep = standing.sweep?;
    let place = sweep.best()?;
    Some((
        standing.prepared.names().nth(place)?,
        sweep.limits().get(place)?,
    ))
}

/// Returns the answer.
fn answer(standing: &Standing<'_>) -> Headline {
    let runs = counted(standing.total, "run");
    let Some(sweep) = standing.sweep else {
        let headline = match standing.status.state {
            job::State::Failed => "The evaluation failed. board's log has the details".to_owned(),
            job::State::Cancelled => format!("Cancelled after 0 of {runs}"),
            job::State::Running | job::State::Done => {
                format!("Evaluating {} on {runs}", what(standing))
            }
        };
        return sentence(headline);
    };
    if standing.total == 0 {
        return sentence("No runs match".to_owned());
    }
    let answer = match (best(standing), standing.prepared.sweep_rule()) {
        (Some((name, effect)), _) => effect_of(&name, effect, sweep, sweep.measure()),
        (None, Some(sweep_rule)) => no_best(standing, sweep_rule, sweep),
        (None, None) => all_rules(standing, sweep),
    };
    match standing.status.state {
        job::State::Cancelled => {
            let done = count(standing.done as u64);
            answer.after(&format!("Cancelled after {done} of {runs}. So far: "))
        }
        _ => answer,
    }
}

fn sentence(words: String) -> Headline {
    Headline::from(words + ".")
}

/// Describes the question: `max_steps at 40 limits and 2 rules`.
fn what(standing: &Standing<'_>) -> String {
    let limits = standing.prepared.values().len();
    let rules = standing.prepared.names().count() - limits;
    let limits = standing
        .prepared
        .sweep_rule()
        .map(|sweep_rule| format!("{} at {}", sweep_rule.name(), counted(limits, "limit")));
    let rules = (rules > 0).then(|| counted(rules, "rule"));
    let both: Vec<String> = limits.into_iter().chain(rules).collect();
    both.join(" and ")
}

/// Returns the answer if no limit saves anything without losing an answer.
fn no_best(standing: &Standing<'_>, sweep_rule: &SweepRule, sweep: &Sweep) -> Headline {
    let (name, limits) = (sweep_rule.name(), sweep.limits());
    if limits.iter().all(|effect| effect.unknown == sweep.runs) {
        return sentence(format!("Not enough data to evaluate {name} on any run"));
    }
    if limits.iter().all(|effect| effect.cut == 0) {
        return sentence(format!("{name} stops no run early at the limits tried"));
    }
    let unit = if sweep.measure() == Measure::Tokens {
        "tokens"
    } else {
        "steps"
    };
    let named = |place: usize| standing.prepared.names().nth(place).zip(limits.get(place));
    let effect = |place: usize| {
        named(place).map(|(rule, effect)| effect_of(&rule, effect, sweep, sweep.measure()))
    };
    let measure = sweep.measure();
    let is_known = limits
        .iter()
        .all(|effect| effect.sum(measure).runs == sweep.runs - effect.unknown);
    match (sweep.choice(), limits.len()) {
        (Choice::Nothing, _) if !is_known => sentence(format!(
            "The savings from {name} are unknown because the runs it stops don't record them"
        )),
        (_, 1) => effect(0).unwrap_or_default(),
        (Choice::Nothing, _) => {
            let cutting = limits
                .iter()
                .position(|effect| effect.cut > 0)
                .and_then(effect);
            let cutting = cutting.unwrap_or_default();
            cutting.after(&format!("No limit of {name} saves {unit}. For example: "))
        }
        (Choice::NoAnswers, _) => sentence(format!(
            "No limit of {name} is better than another: none of these runs has an answer to lose"
        )),
        (Choice::Tie(place), _) if limits.get(place).is_some_and(|effect| effect.lost == 0) => {
            let one = effect(place).unwrap_or_default();
            one.and("Other limits do equally well.")
        }
        (Choice::Tie(place), _) => {
            least_costly(unit, effect(place)).and("Other limits lose just as many.")
        }
        (Choice::One(place), _) => least_costly(unit, effect(place)),
    }
}

/// Returns the answer if every limit that saves anything loses answers, with the limit that loses
/// the fewest.
fn least_costly(unit: &str, effect: Option<Headline>) -> Headline {
    let effect = effect.unwrap_or_default().to_string();
    sentence(format!("Every limit that saves {unit} loses answers")).and(&format!("Best: {effect}"))
}

fn all_rules(standing: &Standing<'_>, sweep: &Sweep) -> Headline {
    let Some(last) = sweep.rules().last() else {
        return Headline::default();
    };
    let names: Vec<String> = standing.prepared.names().collect();
    let name = match names.as_slice() {
        [one] => one.clone(),
        [_, _] => "Combining both rules".to_owned(),
        all => format!("Combining all {} rules", all.len()),
    };
    effect_of(&name, last, sweep, sweep.measure_of(last))
}

/// Describes a rule's effect: `max_steps=14 saves 74,902 tokens (12%) and loses no answers. It stops
/// 21 of 130 runs early.`
fn effect_of(name: &str, effect: &Effect, sweep: &Sweep, measure: Measure) -> Headline {
    // The sentence covers only the runs that could be evaluated.
    let runs = match effect.unknown {
        0 => counted(sweep.runs as usize, "run"),
        some => counted((sweep.runs - some) as usize, "evaluated run"),
    };
    if effect.cut == 0 {
        return sentence(format!("{name} stops none of {runs} early"));
    }
    let answers = sweep.answers.saturating_sub(effect.unknown_answers);
    let lost = match (effect.lost, answers) {
        (_, 0) => String::new(),
        (0, _) => " and loses no answers".to_owned(),
        (lost, _) => format!(
            " and loses {} of {}",
            count(lost),
            counted(answers as usize, "answer")
        ),
    };
    let sum = effect.sum(measure);
    let share = format::percent(sum.saved, sum.recorded());
    let evaluated = sweep.runs - effect.unknown;
    let is_known = match measure {
        Measure::Ms => "isn't known",
        Measure::Steps | Measure::Tokens => "aren't known",
    };
    let over = match evaluated.saturating_sub(sum.runs) {
        0 => String::new(),
        lacking => format!(
            " The {} of {} of these runs {is_known}.",
            measure.word(),
            count(lacking)
        ),
    };
    let about = if measure == Measure::Tokens && sweep.estimated > 0 && sum.saved > 0 {
        "≈"
    } else {
        ""
    };
    let saved = format!("{about}{}", amount(sum.saved, measure));
    let none = if answers == 0 {
        ", and none of them had an answer to lose"
    } else {
        ""
    };
    let answer = sentence(format!("{name} saves {saved} ({share}){lost}"));
    let cut = count(effect.cut);
    answer.and(&format!("It stops {cut} of {runs} early{none}.{over}"))
}

/// Returns a sentence with the number of runs that couldn't be evaluated, if any.
fn unevaluated(standing: &Standing<'_>) -> Option<String> {
    let sweep = standing.sweep?;
    let place = match sweep.choice() {
        Choice::One(place) | Choice::Tie(place) => place,
        Choice::Nothing | Choice::NoAnswers => 0,
    };
    let limit = standing
        .prepared
        .sweep_rule()
        .and_then(|_| standing.prepared.names().nth(place));
    let chosen = limit.as_ref().and_then(|_| sweep.limits().get(place));
    let effect = chosen
        .or(sweep.rules().last())
        .filter(|effect| effect.unknown > 0)?;
    let runs = counted(effect.unknown as usize, "run");
    // Another limit may be known for more runs or fewer.
    let runs = match limit.filter(|_| sweep.limits().len() > 1) {
        Some(limit) => format!("At {limit}, {runs}"),
        None => runs,
    };
    Some(match effect.unknown_answers {
        0 => format!("{runs} couldn't be evaluated."),
        1 => format!("{runs} couldn't be evaluated (1 had an answer)."),
        answers => {
            format!(
                "{runs} couldn't be evaluated ({} had answers).",
                count(answers)
            )
        }
    })
}

/// Lists the limitations of the numbers, one sentence each.
fn notes(standing: &Standing<'_>, sweep: &Sweep) -> Vec<String> {
    let runs = |number: u64, one: &str, more: &str| match number {
        0 => None,
        1 => Some(format!("One run {one}")),
        _ => Some(format!("{} runs {more}", count(number))),
    };
    let mut notes: Vec<String> = reasons(sweep)
        .into_iter()
        .map(|(needs, runs)| {
            let of = counted(runs as usize, "run");
            if sweep.limits().len() > 1 {
                format!("{of} couldn't be evaluated at some limits: {needs}")
            } else {
                format!("{of} couldn't be evaluated: {needs}")
            }
        })
        .collect();
    let lacks = sweep.limits().iter().any(|effect| effect.unknown > 0);
    notes.extend(
        lacks.then(|| {
            "Answers lost and kept cover only the runs evaluated at that limit".to_owned()
        }),
    );
    let steps_only = standing.prepared.sweep_rule().is_some() && sweep.measure() == Measure::Steps;
    notes.extend(steps_only.then(|| {
        "Most runs used no tokens or don't record them, so limits are compared by steps".to_owned()
    }));
    notes.extend(runs(
        sweep.estimated,
        "has estimated token counts",
        "have estimated token counts",
    ));
    notes.extend(runs(
        sweep.inferred,
        "doesn't record the values that rules check, so the values are inferred from its events",
        "don't record the values that rules check, so the values are inferred from their events",
    ));
    notes.extend(runs(
        sweep.going,
        "hasn't ended. Only its record so far counts",
        "haven't ended. Only their records so far count",
    ));
    notes.extend(runs(
        sweep.vanished,
        "disappeared before it could be evaluated",
        "disappeared before they could be evaluated",
    ));
    notes.extend(runs(
        sweep.unread,
        "wasn't evaluated because it isn't fully read yet or was evicted from its store's cache",
        "weren't evaluated because they aren't fully read yet or were evicted from their store's cache",
    ));
    notes.push("What a run would have done after its recorded end is unknown. A rule that fires only after that counts as not reached".to_owned());
    notes.push(
        "Time saved is measured to the end of each run's last step, on the recording machine's clock"
            .to_owned(),
    );
    notes
}
