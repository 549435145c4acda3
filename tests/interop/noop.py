"""Does the engine benchmark's work in QitOS: STEPS calls of a tool that does nothing.

    python noop.py STEPS on|off DIRECTORY

Prints the duration of the fastest of three runs in seconds, and the size of both trace files in bytes.
Needs qitos==0.3.0.
"""

import os
import sys
import time
from dataclasses import dataclass

from qitos import Action, AgentModule, Decision, StateSchema, ToolRegistry
from qitos.core.tool import tool
from qitos.engine.engine import Engine
from qitos.engine.states import RuntimeBudget
from qitos.trace import TraceWriter


@tool(name="noop")
def noop():
    """Does nothing."""
    return True


@dataclass
class Counter(StateSchema):
    calls: int = 0


class Worker(AgentModule):
    def __init__(self, steps):
        registry = ToolRegistry()
        registry.register(noop)
        super().__init__(tool_registry=registry)
        self.steps = steps

    def init_state(self, task, **kwargs):
        return Counter(task=task, max_steps=self.steps + 1)

    def decide(self, state, observation):
        return Decision.act(actions=[Action(name="noop", args={})])

    def reduce(self, state, observation, decision):
        state.calls += 1
        return state


def main():
    steps, trace, directory = int(sys.argv[1]), sys.argv[2] == "on", sys.argv[3]
    best, size = float("inf"), 0
    for number in range(3):
        run_id = f"qitos_{number}"
        writer = TraceWriter(directory, run_id) if trace else None
        engine = Engine(agent=Worker(steps), budget=RuntimeBudget(max_steps=steps), trace_writer=writer)
        start = time.perf_counter()
        result = engine.run("Do nothing, often.")
        best = min(best, time.perf_counter() - start)
        assert result.step_count == steps, result.step_count
        if trace:
            files = ("steps.jsonl", "events.jsonl")
            size = sum(os.path.getsize(os.path.join(directory, run_id, name)) for name in files)
    print(best, size)


main()
