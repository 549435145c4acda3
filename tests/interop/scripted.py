"""Records runs with QitOS 0.3.0 for the board to read, with one scripted agent for each kind of end.

    python scripted.py DIRECTORY

Writes one run directory per kind of end, and prints as JSON what the board must show for each. If an exception leaves
the engine, QitOS writes neither a stop reason nor the step's line, and the manifest keeps the status `running`.
"""

import json
import sys
from dataclasses import dataclass

from qitos import Action, AgentModule, Decision, StateSchema, ToolRegistry
from qitos.core.tool import tool
from qitos.engine.critic import Critic
from qitos.engine.engine import Engine
from qitos.engine.states import RuntimeBudget
from qitos.trace import TraceWriter


@tool(name="double")
def double(number: int):
    """Doubles a number."""
    return number * 2


@dataclass
class Numbers(StateSchema):
    last: int = 1


class Doubler(AgentModule):
    """Keeps doubling. Answers after `answers_at` steps, and fails in `decide` after `fails_at`."""

    def __init__(self, answers_at=None, fails_at=None):
        registry = ToolRegistry()
        registry.register(double)
        super().__init__(tool_registry=registry)
        self.answers_at = answers_at
        self.fails_at = fails_at

    def init_state(self, task, **kwargs):
        return Numbers(task=task, max_steps=20)

    def decide(self, state, observation):
        if self.fails_at is not None and state.current_step >= self.fails_at:
            raise RuntimeError("the script says so")
        if self.answers_at is not None and state.current_step >= self.answers_at:
            return Decision.final(answer=f"it is {state.last}")
        return Decision.act(actions=[Action(name="double", args={"number": state.last})])

    def reduce(self, state, observation, decision):
        if decision.mode == "act":
            state.last *= 2
        return state


class Bound(Critic):
    """Requests a stop, or fails, once the number exceeds `above`."""

    def __init__(self, above, fails=False):
        self.above = above
        self.fails = fails

    def evaluate(self, state, decision, results):
        if state.last <= self.above:
            return {"action": "continue", "reason": "small enough", "score": 1.0}
        if self.fails:
            raise RuntimeError("the critic fails")
        return {"action": "stop", "reason": f"{state.last} is too large", "score": 0.0}


def main():
    directory = sys.argv[1]
    scripts = {
        "final": (Doubler(answers_at=3), [], 10, 4, "final"),
        "budget": (Doubler(), [], 3, 3, "budget_steps"),
        "critic": (Doubler(), [Bound(above=4)], 10, 3, "critic_stop"),
        "exception": (Doubler(fails_at=1), [], 10, 2, "unrecoverable_error"),
        "critic_exception": (Doubler(), [Bound(above=2, fails=True)], 10, 1, None),
    }
    expected = {}
    for name, (agent, critics, max_steps, steps, reason) in scripts.items():
        writer = TraceWriter(directory, name)
        budget = RuntimeBudget(max_steps=max_steps)
        engine = Engine(agent=agent, budget=budget, critics=critics, trace_writer=writer)
        try:
            engine.run("Double it.")
        except RuntimeError:
            assert reason is None, name
        expected[name] = {
            "steps": steps,
            "stop_reason": reason,
            "liveness": "finished" if reason else "died",
            "issues": [] if reason else ["no step line"],
        }
    print(json.dumps(expected))


if __name__ == "__main__":
    main()
