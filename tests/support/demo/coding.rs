//! A coding agent repairs a program: it runs the tests, finds the bug, edits the file, and runs the
//! tests again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cast::{Actor, Decided, act, answer, engine, field, reviewer};
use super::stage::{Run, Stage};
use trace_board::engine::{Action, CriticCx, Done, Opinion, State, StepCx, Task, ToolResult};
use trace_board::error::Result;
use trace_board::tools::{ListDir, ReadFile, ReplaceLines, Search};

const CART: &str = r#"# A shopping cart. Prices are in cents.

# total PRICE... : the sum of all prices
total() {
    sum=0
    shift
    for price in "$@"; do
        sum=$((sum + price))
    done
    echo "$sum"
}

# discount SUM PERCENT : the sum after the discount
discount() {
    echo $(($1 - $1 * $2 / 10))
}
"#;

const TESTS: &str = r#". ./cart.sh
failed=0

# check NAME GOT WANTED
check() {
    if [ "$2" = "$3" ]; then
        echo "ok   $1"
    else
        echo "FAIL $1: got $2, wanted $3"
        failed=$((failed + 1))
    fi
}

check "total of nothing" "$(total 0)" 0
check "total of three" "$(total A B C)" SUM
check "discount of nothing" "$(discount SUM 0)" SUM
check "discount of a tenth" "$(discount SUM0 10)" NINTHS
echo "$failed of 4 failed"
[ "$failed" -eq 0 ]
"#;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Repair {
    todo: Todo,
    tests: Tests,
    /// The function under investigation.
    suspect: Option<String>,
    edits: Vec<Edit>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Todo {
    #[default]
    Look,
    Test,
    Locate,
    Read {
        line: u64,
    },
    Edit {
        line: u64,
        old: String,
        new: String,
    },
    Report,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Tests {
    runs: u64,
    exit_code: Option<i64>,
    passed: u64,
    failures: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Edit {
    line: u64,
    old: String,
    new: String,
}

/// A coding agent with two critics, one for tests and one for style.
pub(super) fn fix_bug(stage: &Stage) -> Result<Run> {
    let prices = [(); 3].map(|()| stage.dice.between(25, 400));
    let sum: u64 = prices.iter().sum();
    let tests = TESTS.replace("A B C", &prices.map(|price| price.to_string()).join(" "));
    let tests = tests
        .replace("SUM0", &(sum * 10).to_string())
        .replace("SUM", &sum.to_string());
    stage.file("cart.sh", CART);
    stage.file(
        "test_cart.sh",
        &tests.replace("NINTHS", &(sum * 9).to_string()),
    );
    let workspace = stage.workspace()?;
    let engine = engine(Actor::new(stage, "coder", Repair::default(), decide).reduce(reduce))
        .tool(ListDir::new(workspace.clone()))
        .tool(ReadFile::new(workspace.clone(), 4 << 10))
        .tool(Search::new(workspace.clone()))
        .tool(ReplaceLines::new(workspace))
        .tool(stage.shell()?)
        .critic(reviewer("tests", tests_pass))
        .critic(reviewer("style", lines_are_short))
        .max_steps(20);
    let task = Task::new("The tests for cart.sh fail. Find out why and fix it.")
        .id("fix-cart")
        .success("sh test_cart.sh exits with 0")
        .success("test_cart.sh is unchanged");
    stage.play(engine, task)
}

fn decide(state: &State<Repair>, _: &StepCx<'_>) -> Decided {
    let Repair {
        todo,
        tests,
        suspect,
        edits,
    } = &state.data;
    let suspect = suspect.as_deref().unwrap_or_default();
    match todo {
        Todo::Look => act("What's here?", Action::new("list_dir").arg("path", ".")),
        Todo::Test => {
            let why = match edits.last() {
                None => "Make sure it fails first.".to_owned(),
                Some(edit) => format!("Line {} is changed. Do the tests pass now?", edit.line),
            };
            act(
                why,
                Action::new("run_command").arg("command", "sh test_cart.sh"),
            )
        }
        Todo::Locate => {
            let first = tests.failures.first().map_or("", String::as_str);
            let why = format!("\"{first}\": where is {suspect} defined?");
            act(
                why,
                Action::new("search")
                    .arg("pattern", format!(r"^{suspect}\(\)"))
                    .arg("path", "cart.sh"),
            )
        }
        Todo::Read { line } => {
            let action = Action::new("read_file")
                .arg("path", "cart.sh")
                .arg("start_line", *line);
            act(
                format!("Read {suspect} from the start."),
                action.arg("end_line", line + 7),
            )
        }
        Todo::Edit { line, old, new } => {
            let why = if new.is_empty() {
                format!(
                    "`{}` drops the first price before the loop starts.",
                    old.trim()
                )
            } else {
                "A percentage divides by 100, not by 10.".to_owned()
            };
            let action = Action::new("replace_lines")
                .arg("path", "cart.sh")
                .arg("start_line", *line);
            act(
                why,
                action
                    .arg("end_line", *line)
                    .arg("text", &**new)
                    .arg("expect", &**old),
            )
        }
        Todo::Report => {
            let lines: Vec<_> = edits
                .iter()
                .map(|edit| format!("line {}: {}", edit.line, edit.summary()))
                .collect();
            let text = format!(
                "The tests pass. cart.sh had two bugs:\n{}",
                lines.join("\n")
            );
            answer("All tests pass, and only the faulty lines changed.", text)
        }
    }
}

impl Edit {
    fn summary(&self) -> String {
        match (self.old.trim(), self.new.trim()) {
            (old, "") => format!("removed `{old}`"),
            (old, new) => format!("`{old}` is now `{new}`"),
        }
    }
}

fn reduce(state: &mut State<Repair>, step: &Done<'_>) {
    let repair = &mut state.data;
    let output = step
        .results
        .first()
        .map_or(&Value::Null, |result| &result.output);
    repair.todo = match std::mem::take(&mut repair.todo) {
        Todo::Look => Todo::Test,
        Todo::Test => {
            let lines = || field(output, "stdout").as_str().unwrap_or_default().lines();
            repair.tests.runs += 1;
            repair.tests.exit_code = field(output, "exit_code").as_i64();
            repair.tests.passed = lines().filter(|line| line.starts_with("ok ")).count() as u64;
            repair.tests.failures = lines()
                .filter_map(|line| line.strip_prefix("FAIL "))
                .map(str::to_owned)
                .collect();
            let first = repair.tests.failures.first();
            repair.suspect = first
                .and_then(|name| name.split(' ').next())
                .map(str::to_owned);
            if first.is_some() {
                Todo::Locate
            } else {
                Todo::Report
            }
        }
        Todo::Locate => Todo::Read {
            line: output
                .pointer("/hits/0/line")
                .and_then(Value::as_u64)
                .unwrap_or(1),
        },
        Todo::Read { line } => {
            let text = field(output, "text").as_str().unwrap_or_default();
            let faulty = (line..)
                .zip(text.lines())
                .find(|(_, text)| text.trim() == "shift" || text.contains("/ 10)"));
            let (line, old) = faulty.unwrap_or((line, ""));
            let new = if old.contains("/ 10)") {
                old.replace("/ 10)", "/ 100)")
            } else {
                String::new()
            };
            Todo::Edit {
                line,
                old: old.to_owned(),
                new,
            }
        }
        Todo::Edit { line, old, new } => {
            repair.edits.push(Edit { line, old, new });
            Todo::Test
        }
        Todo::Report => Todo::Report,
    };
}

/// Scores by the last test run; 0 before the first.
fn tests_pass(step: &CriticCx<'_, Repair>) -> Opinion {
    let tests = &step.state.data.tests;
    let all = tests.passed + tests.failures.len() as u64;
    let score = if all == 0 {
        0.0
    } else {
        tests.passed as f64 / all as f64
    };
    let reason = match tests.exit_code {
        None => "the tests haven't been run yet".to_owned(),
        Some(0) => format!("all {all} pass"),
        Some(code) => format!("{} of {all} fail, exit status {code}", tests.failures.len()),
    };
    Opinion::proceed(reason)
        .score(score)
        .detail("runs", tests.runs)
        .detail("failures", &tests.failures)
}

/// Scores the lines written in this step, if any.
fn lines_are_short(step: &CriticCx<'_, Repair>) -> Opinion {
    let text = |result: &ToolResult| (result.tool == "replace_lines").then_some(());
    if step.results.iter().find_map(text).is_none() {
        return Opinion::proceed("nothing was written yet");
    }
    let longest = step
        .state
        .data
        .edits
        .last()
        .map_or(0, |edit| edit.new.len());
    let score = if longest <= 60 { 1.0 } else { 0.5 };
    Opinion::proceed(format!("the longest new line has {longest} characters"))
        .score(score)
        .detail("limit", 60)
}
