//! Lists the columns, one row each, in the order of the JSON.

use super::column::Kind::{Count, Flag, List, Millis, Score, Text, Time, Usd, Word};
use super::column::{Cell, Column, Kind, OfStep, Width, Words};
use super::step;
use crate::analysis::copies::CopyDifferences;
use crate::analysis::run_result::ShownStatus;
use crate::analysis::summary::{Cost, Summary};
use crate::analysis::verdict::RunStatus;
use crate::model::{Outcome, RunKey};

/// The status of a run that hasn't been read to its end. Its verdict isn't final.
pub(crate) const INDEXING: &str = "indexing";
/// The stop reason of a run without one.
pub(crate) const NO_STOP: &str = NOT_RECORDED;
/// The model of a run that doesn't record one.
pub(crate) const NO_MODEL: &str = NOT_RECORDED;
/// The word for a text that a run doesn't record.
const NOT_RECORDED: &str = "not recorded";

/// The format of a run whose manifest doesn't record it.
pub(super) const NO_FORMAT: &str = "unknown";

/// All columns.
pub(crate) static COLUMNS: &[Column] = &[
    row("run", "key", "name", Text(|run| Some(run.key.as_str())))
        .about("The run's key: its path relative to the root")
        .cell(20, "title", Width::Name)
        .in_list(),
    row("path", "path", "path", Text(|run| Some(&run.path)))
        .about("The path of the run's files")
        .long(),
    row(
        "run_id",
        "run_id",
        "run id",
        Text(|run| run.run_id.as_deref()),
    )
    .about("The id that the trace records"),
    // The status in the manifest. Board's own is in the column `status`.
    row(
        "manifest_status",
        "status",
        "manifest status",
        Text(|run| run.status.as_deref()),
    )
    .about("The status recorded in manifest.json"),
    row(
        "liveness",
        "liveness",
        "liveness",
        Word(|run| Some(run.life.liveness.word()).filter(|_| !run.partial)),
    )
    .about("Whether the run may still be running: finished, running, stalled, died, …"),
    row(
        "outcome",
        "outcome",
        "outcome",
        Word(|run| Some(run.verdict.outcome.as_str())),
    )
    .about("How it ended, in the same terms for all formats: completed, truncated, halted, failed, cancelled, …")
    .alias("class")
    .also(|run, out| {
        mark_words(run, out);
        recorded_elsewhere(run).for_each(|copy| out(copy.outcome.as_str()));
    }),
    row(
        "result",
        "result",
        "result",
        Word(|run| Some(run.result()?.as_str())),
    )
    .about("How the run turned out, regardless of what stopped it: success, finished, failed, limit, error, cancelled, unknown"),
    // A manifest that says `running` proves nothing. So queries match the manifest's status only if
    // it isn't one of board's own words.
    row(
        "status",
        "mark",
        "status",
        Word(|run| Some(status_word(run))),
    )
    .about("The word in lists: succeeded, finished, unsolved (together: answered), limit, error, died, …")
    .cell(10, "status", Width::Status)
    .in_list()
    .not_by_default()
    .also(|run, out| {
        spelled(run, out);
        if !run.partial && run.verdict.mark == RunStatus::Answered {
            out(run.shown_status().as_str());
        }
        run.status
            .as_deref()
            .filter(|word| !is_status_word(word))
            .into_iter()
            .for_each(out);
    })
    .of_step(OfStep::Words(step::mode)),
    row(
        "stop",
        "stop_reason",
        "stop reason",
        Word(|run| run.verdict.stop_reason.as_deref()),
    )
    .about("The recorded stop reason")
    .absent(NO_STOP)
    .also(|run, out| {
        // An earlier word for it, which bookmarks still contain.
        if run.verdict.stop_reason.is_none() {
            out("none");
        }
        recorded_elsewhere(run)
            .filter_map(|copy| copy.stop_reason.as_deref())
            .for_each(out)
    }),
    row(
        "verdict",
        "verdict",
        "verdict",
        Text(|run| Some(&run.verdict.sentence)),
    )
    .about("Why the run stopped, in a sentence")
    .cell(30, "verdict", Width::Outcome)
    .in_list()
    .long(),
    row(
        "verdict_second",
        "verdict_second",
        "verdict details",
        Text(|run| not_empty(&run.verdict.second)),
    )
    .about("A second fact about the end, or another problem")
    .long(),
    row(
        "contradictions",
        "contradictions",
        "contradictions",
        Count(|run| whole(run.verdict.contradictions.len())),
    )
    .about("The number of contradictions between the run's records"),
    row(
        "certainty",
        "certainty",
        "certainty",
        Word(|run| Some(run.verdict.certainty.as_str())),
    )
    .about("Whether the verdict is recorded, inferred or unknown"),
    row(
        "steps",
        "steps",
        "steps",
        Count(|run| whole(run.steps_known()?)),
    )
    .about("The number of steps")
    .sums()
    .cell(40, "steps", Width::Steps)
    .in_list()
    .of_step(OfStep::Numbers(step::place)),
    row(
        "events",
        "events",
        "events",
        Count(|run| whole(run.events_known()?)),
    )
    .about("The number of events")
    .sums()
    .of_step(OfStep::Numbers(step::events)),
    row(
        "segments",
        "segment_count",
        "runs in directory",
        Count(|run| whole(run.segments_known()?)),
    )
    .about("The number of runs recorded in the run's directory, one after another"),
    row(
        "errors",
        "errors",
        "errors",
        Count(|run| whole(run.errors_known()?)),
    )
    .about("The number of steps with an error")
    .sums(),
    row(
        "max_steps",
        "max_steps",
        "step limit",
        Count(|run| run.verdict.limit.map(|limit| limit.steps)),
    )
    .about("The step limit"),
    row(
        "max_steps_from",
        "max_steps_from",
        "limit set by",
        Word(|run| run.verdict.limit.map(|limit| limit.from.as_str())),
    )
    .about("What set the step limit"),
    row(
        "tokens",
        "tokens",
        "tokens",
        Count(|run| whole(run.tokens?)),
    )
    .about("The tokens used")
    .sums()
    .of_tokens()
    .cell(70, "tokens", Width::Number)
    .optional()
    .of_step(OfStep::Numbers(step::tokens)),
    row(
        "input",
        "tokens_in",
        "input tokens",
        Count(|run| whole(run.usage.input?)),
    )
    .about("The input tokens")
    .sums()
    .of_tokens(),
    row(
        "cached",
        "tokens_cached",
        "cached tokens",
        Count(|run| whole(run.usage.cached?)),
    )
    .about("The input tokens read from a cache")
    .sums()
    .of_tokens(),
    row(
        "output",
        "tokens_out",
        "output tokens",
        Count(|run| whole(run.usage.output?)),
    )
    .about("The output tokens")
    .sums()
    .of_tokens(),
    row(
        "reasoning",
        "tokens_reasoning",
        "reasoning tokens",
        Count(|run| whole(run.usage.reasoning?)),
    )
    .about("The reasoning tokens")
    .sums()
    .of_tokens(),
    // If any step lacks its tokens, the sum of the others is a lower bound, unless the run records
    // a total.
    row(
        "steps_without_tokens",
        "steps_without_tokens",
        "steps without token counts",
        Count(|run| whole(run.steps_without_tokens)),
    )
    .about("The number of steps that don't record their tokens")
    .alias("untold")
    .sums(),
    row(
        "tokens_estimated",
        "tokens_estimated",
        "tokens estimated",
        Flag(|run| run.tokens.map(|_| run.tokens_estimated)),
    )
    .about("Whether the tokens are estimates"),
    row(
        "model_calls",
        "model_calls",
        "model replies",
        Count(|run| whole(run.model_calls?)),
    )
    .about("The number of model replies")
    .sums(),
    row(
        "calls",
        "tool_calls",
        "tool calls",
        Count(|run| whole(run.tool_calls?)),
    )
    .about("The number of tool calls")
    .sums(),
    row(
        "tool_errors",
        "tool_errors",
        "failed tool calls",
        Count(|run| whole(run.tool_errors?)),
    )
    .about("The number of failed tool calls")
    .sums(),
    // Pages and queries use the recorded or the estimated cost. JSON has the two in separate
    // columns.
    row("cost", "", "cost", Usd(Summary::cost))
        .about("The cost in US dollars, recorded or estimated")
        .sums()
        .lower_bound(Summary::cost_at_least_usd)
        .cell(75, "cost", Width::Cost)
        .in_list()
        .optional(),
    row(
        "cost_recorded",
        "cost_usd",
        "recorded cost",
        Usd(|run| run.cost_usd.map(Cost::Recorded)),
    )
    .about("The recorded cost in US dollars")
    .sums(),
    row(
        "cost_estimated",
        "cost_estimated",
        "estimated cost",
        Usd(|run| run.cost_estimated_usd().map(Cost::Estimated)),
    )
    .about("The cost estimated from tokens and prices")
    .sums(),
    row(
        "cost_at_least",
        "cost_at_least",
        "minimum cost",
        Usd(|run| run.cost_at_least_usd().map(Cost::Estimated)),
    )
    .about("A lower bound on the cost: the estimate for the steps whose cost is known")
    .sums(),
    row(
        "duration",
        "duration_ms",
        "duration",
        Millis(|run| run.duration_ms),
    )
    .about("How long the run took")
    .sums()
    .alias("dur")
    .lower_bound(|run| run.duration_at_least_ms)
    .cell(60, "duration", Width::Duration)
    .optional()
    .of_step(OfStep::Numbers(step::seconds)),
    row(
        "duration_at_least",
        "duration_at_least_ms",
        "minimum duration",
        Millis(|run| run.duration_at_least_ms),
    )
    .about("The shortest time that the run may have taken, if the exact time is unknown"),
    row(
        "score",
        "last_score",
        "last score",
        Score(|run| run.last_score),
    )
    .about("The last score of a critic")
    .cell(50, "last score", Width::Spark)
    .optional()
    .in_list()
    .not_by_default()
    .of_step(OfStep::Numbers(step::scores))
    .phase("CRITIC"),
    row("critic", "critics", "critics", List(|run| &run.critics))
        .about("The names of the run's critics")
        .of_step(OfStep::Words(step::critics))
        .phase("CRITIC"),
    row("model", "model", "model", Text(|run| run.model.as_deref()))
        .about("The model")
        .absent(NO_MODEL)
        .cell(80, "model", Width::Text)
        .optional()
        .not_by_default(),
    row(
        "models",
        "models",
        "models, if several",
        List(|run| &run.models),
    )
    .also(|run, out| run.models_used().for_each(out))
    .about("The models, if there are several")
    .of_step(OfStep::Words(step::model)),
    row("title", "title", "title", Text(|run| Some(run.title())))
        .about("The title: the recorded one, else the first line of the task, else the file's name"),
    row("task", "task", "task", Text(|run| run.task.as_deref()))
        .about("The task")
        .absent(NOT_RECORDED)
        .long(),
    row(
        "target",
        "target",
        "target",
        Text(|run| run.target.as_deref()),
    )
    .about("The answer that the task expects")
    .absent(NOT_RECORDED)
    .cell(35, "target", Width::Text)
    .optional()
    .long(),
    row("log", "log", "log", Text(Summary::log))
        .about("The evaluation log that contains the run")
        .absent(NOT_RECORDED),
    row(
        "parent",
        "parent",
        "parent",
        Text(|run| run.parent.as_deref()),
    )
    .about("The parent run, which started this one"),
    row(
        "continues",
        "continues",
        "continues",
        Text(|run| run.continues.as_deref()),
    )
    .about("The run that this one continues"),
    row(
        "format",
        "format",
        "format",
        Text(|run| not_empty(&run.format)),
    )
    .about("The format of the trace")
    .absent(NO_FORMAT),
    row(
        "writer",
        "tool",
        "writer",
        Text(|run| run.tool.as_deref()),
    )
    .about("The program that wrote the trace"),
    row(
        "project",
        "project",
        "project",
        Text(|run| run.project.as_deref()),
    )
    .about("The project directory")
    .absent(NOT_RECORDED),
    row("turns", "turns", "turns", Count(|run| whole(run.turns?)))
        .about("The number of turns")
        .sums(),
    row(
        "children",
        "children",
        "child runs",
        Count(|run| whole(run.children?)),
    )
    .about("The number of child runs")
    .sums(),
    row(
        "files",
        "files_changed",
        "files changed",
        Count(|run| whole(run.files_changed?)),
    )
    .about("The number of files that the run changed")
    .sums(),
    row("started", "started_at", "started", Time(|run| run.started)).about("When the run started"),
    row("updated", "updated_at", "updated", Time(|run| run.updated))
        .about("When the run was last active: the last recorded time, or else the time of the files")
        .cell(90, "updated", Width::Age)
        .in_list(),
    row(
        "issues",
        "issues",
        "issues",
        Count(|run| whole(run.issues.0)),
    )
    .about("The number of issues in the run's files: problems and notes"),
    row(
        "problems",
        "problems",
        "problems",
        Count(|run| whole(run.issues.1)),
    )
    .about("The number of problems: issues that may affect what board shows"),
    row(
        "partial",
        "partial",
        "still indexing",
        Flag(|run| Some(run.partial)),
    )
    .about("Whether the run is still being indexed"),
    row(
        "duplicate_of",
        "duplicate_of",
        "duplicate of",
        Text(|run| run.relation.duplicate_of.as_ref().map(RunKey::as_str)),
    )
    .about("The run that has the same records and is counted instead"),
    row(
        "cost_in",
        "cost_in",
        "cost included in",
        Text(|run| run.relation.paid_by.as_ref().map(RunKey::as_str)),
    )
    .about("The run whose recorded cost includes this one's"),
    row(
        "also_at",
        "also_at",
        "also stored at",
        List(|run| &run.relation.also_at),
    )
    .about("Where the run's duplicates are"),
    row(
        "copies_say",
        "copies_say",
        "differences between duplicates",
        List(|run| &run.relation.copies_say),
    )
    .about("How the run's duplicates differ"),
    row(
        "copied_from",
        "copied_from",
        "copied from",
        Text(Summary::copied_from),
    )
    .about("The run from which the first records are copied"),
    row(
        "copied",
        "copied_steps",
        "copied steps",
        Count(|run| whole(run.copied_steps())),
    )
    .about("The number of steps copied from another run")
    .sums(),
    row("tag", "tags", "tags", List(|run| &run.tags))
        .about("The tags that the trace records, or that `board tag` added")
        .cell(32, "tags", Width::Text)
        .in_list()
        .optional(),
    row("agent", "", "agents", List(|run| &run.agents))
        .about("The names of the run's agents")
        .of_step(OfStep::Words(step::agent)),
    row("tool", "", "tools", List(|run| &run.tools))
        .about("The names of the tools that the run called")
        .of_step(OfStep::Words(step::tools))
        .phase("ACT"),
    row("file", "", "edited files", List(|run| &run.files_edited))
        .about("The paths of files that the run edited, as far as the trace records them")
        .of_step(OfStep::Words(step::files))
        .phase("ACT"),
    row(
        "failure",
        "",
        "failure",
        Text(|run| Some(&*run.failures.first()?.message)),
    )
    .about("What failed in the run, without numbers, paths and quoted text")
    .long()
    .also(|run, out| {
        for failure in &run.failures {
            out(&failure.message);
            out(&failure.id_text());
        }
    })
    .of_step(OfStep::Words(step::failure))
    .phase("ACT"),
    row("err", "", "has an error", Flag(erred))
        .about("Whether a step has an error")
        .of_step(OfStep::Flag(step::erred))
        .phase("ACT"),
];

