"""Tests that the board follows runs of real tools live, and reports correctly how they ended.

    python follow.py BOARD DIRECTORY SCENARIO ...

Each scenario starts a tool that writes below DIRECTORY while the board BOARD serves it. The tool pauses midway until the
board shows the previous step, so no test waits for a fixed time. The expected result follows from the script of the
tool's model. Prints one line per scenario and exits with 1 if anything is wrong.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path

from stub import Stub

# Generous, because a loaded machine starts these tools slowly. A passing test doesn't wait this long.
DEADLINE_S = 120
# Matches all runs, with duplicates: no key is "none".
ALL = '-duplicate_of:"none"'


class Wrong(Exception):
    """A failed expectation."""


class Board:
    """A board that serves one directory."""

    def __init__(self, program, root):
        command = [program, "serve", str(root), "--port", "0", "--no-cache"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self._process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                self.url = found.group()
                return
        raise Wrong("the board did not start")

    def get(self, path):
        with urllib.request.urlopen(f"{self.url}/api/{path}", timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def rows(self, below):
        """Returns the runs in the directory `below`."""
        rows = self.get(f"runs?q={urllib.parse.quote(ALL)}")["runs"]
        return [row for row in rows if row["key"].startswith(f"{below}/")]

    def step(self, row, number):
        return self.get(f"runs/{urllib.parse.quote(row['key'], safe='')}/steps/{number}")

    def until(self, below, what, holds):
        """Waits for a run in the directory `below` for which `holds` is true, and returns its row."""
        end = time.monotonic() + DEADLINE_S
        while True:
            rows = self.rows(below)
            for row in rows:
                if holds(row):
                    return row
            if time.monotonic() > end:
                shown = [{key: row[key] for key in ("key", "steps", "liveness", "outcome", "verdict")} for row in rows]
                raise Wrong(f"{what}: not shown within {DEADLINE_S} s: {shown}")
            # Retries at once. Each request takes long enough on its own.

    def close(self):
        self._process.terminate()
        self._process.wait(DEADLINE_S)


def expect(row, **wanted):
    wrong = {key: (row[key], value) for key, value in wanted.items() if row[key] != value}
    if wrong:
        raise Wrong(f"{row['key']}: shown and wanted: {wrong}")
    return row


def has_ended(row):
    return row["outcome"] not in (None, "running", "unknown")


def agent(board, root, name, command, script, env=None, meanwhile=lambda tool: None):
    """Runs a coding agent against a stub with this script. Its output goes to a file beside its sessions. `meanwhile` is called
    with its process."""
    stub = Stub(script)
    project = root.parent / "projects" / name
    project.mkdir(parents=True)
    home = root.parent / "homes" / name
    home.mkdir(parents=True)
    (root / name).mkdir(parents=True, exist_ok=True)
    plain = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
    full = {**plain, "HOME": str(home), "CI": "1", **(env or (lambda _: {}))(stub.url)}
    try:
        with open(root / name / "stream.jsonl", "w") as out, open(home / "stderr", "w") as err:
            tool = subprocess.Popen(
                command, cwd=project, env=full, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
            try:
                meanwhile(tool)
                code = tool.wait(2 * DEADLINE_S)
            finally:
                # Some agents leave processes behind.
                with suppress(ProcessLookupError):
                    os.killpg(tool.pid, signal.SIGKILL)
        if stub.fault:
            raise stub.fault
        return code, (home / "stderr").read_text()
    finally:
        stub.close()


def claude(board, root):
    """Two replies: a failing command, then an answer. Runs again with a limit of one turn."""

    def env(url):
        return {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "sk-none",
            "CLAUDE_CONFIG_DIR": str(root / "claude" / "config"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
        }

    command = ["claude", "-p", "Look around.", "--output-format", "stream-json", "--verbose", "--tools", "Bash"]
    command += ["--model", "claude-sonnet-4-5-20250929", "--system-prompt", "Be brief.", "--disable-slash-commands"]
    command += ["--permission-mode", "bypassPermissions"] if os.getuid() else ["--allowedTools", "Bash"]

    def half(row):
        return row["format"] == "Claude Code session" and row["steps"] == 1 and row["outcome"] == "running"

    look = {"calls": [("Bash", {"command": "cat none.txt", "description": "Read"})], "usage": (100, 20, 30)}
    answer = {
        "text": "There is no such file.",
        "usage": (10, 150, 7),
        "after": lambda: board.until("claude", "the first step of a session that goes on", half),
    }
    code, err = agent(board, root, "claude", command, [look, answer], env)
    if code != 0:
        raise Wrong(f"claude ended with {code}: {err}")
    done = {"steps": 2, "outcome": "completed", "tokens_cached": 170, "tokens": 317, "errors": 1, "turns": 1}
    for kind in ("Claude Code session", "Claude Code stream"):
        ended = board.until("claude", f"the end of a {kind}", lambda row: row["format"] == kind and has_ended(row))
        expect(ended, **done)
    # The limit is recorded in both the session and the stream.
    code, _ = agent(board, root, "claude-limit", [*command, "--max-turns", "1"], [look, answer], lambda url: {
        **env(url), "CLAUDE_CONFIG_DIR": str(root / "claude-limit" / "config")})
    for kind in ("Claude Code session", "Claude Code stream"):
        ended = board.until("claude-limit", f"the limit of a {kind}", lambda row: row["format"] == kind and has_ended(row))
        expect(ended, steps=1, outcome="truncated", certainty="recorded")
    return "a session and its stream, followed; a limit of turns"


def codex(board, root):
    """Two replies: a failing command, then an answer."""
    home = root / "codex" / "home"
    home.mkdir(parents=True)

    def env(url):
        config = f"""
            model = "gpt-5.5"
            model_provider = "stub"
            approval_policy = "never"
            sandbox_mode = "danger-full-access"
            check_for_update_on_startup = false
            [analytics]
            enabled = false
            [model_providers.stub]
            name = "stub"
            base_url = "{url}/v1"
            wire_api = "responses"
            env_key = "STUB_KEY"
        """
        (home / "config.toml").write_text(config)
        return {"CODEX_HOME": str(home), "STUB_KEY": "none"}

    def half(row):
        return row["format"] == "Codex session" and row["steps"] == 1 and row["outcome"] == "running"

    look = {"calls": [("exec_command", {"cmd": "cat none.txt"})], "usage": (100, 20, 30)}
    answer = {
        "text": "There is no such file.",
        "usage": (10, 150, 7),
        "after": lambda: board.until("codex", "the first step of a session that goes on", half),
    }
    command = ["codex", "exec", "--json", "--skip-git-repo-check", "Look around."]
    code, err = agent(board, root, "codex", command, [look, answer], env)
    if code != 0:
        raise Wrong(f"codex ended with {code}: {err}")
    ended = board.until("codex", "the end of the session", lambda row: row["format"] == "Codex session" and has_ended(row))
    expect(ended, steps=2, outcome="completed", certainty="recorded", tokens_cached=170, tokens=317, errors=1)
    ended = board.until("codex", "the end of the stream", lambda row: row["format"] != "Codex session" and has_ended(row))
    expect(ended, outcome="completed", certainty="recorded")
    return "a session and its stream, followed"


def mini_swe_agent(board, root):
    """The whole file is rewritten after each step. The second command waits until the board shows the first step."""
    go = root.parent / "go"
    wait = f"until [ -e {go} ]; do sleep 0.05; done"
    for name, limit, outcome in (("mini", 0, "completed"), ("mini-limit", 2, "truncated")):
        go.unlink(missing_ok=True)
        (root / name).mkdir()
        out = root / name / "run.traj.json"
        commands = ["echo one", wait, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done"]
        program = f"""
