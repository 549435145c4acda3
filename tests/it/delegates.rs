//! Tests that parent and child runs link to each other, with a sub-agent in real time on the board.

use std::collections::VecDeque;
use std::path::Path;

use serde_json::{Value, json};
use trace_board::engine::{
    Action, Agent, AgentError, Builder, Decision, Engine, RunResult, State, StepCx, SubAgent,
};
use trace_board::trace::RunWriter;

use crate::board::Board;
use crate::html::{hrefs, page, texts};
use crate::written::keep;

/// Plays decisions in order.
struct Play(VecDeque<Decision>);

impl Agent for Play {
    type Data = ();

    fn name(&self) -> &str {
        "play"
    }

    async fn decide(
        &mut self,
        _: &State<()>,
        _: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        Ok(self.0.pop_front())
    }
}

fn play(decisions: impl IntoIterator<Item = Decision>) -> Builder<Play> {
    Engine::builder(Play(decisions.into_iter().collect()))
}

fn asks(of: &[&str]) -> Decision {
    Decision::act(
        of.iter()
            .map(|who| Action::new(*who).arg("task", format!("Look for it, {who}."))),
    )
}

/// After one step, calls two scouts in parallel. Each of them calls a digger.
async fn delegated(root: &Path) -> RunResult<()> {
    let digger = || play([Decision::final_answer("a coin")]);
    let scout = move || {
        let digger = SubAgent::new("digger", "Digs.", digger);
        play([
            asks(&["digger"]),
            Decision::final_answer("a coin, below the oak"),
        ])
        .tool(digger)
    };
    let whole = play([
        Decision::wait("a breath"),
        asks(&["scout", "scout"]),
        Decision::final_answer("two coins"),
    ])
    .tool(SubAgent::new("scout", "Looks for it.", scout));
    whole
        .record(RunWriter::create(root, "whole").unwrap())
        .build()
        .unwrap()
        .run("Find coins.")
        .await
}

#[tokio::test]
async fn a_sub_agents_run_and_the_run_that_called_it_lead_to_each_other() {
    let root = tempfile::tempdir().unwrap();
    let result = delegated(root.path()).await;
    assert_eq!(result.require_answer().unwrap(), "two coins");
    let scouts = ["whole.scout-1-0", "whole.scout-1-1"];
    let diggers = scouts.map(|scout| format!("{scout}.digger-0-0"));
    for run in ["whole"]
        .into_iter()
        .chain(scouts)
        .chain(diggers.iter().map(String::as_str))
    {
        keep(&root.path().join(run));
    }
    for (result, scout) in result.steps[1].results.iter().zip(scouts) {
        assert_eq!(
            result.output,
            json!({"answer": "a coin, below the oak", "run_id": scout})
        );
    }

    let board = Board::serve(root.path());
    board.until_read();
    let page = |path: &str| page(&board, path);
    let links = |path: &str, within: &str| hrefs(&page(path), within);
    let started_by = |run: &str| -> Vec<Value> {
        // The query matches parts of names, and a grandchild's name contains its grandparent's.
        let listed = board.json(&format!("/api/runs?q=parent:{run}&sort=run"));
        let own = listed["runs"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["parent"] == run);
        own.map(|row| row["key"].clone()).collect()
    };
    assert_eq!(started_by("whole"), scouts);
    for (scout, digger) in scouts.iter().zip(&diggers) {
        assert_eq!(board.json(&format!("/api/runs/{scout}"))["parent"], "whole");
        assert_eq!(started_by(scout), [digger.as_str()]);
        // Links from the child run to its parent and to the step that started it, and back.
        let up = links(&format!("/runs/{scout}"), "main a");
        let its_step = format!("/runs/whole?started={scout}");
        assert!(
            up.contains(&"/runs/whole".to_owned()) && up.contains(&its_step),
            "{up:?}"
        );
        assert!(up.contains(&format!("/runs/{digger}")), "{up:?}");
        let landed = board.get(&its_step);
        assert_eq!(
            (landed.status, landed.header("location")),
            (303, "/runs/whole?step=1")
        );
        for within in [
            "/runs/whole",
            "/runs/whole/steps/1",
            "/runs/whole?tab=timeline",
        ] {
            let down = links(within, "main a");
            assert!(
                down.contains(&format!("/runs/{scout}")),
                "{within}: {down:?}"
            );
        }
        let elsewhere = links("/runs/whole/steps/0", "main a");
        assert!(
            !elsewhere.contains(&format!("/runs/{scout}")),
            "{elsewhere:?}"
        );
    }
    let facts = texts(&page("/runs/whole"), "main dd").join("|");
    assert!(
        facts.contains("2 · whole.scout-1-0 · whole.scout-1-1"),
        "{facts}"
    );

    let groups = board.json("/api/runs?group=parent")["groups"].take();
    let groups = groups.as_array().unwrap();
    assert_eq!(
        (groups.len(), &groups[0]["key"], &groups[0]["runs"]),
        (1, &json!("whole"), &json!(5)),
        "{groups:?}"
    );
    let mut rows: Vec<_> = groups[0]["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["depth"].clone())
        .collect();
    assert_eq!(rows.remove(0), 0, "the common ancestor comes first");
    assert_eq!(rows, [1, 2, 1, 2]);
    let steps = &groups[0]["sums"]["steps"];
    assert_eq!(
        *steps,
        json!({"sum": 3 + 2 + 2 + 1 + 1, "runs": 5, "estimated": false, "lower_bounds": 0})
    );
}