/// A column with this name, key, label and value. With an empty key, the column isn't in the JSON.
const fn row(name: &'static str, key: &'static str, label: &'static str, kind: Kind) -> Column {
    let key = if key.is_empty() { None } else { Some(key) };
    Column {
        name,
        alias: None,
        key,
        label,
        about: label,
        kind,
        absent: None,
        also: None,
        of_step: None,
        phase: None,
        long: false,
        sums: false,
        lower_bound: None,
        of_tokens: false,
        cell: None,
    }
}

impl Column {
    /// Describes what the column contains.
    const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    const fn alias(self, alias: &'static str) -> Self {
        Self {
            alias: Some(alias),
            ..self
        }
    }

    const fn absent(self, word: &'static str) -> Self {
        Self {
            absent: Some(word),
            ..self
        }
    }

    const fn also(self, words: Words<Summary>) -> Self {
        Self {
            also: Some(words),
            ..self
        }
    }

    const fn of_step(self, of_step: OfStep) -> Self {
        Self {
            of_step: Some(of_step),
            ..self
        }
    }

    const fn phase(self, phase: &'static str) -> Self {
        Self {
            phase: Some(phase),
            ..self
        }
    }

    const fn long(self) -> Self {
        Self { long: true, ..self }
    }

    /// Marks a column whose values can be added up over several runs.
    const fn sums(self) -> Self {
        Self { sums: true, ..self }
    }

