//! Runs in an environment: a walker in a maze, and a task that no environment can support.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::cast::{Actor, Decided, Device, Nothing, act, engine, field};
use super::stage::{Dice, Run, Stage};
use trace_board::engine::{
    Action, Decision, Done, Env, EnvError, EnvStep, State, StepCx, Task, ToolResult,
};
use trace_board::error::Result;

const WIDE: i64 = 7;
const HIGH: i64 = 5;
const WAYS: [(&str, i64, i64); 4] = [
    ("east", 1, 0),
    ("south", 0, 1),
    ("west", -1, 0),
    ("north", 0, -1),
];

type Place = (i64, i64);

/// A maze with its exit in the last corner. The walker sees which directions are open.
struct Maze {
    walls: Vec<Place>,
    at: Place,
    steps: u64,
}

impl Maze {
    /// Draws walls at random, off a path to the exit that is walked first.
    fn drawn(dice: &Dice) -> Self {
        let mut free = vec![(0, 0)];
        let (mut x, mut y) = (0, 0);
        while (x, y) != (WIDE - 1, HIGH - 1) {
            let east = y == HIGH - 1 || x < WIDE - 1 && dice.between(0, 1) == 0;
            (x, y) = if east { (x + 1, y) } else { (x, y + 1) };
            free.push((x, y));
        }
        let places = (0..HIGH).flat_map(|y| (0..WIDE).map(move |x| (x, y)));
        let walls = places
            .filter(|place| !free.contains(place) && dice.between(0, 9) < 4)
            .collect();
        Self {
            walls,
            at: (0, 0),
            steps: 0,
        }
    }

    fn is_open(&self, (x, y): Place) -> bool {
        (0..WIDE).contains(&x) && (0..HIGH).contains(&y) && !self.walls.contains(&(x, y))
    }

    fn seen(&self) -> Value {
        let sign = |place| match place {
            _ if place == self.at => '@',
            _ if !self.is_open(place) => '#',
            (x, y) if (x, y) == (WIDE - 1, HIGH - 1) => 'E',
            _ => '.',
        };
        let rows: Vec<String> = (0..HIGH)
            .map(|y| (0..WIDE).map(|x| sign((x, y))).collect())
            .collect();
        let (x, y) = self.at;
        let open: Vec<_> = WAYS
            .iter()
            .filter(|(_, dx, dy)| self.is_open((x + dx, y + dy)))
            .map(|way| way.0)
            .collect();
        json!({"map": rows, "at": {"x": x, "y": y}, "open": open})
    }
}

impl Env for Maze {
    fn name(&self) -> &str {
        "maze"
    }

    fn capabilities(&self) -> Vec<String> {
        vec!["move".to_owned()]
    }

    async fn reset(&mut self, _: &Task) -> std::result::Result<(), EnvError> {
        (self.at, self.steps) = ((0, 0), 0);
        Ok(())
    }

    async fn observe(&mut self) -> std::result::Result<Value, EnvError> {
        Ok(self.seen())
    }

    async fn step(
        &mut self,
        decision: &Decision,
        _: &[ToolResult],
    ) -> std::result::Result<EnvStep, EnvError> {
        let to = decision
            .actions
            .first()
            .and_then(|action| action.args.get("to")?.as_str())
            .unwrap_or_default();
        let (x, y) = self.at;
        let next = WAYS
            .iter()
            .find(|way| way.0 == to)
            .map(|(_, dx, dy)| (x + dx, y + dy));
        let next = next
            .filter(|next| self.is_open(*next))
            .ok_or_else(|| EnvError::new(format!("there is no way {to:?}")))?;
        self.at = next;
        self.steps += 1;
        let done = next == (WIDE - 1, HIGH - 1);
        let mut info = Map::new();
        info.insert("steps".to_owned(), self.steps.into());
        Ok(EnvStep {
            observation: self.seen(),
            done,
            reward: Some(if done { 10.0 } else { -0.1 }),
            info,
        })
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Walker {
    trail: Vec<Place>,
    visited: Vec<Place>,
    dead_ends: u64,
    reward: f64,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct To {
    /// `east`, `south`, `west` or `north`.
    to: String,
}

/// A walker that finds the way out of a maze and turns back at dead ends.
pub(super) fn env_terminal(stage: &Stage) -> Result<Run> {
    let maze = Maze::drawn(&stage.dice);
    let start = Walker {
        trail: vec![(0, 0)],
        visited: vec![(0, 0)],
        ..Walker::default()
    };
    let engine = engine(Actor::new(stage, "walker", start, find_way).reduce(walked))
        .tool(
            Device::new(stage, "move", "Walks one field.", |args: To, _| {
                Ok(json!({"to": args.to}))
            })
            .needs(&["move"]),
        )
        .env(maze)
        .max_steps(60);
    stage.play(
        engine,
        Task::new("Find the exit of the maze.")
            .id("maze")
            .needs("move"),
    )
}

fn find_way(state: &State<Walker>, cx: &StepCx<'_>) -> Decided {
    let Walker { trail, visited, .. } = &state.data;
    let (x, y) = trail.last().copied().unwrap_or_default();
    let open = |name: &str| {
        field(cx.observation, "open")
            .as_array()
            .is_some_and(|open| open.iter().any(|way| way == name))
    };
    let fresh = WAYS
        .iter()
        .find(|(name, dx, dy)| open(name) && !visited.contains(&(x + dx, y + dy)));
    let back = trail
        .iter()
        .rev()
        .nth(1)
        .and_then(|before| WAYS.iter().find(|(_, dx, dy)| (x + dx, y + dy) == *before));
    match (fresh, back) {
        (Some((to, ..)), _) => act(
            format!("{to} is open, and I haven't been there."),
            Action::new("move").arg("to", *to),
        ),
        (None, Some((to, ..))) => act(
            format!("A dead end: back {to}."),
            Action::new("move").arg("to", *to),
        ),
        (None, None) => Ok(Some(Decision::wait("There is no way out."))),
    }
}

fn walked(state: &mut State<Walker>, step: &Done<'_>) {
    let Some(env) = step.env else { return };
    let walker = &mut state.data;
    let at = |key: &str| {
        field(field(&env.observation, "at"), key)
            .as_i64()
            .unwrap_or_default()
    };
    let here = (at("x"), at("y"));
    if walker.trail.iter().rev().nth(1) == Some(&here) {
        walker.trail.pop();
        walker.dead_ends += 1;
    } else {
        walker.trail.push(here);
        walker.visited.push(here);
    }
    // Computes in tenths, because sums of fractions aren't exact.
    let tenths = |reward: f64| (reward * 10.0).round();
    walker.reward = (tenths(walker.reward) + tenths(env.reward.unwrap_or_default())) / 10.0;
}

/// An environment that lacks required capabilities.
pub(super) fn env_capability_mismatch(stage: &Stage) -> Result<Run> {
    let upload = Device::new(stage, "upload", "Sends a file away.", |_: Nothing, _| {
        Ok(Value::Null)
    })
    .needs(&["network"]);
    let engine = engine(Actor::new(stage, "walker", (), |_, _| Ok(None)))
        .tool(upload)
        .env(Maze::drawn(&stage.dice));
    stage.play(
        engine,
        Task::new("Draw a map of the maze and send it to the printer.")
            .id("map")
            .needs("printer"),
    )
}
