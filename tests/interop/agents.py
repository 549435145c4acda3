"""Tests that the board follows sessions of coding agents live, and that what it shows is what their models' service sent.

    python agents.py BOARD DIRECTORY TOOLS AGENT ...

Installs the agents below TOOLS, at the versions in the table. Each one writes below DIRECTORY while the board BOARD serves it.
The service holds its replies until the board shows the result of the previous one, so no test waits for a fixed time. Each one is
also interrupted and killed during a command, and refused by the service. Prints one line per agent and exits with 1 if anything is
wrong. An agent that can't be installed is skipped with a message.
"""

import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from follow import ALL, DEADLINE_S, Wrong, agent, each, expect

PROMPT = "Look around."
FAILS = "sh -c 'echo lost >&2; exit 3'"
WORKS = "echo found"
ANSWER = "There is no such file."
ARCH = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
# For agents that need a newer Node.js than many systems have.
NODE = f"node-linux-{ARCH}@22.23.3"


@dataclass(frozen=True)
class Agent:
    """An agent, and how it is run. In `command`, `env` and `files`, `$tool` is the directory in which it's installed, `$url`
    the service and `$dir` the directory for its own files, which `variable` names for it."""

    package: str
    format: str
    command: str
    variable: str
    env: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)
    # Its tool for commands, and the arguments for one.
    shell: str = "bash"
    arguments: callable = lambda command: {"command": command}
    # What it asks for after the answer.
    more: tuple = ()
    # Used instead of the usual replies.
    replies: tuple = ()
    # Whether it writes its session while it runs.
    is_live: bool = True
    # What the board shows after an interruption, after a kill, and after a refused request: the outcome, and the number of replies.
    # An agent that records nothing counts as running for a while.
    interrupted: tuple = ("running", 2)
    killed: tuple = ("running", 2)
    refused: tuple = ("failed", 0)
    # What the board shows differently from the other agents, and the same for the format of its output, if the board reads that.
    shown: dict = field(default_factory=dict)
    output: dict = field(default_factory=dict)


def described(command):
    return {"command": command, "description": "Look"}


# What OpenCode and Kilo read from a variable.
OPENCODE = json.dumps({
    "provider": {"stub": {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": "$url/v1", "apiKey": "none"},
        "models": {"glm-5": {}},
    }},
    "model": "stub/glm-5", "small_model": "stub/glm-5", "autoupdate": False, "share": "disabled",
})
CLINE = json.dumps({
    "version": 1, "lastUsedProvider": "openai-compatible", "modes": {},
    "providers": {"openai-compatible": {
        "settings": {"provider": "openai-compatible", "apiKey": "none", "model": "glm-5", "baseUrl": "$url/v1"},
        "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual",
    }},
})
PI = json.dumps({"providers": {"stub": {
    "baseUrl": "$url", "api": "anthropic-messages", "apiKey": "none", "models": [{"id": "claude-sonnet-4-5"}],
}}})
KIMI = """default_model = "glm"
[providers.stub]
type = "openai"
base_url = "$url/v1"
api_key = "none"
[models.glm]
provider = "stub"
model = "glm-5"
max_context_size = 200000
"""
VIBE = """active_model = "glm"
enable_telemetry = false
enable_update_checks = false
[[providers]]
name = "stub"
api_base = "$url/v1"
api_key_env_var = "STUB_KEY"
[[models]]
name = "glm-5"
provider = "stub"
alias = "glm"
"""
HERMES = "model: {default: glm-5, provider: custom, base_url: $url/v1, api_key: none}\n"
CONTINUE = """name: stub
version: 0.0.1
schema: v1
models:
  - {name: glm-5, provider: openai, model: glm-5, apiBase: $url/v1, apiKey: none, roles: [chat], capabilities: [tool_use]}
"""

INFERRED = {"certainty": "inferred"}


def edit(found):
    """Returns a reply of Aider's model, which changes files with such texts instead of calls."""
    text = f"notes.txt\n```\n<<<<<<< SEARCH\n{found}=======\nkept\n>>>>>>> REPLACE\n```\n"
    return {"text": text, "is_plain": True, "edits": 1}