    /// Sets the lower bound that is shown if the value is unknown.
    const fn lower_bound(self, lower_bound: fn(&Summary) -> Option<f64>) -> Self {
        Self {
            lower_bound: Some(lower_bound),
            ..self
        }
    }

    /// Marks a token sum, which lacks the tokens of steps that don't record them.
    const fn of_tokens(self) -> Self {
        Self {
            of_tokens: true,
            ..self
        }
    }

    /// Shows the column in the run table, at a position from the left.
    const fn cell(self, place: u8, head: &'static str, width: Width) -> Self {
        Self {
            cell: Some(Cell {
                place,
                head,
                width,
                optional: false,
                in_list: false,
                by_default: true,
            }),
            ..self
        }
    }

    /// Shows the column in the run table only if the reader chooses it.
    const fn not_by_default(self) -> Self {
        match self.cell {
            Some(cell) => Self {
                cell: Some(Cell {
                    by_default: false,
                    ..cell
                }),
                ..self
            },
            None => self,
        }
    }

    /// Shows the column in `board list` too.
    const fn in_list(self) -> Self {
        match self.cell {
            Some(cell) => Self {
                cell: Some(Cell {
                    in_list: true,
                    ..cell
                }),
                ..self
            },
            None => self,
        }
    }

    /// Hides the column if no run shown has a value.
    const fn optional(self) -> Self {
        match self.cell {
            Some(cell) => Self {
                cell: Some(Cell {
                    optional: true,
                    ..cell
                }),
                ..self
            },
            None => self,
        }
    }
}