import sys
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import DeterministicModel, make_output
outputs = [make_output("next", [{{"command": command}}], cost=0.5) for command in {commands!r}]
DefaultAgent(DeterministicModel(outputs=outputs), LocalEnvironment(), system_template="Be brief.", instance_template="{{{{task}}}}",
    step_limit={limit}, output_path={str(out)!r}).run("Look around.")
"""
        env = {**os.environ, "MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": str(root.parent / "mini-config")}
        tool = subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.DEVNULL)
        try:
            board.until(name, "the first step of a trajectory that goes on", lambda row: row["steps"] == 1)
            go.touch()
            if tool.wait(DEADLINE_S) != 0:
                raise Wrong(f"mini-swe-agent ended with {tool.returncode}")
        finally:
            tool.kill()
        ended = board.until(name, "the end", has_ended)
        expect(ended, outcome=outcome, steps=limit or 3, cost_usd=0.5 * (limit or 3), certainty="recorded")
    return "a trajectory that is replaced after each step, followed; a limit of steps"


def inspect(board, root):
    """Two samples. The second one's tool waits until the board shows the end of the first. Then it hits a message limit."""
    go = root.parent / "inspect-go"
    (root / "inspect").mkdir()
    program = f"""
import pathlib, sys, time, types
# The scripted model counts its tokens by a vocabulary that this package fetches from the network.
tiktoken = types.ModuleType("tiktoken")
tiktoken.get_encoding = tiktoken.encoding_for_model = lambda _: types.SimpleNamespace(encode=lambda text, **_: text.split())
sys.modules["tiktoken"] = tiktoken
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import basic_agent
from inspect_ai.tool import tool

@tool
def look():
    async def execute(where: str):
        '''Looks somewhere.

        Args:
            where: the place
        '''
        import anyio
        while where == "far" and not pathlib.Path({str(go)!r}).exists():
            await anyio.sleep(0.05)
        return "nothing in " + where
    return execute

def call(where):
    return ModelOutput.for_tool_call("mockllm/model", "look", {{"where": where}})
outputs = [call("near"), ModelOutput.for_tool_call("mockllm/model", "submit", {{"answer": "none"}}), call("far"), call("far"), call("far")]
task = Task(dataset=[Sample(input="Look around.", target="none"), Sample(input="Look further.", target="none")],
    solver=basic_agent(tools=[look()]), scorer=includes(), message_limit=6)
log = eval(task, model=get_model("mockllm/model", custom_outputs=outputs), log_dir={str(root / "inspect")!r}, display="none", max_samples=1, log_buffer=1)[0]
sys.exit(0 if log.status == "success" else repr(log.error))
"""
    home = root.parent / "homes" / "inspect"
    home.mkdir(parents=True)
    with open(home / "stderr", "w") as err:
        tool = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "HOME": str(home)}, stdout=err, stderr=err)
        try:
            first = board.until("inspect", "the first sample of a log that goes on", has_ended)
            expect(first, outcome="completed", steps=2)
            go.touch()
            if tool.wait(DEADLINE_S) != 0:
                raise Wrong(f"inspect ended with {tool.returncode}: {(home / 'stderr').read_text()}")
        finally:
            tool.kill()
    limited = board.until("inspect", "the limit of the second sample", lambda row: row["outcome"] == "truncated")
    expect(limited, certainty="recorded")
    return "a log whose samples are shown as they end; a limit of messages"


SCENARIOS = {"claude": claude, "codex": codex, "inspect": inspect, "mini-swe-agent": mini_swe_agent}


def each(program, root, names, scenario):
    """Calls `scenario` for each name with a board that serves `root`, prints what it returns, and exits."""
    root.mkdir(parents=True)
    board = Board(program, root)
    failed = False
    try:
        for name in names:
            try:
                print(f"{name}: {scenario(board, name)}", flush=True)
            except (Wrong, subprocess.SubprocessError) as wrong:
                failed = True
                print(f"{name}: WRONG: {wrong}", flush=True)
            except Exception:
                failed = True
                traceback.print_exc()
    finally:
        board.close()
    sys.exit(failed)


def main():
    program, root, *names = sys.argv[1:]
    root = Path(root).resolve() / "root"
    each(program, root, names, lambda board, name: SCENARIOS[name](board, root))


if __name__ == "__main__":
    main()
