"""Compares `board usage` with ccusage on copies of Claude Code and Codex sessions. Called by tests/interop/usage."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections import Counter

sessions, home, board = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
board = str(pathlib.Path(board).resolve())
KINDS = ["tokens_uncached", "tokens_cache_write", "tokens_cached", "tokens_out"]


def first_lines(path):
    with open(path, encoding="utf-8", errors="replace") as lines:
        for _, line in zip(range(20), lines):
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record


def tool_of(path):
    """Says which tool wrote a session file, or returns None for streams and other files."""
    for record in first_lines(path):
        if "sessionId" in record and "userType" in record and "parts" not in (record.get("message") or {}):
            return "claude"
        if record.get("type") == "session_meta" and "payload" in record:
            return "codex"
    return None


def run(command, **env):
    done = subprocess.run(command, env={**os.environ, "TZ": "UTC", **env}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def ccusage(name, *args, **env):
    return run([str(home / "npm/node_modules/.bin" / name), *args, "--json", "--offline"], **env)


def usage(by, directory):
    return run([board, "usage", by, str(directory), "--json"])["rows"]


def codex_count(path):
    """Counts the tokens of a Codex session independently of the board: each request once."""
    requests, totals = {}, 0
    for line in open(path, encoding="utf-8"):
        try:
            record = json.loads(line)
        except ValueError:
            # The last line of a killed session may be torn.
            continue
        payload = record.get("payload") or {}
        if record.get("type") == "token_usage_record":
            requests[payload.get("response_id", line)] = payload["usage"]["total_tokens"]
        total = (payload.get("info") or {}).get("total_token_usage") if payload.get("type") == "token_count" else None
        if total:
            totals = max(totals, total["input_tokens"] + total["output_tokens"])
    return max(sum(requests.values()), totals)


claude, codex = home / "claude", home / "codex"
files = Counter()
for path in sorted(sessions.rglob("*.jsonl")):
    tool = tool_of(path)
    files[tool] += 1
    # ccusage takes directories below projects for projects, so each file keeps its place.
    place = {"claude": claude / "projects", "codex": codex / "sessions"}.get(tool)
    if place:
        to = place / path.relative_to(sessions)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
assert files["claude"] and files["codex"], f"no sessions: {files}"

print(f"-- {files['claude']} Claude Code sessions: tokens and cost by day and model")
theirs = {}
for day in ccusage("ccusage", "daily", CLAUDE_CONFIG_DIR=str(claude))["daily"]:
    for model in day["modelBreakdowns"]:
        tokens = [model[k] for k in ("inputTokens", "cacheCreationTokens", "cacheReadTokens", "outputTokens")]
        theirs[day["date"], model["modelName"]] = tokens, model["cost"]
ours = {}
for day in usage("daily", claude):
    for model in day["models"]:
        if model["tokens"]:
            ours[day["name"], model["name"]] = [model[kind] or 0 for kind in KINDS], model["cost"]
for key in sorted(theirs.keys() | ours.keys()):
    (their_tokens, their_cost), (own_tokens, own_cost) = theirs.get(key, ([0] * 4, 0)), ours.get(key, ([0] * 4, 0))
    assert own_tokens == their_tokens, f"{key}: ours {own_tokens}, ccusage {their_tokens}"
    if not their_cost:
        print(f"   {key}: ccusage has no price; ours ${own_cost or 0:.4f}")
    elif round(own_cost, 2) != round(their_cost, 2):
        # The sessions record their whole cost, including requests whose replies aren't in the file.
        raise SystemExit(f"{key}: ours ${own_cost:.4f}, ccusage ${their_cost:.4f}")
print(f"   {len(theirs)} days and models are equal")

print(f"-- {files['codex']} Codex sessions: tokens of each")
theirs = {
    pathlib.Path(one["sessionId"]).name.removesuffix(".jsonl"): one["totalTokens"]
    for one in ccusage("ccusage-codex", "session", CODEX_HOME=str(codex))["sessions"]
}
ours = {pathlib.Path(one["name"]).name.removesuffix(".jsonl"): one["tokens"] for one in usage("session", codex)}
equal = 0
for path in sorted((codex / "sessions").rglob("*.jsonl")):
    own, counted = ours.get(path.stem, 0), codex_count(path)
    assert own == counted, f"{path.stem}: ours {own}, counted {counted}"
    their = theirs.get(path.stem, 0)
    if own == their:
        equal += 1
    else:
        # ccusage adds a repeated token_count twice, and doesn't know token_usage_record.
        print(f"   {path.stem}: {own}, as recorded for each request; ccusage {their}")
print(f"   {equal} of {files['codex']} are equal")