fn whole(number: impl TryInto<i64>) -> Option<i64> {
    number.try_into().ok()
}

fn not_empty(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the copies of a run that record an end, if the run's own records don't.
fn recorded_elsewhere(run: &Summary) -> impl Iterator<Item = &CopyDifferences> {
    run.relation
        .differences
        .iter()
        .filter(|copy| copy.records_end(run))
}

fn status_word(run: &Summary) -> &'static str {
    if run.partial {
        INDEXING
    } else {
        run.verdict.mark.word()
    }
}

/// Passes the status to `out`, also with `_` instead of its space.
fn mark_words(run: &Summary, out: &mut dyn FnMut(&str)) {
    out(status_word(run));
    spelled(run, out);
}

/// Passes the status with `_` instead of its space to `out`, if it has one, so that a query needs
/// no quotes.
fn spelled(run: &Summary, out: &mut dyn FnMut(&str)) {
    let word = status_word(run);
    if word.contains(' ') {
        out(&word.replace(' ', "_"));
    }
    // The word that earlier versions showed.
    if !run.partial && run.verdict.mark == RunStatus::Stopped {
        out("own rule");
        out("own_rule");
    }
}

fn is_status_word(word: &str) -> bool {
    let marks = RunStatus::ALL.map(RunStatus::word);
    let shown = ShownStatus::ALL.map(ShownStatus::as_str);
    marks
        .iter()
        .chain(&shown)
        .any(|own| own.eq_ignore_ascii_case(word))
        || word.eq_ignore_ascii_case(INDEXING)
}

/// Returns whether a step had an error or the run failed. Returns `None` if no error is known and
/// the run is still being read or lines are missing.
fn erred(run: &Summary) -> Option<bool> {
    let failed = run.verdict.outcome == Outcome::Failed && !run.partial;
    let is_whole = !run.partial && !run.errors_unknown;
    if run.errors > 0 || failed {
        Some(true)
    } else {
        is_whole.then_some(false)
    }
}
