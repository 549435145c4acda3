"""Compares `board usage` with ccusage on copies of Claude Code and Codex sessions. Called by tests/interop/usage."""
import pathlib
import shutil
import sys

from sessions import KINDS, codex_requests, codex_totals, run, sessions_of, usage

sessions, home, board = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
board = str(pathlib.Path(board).resolve())


def ccusage(name, *args, **env):
    return run([str(home / "npm/node_modules/.bin" / name), *args, "--json", "--offline"], **env)


claude, codex = home / "claude", home / "codex"
files = sessions_of(sessions)
for tool, place in [("claude", claude / "projects"), ("codex", codex / "sessions")]:
    for path in files[tool]:
        # ccusage takes directories below projects for projects, so each file keeps its place.
        to = place / path.relative_to(sessions)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
assert files["claude"] and files["codex"], f"no sessions: {files}"

print(f"-- ccusage, {len(files['claude'])} Claude Code sessions: tokens and cost by day and model")
theirs = {}
for day in ccusage("ccusage", "daily", CLAUDE_CONFIG_DIR=str(claude))["daily"]:
    for model in day["modelBreakdowns"]:
        tokens = [model[k] for k in ("inputTokens", "cacheCreationTokens", "cacheReadTokens", "outputTokens")]
        theirs[day["date"], model["modelName"]] = tokens, model["cost"]
ours = {}
for day in usage(board, "daily", claude):
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

print(f"-- ccusage, {len(files['codex'])} Codex sessions: tokens of each")
theirs = {
    pathlib.Path(one["sessionId"]).name.removesuffix(".jsonl"): one["totalTokens"]
    for one in ccusage("ccusage-codex", "session", CODEX_HOME=str(codex))["sessions"]
}
ours = {pathlib.Path(one["name"]).name.removesuffix(".jsonl"): one["tokens"] for one in usage(board, "session", codex)}
equal = 0
for path in sorted((codex / "sessions").rglob("*.jsonl")):
    own, counted = ours.get(path.stem, 0), max(codex_requests(path), codex_totals(path))
    assert own == counted, f"{path.stem}: ours {own}, counted {counted}"
    their = theirs.get(path.stem, 0)
    if own == their:
        equal += 1
    else:
        # ccusage adds a repeated token_count twice, and doesn't know token_usage_record.
        print(f"   {path.stem}: {own}, as recorded for each request; ccusage {their}")
print(f"   {equal} of {len(files['codex'])} are equal")