AGENTS = {
    "opencode": Agent(
        package=f"opencode-linux-{ARCH}@1.18.33",
        format="OpenCode session",
        command=f"$tool/node_modules/opencode-linux-{ARCH}/bin/opencode run --format json --auto '{PROMPT}'",
        variable="XDG_DATA_HOME",
        env={"OPENCODE_CONFIG_CONTENT": OPENCODE, "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        arguments=described,
        shown=INFERRED,
    ),
    "copilot": Agent(
        package=f"@github/copilot-linux-{ARCH}@1.0.102",
        format="Copilot CLI session",
        output={"Copilot CLI stream": dict.fromkeys(("tokens", "tokens_in", "tokens_cached", "tokens_out"))},
        command=f"$tool/node_modules/@github/copilot-linux-{ARCH}/copilot --allow-all-tools --output-format json -p '{PROMPT}'",
        variable="COPILOT_HOME",
        env={
            "COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_BASE_URL": "$url/v1", "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": "gpt-5",
        },
        arguments=described,
        interrupted=("cancelled", 2),
    ),
    "cline": Agent(
        package=f"@cline/cli-linux-{ARCH}@3.0.65",
        format="Cline session",
        command=f"$tool/node_modules/@cline/cli-linux-{ARCH}/bin/cline --json '{PROMPT}'",
        variable="CLINE_DIR",
        # Otherwise it leaves a daemon behind.
        env={"CLINE_SESSION_BACKEND_MODE": "local"},
        files={"data/settings/providers.json": CLINE},
        shell="run_commands",
        arguments=lambda command: {"commands": [command]},
        interrupted=("cancelled", 2),
    ),
    "pi": Agent(
        package="@earendil-works/pi-coding-agent@1.5.2",
        format="Pi session",
        output={"Pi stream": {}},
        command="$node $tool/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js -p --mode json --offline"
        f" --model stub/claude-sonnet-4-5 '{PROMPT}'",
        variable="PI_CODING_AGENT_DIR",
        files={"models.json": PI},
        shown=INFERRED,
    ),
    "kimi-code": Agent(
        package="@moonshot-ai/kimi-code@2.1.0",
        format="Kimi Code session",
        command=f"$node $tool/node_modules/@moonshot-ai/kimi-code/dist/main.mjs --output-format stream-json -p '{PROMPT}'",
        variable="KIMI_CODE_HOME",
        files={"config.toml": KIMI},
        shell="Bash",
        arguments=described,
        interrupted=("cancelled", 2),
    ),
    "continue": Agent(
        package="@continuedev/cli@1.5.47",
        format="Continue session",
        command=f"$node $tool/node_modules/@continuedev/cli/dist/cn.js --config $dir/config.yaml --auto -p '{PROMPT}'",
        variable="CONTINUE_GLOBAL_DIR",
        files={"config.yaml": CONTINUE},
        shell="Bash",
        is_live=False,
        shown={"outcome": "unknown", "certainty": "unknown"},
    ),
    "kilo": Agent(
        package=f"@kilocode/cli-linux-{ARCH}@7.7.9",
        format="Kilo session",
        command=f"$tool/node_modules/@kilocode/cli-linux-{ARCH}/bin/kilo run --format json --auto '{PROMPT}'",
        variable="XDG_DATA_HOME",
        env={"KILO_CONFIG_CONTENT": OPENCODE, "KILO_DISABLE_MODELS_FETCH": "1", "KILO_TELEMETRY_LEVEL": "off"},
        arguments=described,
        shown=INFERRED,
    ),
    "vibe": Agent(
        package="mistral-vibe==3.0.2",
        format="Mistral Vibe session",
        command=f"$tool/bin/vibe --trust --auto-approve --output streaming -p '{PROMPT}'",
        variable="VIBE_HOME",
        env={"STUB_KEY": "none"},
        files={"config.toml": VIBE},
        interrupted=("cancelled", 2),
    ),
    "vibe2": Agent(
        package="mistral-vibe==2.26.1",
        format="Mistral Vibe 2 session",
        command=f"$tool/bin/vibe --legacy-harness --trust --auto-approve --output streaming -p '{PROMPT}'",
        variable="VIBE_HOME",
        env={"STUB_KEY": "none"},
        files={"config.toml": VIBE},
        shown=INFERRED,
        interrupted=("cancelled", 2),
        killed=("running", 1),
        refused=("running", 0),
    ),
    "hermes": Agent(
        package="hermes-agent==0.19.0",
        format="Hermes session",
        command=f"$tool/bin/hermes chat -Q --yolo -t terminal -q '{PROMPT}'",
        variable="HERMES_HOME",
        files={"config.yaml": HERMES},
        shell="terminal",
        shown=INFERRED,
        refused=("running", 0),
    ),
    "gptme": Agent(
        package="gptme==0.35.1",
        format="gptme session",
        command=f"$tool/bin/gptme -n --tool-format tool -m local/glm-5 '{PROMPT}'",
        variable="GPTME_LOGS_HOME",
        env={"OPENAI_BASE_URL": "$url/v1", "OPENAI_API_KEY": "none", "TZ": "EST5"},
        shell="shell",
        more=({"calls": [("complete", {})], "usage": (5, 0, 4)},),
        # Its times are local, without a zone. This one is west of UTC.
        # An interruption ends only the command. The program asks the model again, and then twice to call `complete`.
        interrupted=("unknown", 5),
        killed=("running", 1),
        refused=("running", 0),
    ),
    "aider": Agent(
        package="aider-chat==0.86.2",
        format="Aider session",
        command="$tool/bin/aider --yes-always --no-git --no-check-update --no-show-release-notes --analytics-disable"
        " --no-show-model-warnings --edit-format diff --model openai/glm-5"
        f" --message '{PROMPT}' notes.txt",
        variable="",
        env={
            "AIDER_CHAT_HISTORY_FILE": "$dir/.aider.chat.history.md", "OPENAI_API_BASE": "$url/v1", "OPENAI_API_KEY": "none",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True", "TZ": "EST5",
        },
        replies=(edit("lost\n"), edit("")),
        # It estimates tokens, and its time is local too. Only the first line has one.
        shown={**INFERRED, "issues": 1, "tokens_estimated": True},
    ),
}


def install(package, tools):
    """Returns the directory in which the package is installed, or None if that isn't possible here."""
    name, _, version = package.replace("==", "@").rpartition("@")
    prefix = tools / f"{name.replace('/', '+')}-{version}"
    if (prefix / "complete").exists():
        return prefix
    shutil.rmtree(prefix, ignore_errors=True)
    prefix.mkdir(parents=True)
    if "==" in package:
        pip = [prefix / "bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
        steps = [[sys.executable, "-m", "venv", prefix], [*pip, "--retries", "1", "--timeout", "20", package]]
    else:
        steps = [["npm", "install", "--prefix", prefix, "--ignore-scripts", "--silent", "--no-audit", "--no-fund", package]]
    with open(prefix / "log", "w") as log:
        try:
            for step in steps:
                subprocess.run(step, stdout=log, stderr=log, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
    (prefix / "complete").touch()
    return prefix


def facts(replies):
    """Returns what the board must show after these replies and the results of their calls."""
    wanted = {
        "steps": len(replies),
        "model_calls": len(replies),
        "tool_calls": sum(len(reply.get("calls", [])) + reply.get("edits", 0) for reply in replies),
        "tool_errors": 1,
    }
    used = [reply["usage"] for reply in replies if "usage" in reply]
    if used:
        fresh, cached, out = map(sum, zip(*used))
        wanted.update(tokens_in=fresh + cached, tokens_cached=cached, tokens_out=out, tokens=fresh + cached + out)
    return wanted


def hashes(directory):
    files = (path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def unchanged(directory, command, **options):
    """Runs a command that prints JSON, and makes sure that no file below the directory is changed, created or removed."""
    before = hashes(directory)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE_S, **options)
    after = hashes(directory)
    if changed := {path for path in before | after if before.get(path) != after.get(path)}:
        raise Wrong(f"{command[1:]} changed {sorted(changed)}")
    return json.loads(done.stdout)


def prepared(root, place, name, tool, node):
    """Returns an agent's command, and a function that returns its environment with the service at an address. Its files are in
    the directory `place`."""
    row = AGENTS[name]
    directory, project = root / place, root.parent / "projects" / place

    def filled(text, url=""):
        return Template(text).substitute(url=url, dir=directory, tool=tool, node=node)

    def env(url):
        for path, text in row.files.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(filled(text, url))
        # The service refuses what agents want from the network: catalogs of models, updates and telemetry.
        own = {"PWD": str(project), "HTTP_PROXY": url, "HTTPS_PROXY": url, "NO_PROXY": "127.0.0.1,localhost"}
        own.update((key, filled(text, url)) for key, text in row.env.items())
        return {**own, row.variable: str(directory)} if row.variable else own

    return [filled(word) for word in shlex.split(row.command)], env


def running(words):
    """Returns the processes whose command line has these words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # It has ended.
            continue
        if line.strip() == words:
            found.append(int(path.parent.name))
    return found


def stopped(board, root, name, tool, node, how):
    """Runs an agent that gets the signal `how` during its second command, or whose requests are refused."""
    row, place = AGENTS[name], f"{name}-{how.lower()}"
    (outcome, kept) = {"SIGINT": row.interrupted, "SIGKILL": row.killed, "401": row.refused}[how]
    command, env = prepared(root, place, name, tool, node)
    # No other process has this one's duration.
    sleep = f"sleep 600.{int(hashlib.sha256(place.encode()).hexdigest()[:6], 16):08}"
    first, second = ({"calls": [(row.shell, row.arguments(command))], "usage": (40, 80, 9)} for command in (WORKS, sleep))

    def stop(tool):
        end = time.monotonic() + DEADLINE_S
        while not running(sleep):
            if tool.poll() is not None or time.monotonic() > end:
                raise Wrong(f"{place}: the agent didn't run its second command")
        if row.is_live:
            # Some agents write a reply only after its calls have run.
            written = row.killed[1]
            board.until(place, f"{written} replies", lambda run: run["format"] == row.format and run["steps"] == written)
        if how == "SIGINT":
            tool.send_signal(signal.SIGINT)
        else:
            # Some agents are two processes.
            os.killpg(tool.pid, signal.SIGKILL)

    if how == "401":
        agent(board, root, place, command, [{"status": 401}], env)
    else:
        agent(board, root, place, command, [first, second], env, stop)
    for left in running(sleep):
        os.kill(left, signal.SIGKILL)
    if not row.is_live:
        return

    def has_ended(run):
        return run["format"] == row.format and (run["outcome"], run["steps"]) == (outcome, kept)

    ended = board.until(place, f"the state after {how}", has_ended)
    expect(ended, issues=row.shown.get("issues", 0))


def follow(board, program, root, name, tool, node):
    """Runs an agent whose first command fails. Its model's second and third replies wait until the board shows the results."""
    row = AGENTS[name]
    directory, home = root / name, root.parent / "homes" / name
    first, second = ({"calls": [(row.shell, row.arguments(command))]} for command in (FAILS, WORKS))
    replies = list(row.replies) or [
        {**first, "usage": (100, 20, 30)},
        {**second, "usage": (40, 80, 9)},
        {"text": ANSWER, "usage": (10, 150, 7)},
        *row.more,
    ]

    def waits(number):
        wanted = {**facts(replies[:number]), "format": row.format, "outcome": "running"}

        def is_shown(run):
            return all(run[key] == value for key, value in wanted.items())

        return lambda: board.until(name, f"step {number - 1} of a session that goes on", is_shown)

    script = [dict(reply) for reply in replies]
    for number in (1, 2)[: len(replies) - 1] if row.is_live else ():
        script[number]["after"] = waits(number)

    command, env = prepared(root, name, name, tool, node)
    code, err = agent(board, root, name, command, script, env)
    if code != 0:
        raise Wrong(f"{name} ended with {code}: {err}")

    known = {"outcome": "completed", "certainty": "recorded", "issues": 0, "task": PROMPT, **facts(replies)}
    ended = {}
    for kind, differs in {**row.output, row.format: row.shown}.items():
        wanted = {**known, **differs}

        def has_ended(run):
            return run["format"] == kind and run["outcome"] == wanted["outcome"]

        ended[kind] = expect(board.until(name, f"the end of a {kind}", has_ended), **wanted)
    if others := {run["format"] for run in board.rows(name)} - set(ended):
        raise Wrong(f"{name}: shown as {others}")
    steps = [board.step(ended[row.format], number)["head"] for number in (0, 1)]
    exits = [3, None] if not row.replies else [None, None]
    if [step["returncode"] for step in steps] != exits or [step["ok"] for step in steps] != [False, True]:
        raise Wrong(f"{name}: exit codes: {steps}")

    # A board that starts now says the same, and changes no file. It needs no index of a database's log, and creates none.
    copy = root.parent / "copies" / name
    shutil.copytree(directory, copy, symlinks=True, ignore=shutil.ignore_patterns("*-shm"))
    for place in (directory, copy):
        listed = unchanged(place, [program, "list", str(place), ALL, "--json"])["runs"]
        expect(*[run for run in listed if run["format"] == row.format], **wanted)
    if row.variable:
        own = {**os.environ, "HOME": str(home), row.variable: str(directory)}
        usage = unchanged(directory, [program, "usage", "session", "--sessions", "--json"], cwd=home, env=own)["rows"]
        if [used["tokens"] for used in usage] != [wanted["tokens"]]:
            raise Wrong(f"{name}: --sessions finds {usage}")
    return f"{len(replies)} replies" + (", followed" if row.is_live else ", shown at its end")


def main():
    program, root, tools, *names = sys.argv[1:]
    program, tools, root = str(Path(program).resolve()), Path(tools).resolve(), Path(root).resolve() / "root"

    def run(board, name):
        start = time.monotonic()
        needed = [AGENTS[name].package, *([NODE] if "$node" in AGENTS[name].command else [])]
        installed = [install(package, tools) for package in needed]
        if None in installed:
            return f"not done: {' and '.join(needed)} can't be installed here"
        node = installed[-1] / "node_modules" / NODE.rpartition("@")[0] / "bin/node"
        ready = time.monotonic()
        done = follow(board, program, root, name, installed[0], node)
        # Aider runs no commands of its model.
        hows = ["401"] if AGENTS[name].replies else ["SIGINT", "SIGKILL", "401"]
        for how in hows:
            stopped(board, root, name, installed[0], node, how)
        return f"{done}, {', '.join(hows)} ({ready - start:.0f} s to install, {time.monotonic() - ready:.0f} s to run)"

    each(program, root, names or AGENTS, run)


if __name__ == "__main__":
    main()
