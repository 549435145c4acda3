"""Compares `board usage daily` with `agentsview usage daily` on copies of Claude Code and Codex sessions. Called by
tests/interop/usage. agentsview runs without its server and without a network."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

from sessions import KINDS, claude_requests, codex_lasts, codex_requests, codex_totals, sessions_of, usage

sessions, home, board, agentsview = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
board = str(pathlib.Path(board).resolve())
NONE = [0] * len(KINDS)


class Copies:
    """Copies of session files in directories as their tools have them, which agentsview requires."""

    def __init__(self, name):
        self.root = home / "agentsview" / name
        (self.root / "home").mkdir(parents=True)

    def add(self, tool, path):
        parts = path.relative_to(sessions).parts
        if tool == "codex":
            to = self.root / "codex/sessions/2026/01/01" / path.name
        else:
            # projects/PROJECT/SESSION.jsonl, and projects/PROJECT/SESSION/subagents/AGENT.jsonl
            own = parts.index("subagents") - 1 if "subagents" in parts else len(parts) - 1
            to = self.root / "claude/projects" / ("-".join(parts[:own]) or "-") / pathlib.Path(*parts[own:])
        assert not to.exists(), f"two files are called {to}"
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
        return self

    def run(self, *args):
        env = {
            **{name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ},
            "HOME": str(self.root / "home"), "TZ": "UTC",
            "AGENTSVIEW_DATA_DIR": str(self.root / "data"), "AGENTSVIEW_NO_DAEMON": "1", "AGENTSVIEW_TELEMETRY_ENABLED": "0",
            "CLAUDE_PROJECTS_DIR": str(self.root / "claude/projects"), "CODEX_SESSIONS_DIR": str(self.root / "codex/sessions"),
        }
        return subprocess.run([agentsview, *args], env=env, capture_output=True, text=True, check=True).stdout

    def theirs(self):
        """Returns the tokens and the cost by day and model, and the models whose prices it took from another model."""
        self.run("sync")
        said = json.loads(self.run("usage", "daily", "--json", "--breakdown", "--all", "--timezone", "UTC", "--offline", "--no-sync"))
        rows = {}
        for day in said["daily"]:
            for model in day["modelBreakdowns"]:
                tokens = [model[k] for k in ("inputTokens", "cacheCreationTokens", "cacheReadTokens", "outputTokens")]
                rows[day["date"], model["modelName"]] = tokens, model["cost"]["microdollars"] / 1e6
        others = {}
        for name, model in said["pricing"]["models"].items():
            for price in model["resolutions"]:
                # A dated name has the price of the one without the date.
                known = price["matched_pattern"].rsplit("/", 1)[-1]
                date = name.removeprefix(f"{known}-")
                if name != known and not (date.isdigit() and len(date) == 8):
                    others[name] = known
        return rows, others

    def ours(self):
        rows = {}
        for day in usage(board, "daily", self.root):
            for model in day["models"]:
                if model["tokens"]:
                    rows[day["name"], model["name"]] = [model[kind] or 0 for kind in KINDS], model["cost"]
        return rows


def compare(name, ours, theirs, others, is_cost_compared):
    """Compares tokens exactly, and costs to the cent."""
    for key in sorted(theirs.keys() | ours.keys()):
        (own_tokens, own_cost), (their_tokens, their_cost) = ours.get(key, (NONE, 0)), theirs.get(key, (NONE, 0))
        assert own_tokens == their_tokens, f"{name} {key}: ours {own_tokens}, agentsview {their_tokens}"
        if key[1] in others:
            print(f"   {key}: ours ${own_cost or 0:.4f}; agentsview ${their_cost:.4f}, with the prices of {others[key[1]]}")
        elif is_cost_compared:
            assert own_cost is not None and abs(own_cost - their_cost) < 0.005, f"{name} {key}: ours ${own_cost}, agentsview ${their_cost}"


files = sessions_of(sessions)
assert files["claude"] and files["codex"], f"no sessions: {files}"

print(f"-- agentsview, {len(files['claude'])} Claude Code sessions: tokens by day and model")
copies = Copies("claude")
for path in files["claude"]:
    copies.add("claude", path)
theirs, others = copies.theirs()
compare("Claude Code", copies.ours(), theirs, others, False)
print(f"   {len(theirs)} days and models are equal")

# agentsview estimates each cost from tokens, but a recorded cost also covers requests whose replies aren't in the file.
recorded = {
    pathlib.Path(row["name"]).name
    for row in usage(board, "session", copies.root)
    if row["cost"] is not None and not row["cost_is_estimated"]
}
requests = {path: claude_requests(path) for path in files["claude"]}
equal = 0
for number, path in enumerate(files["claude"]):
    if path.name in recorded:
        continue
    copies = Copies(f"claude-{number}").add("claude", path)
    ours, (theirs, others) = copies.ours(), copies.theirs()
    missing = sum(sum(tokens) for tokens, _ in theirs.values()) - sum(sum(tokens) for tokens, _ in ours.values())
    if missing == 0:
        compare(path.stem, ours, theirs, others, True)
        equal += 1
        continue
    # The records of a session that this one continues count there.
    elsewhere = set().union(*(requests[other] for other in files["claude"] if other != path))
    copied = sum(used for request, used in requests[path].items() if request in elsewhere)
    assert missing == copied, f"{path.stem}: {missing} tokens are missing, but {copied} are of another session"
    print(f"   {path.stem}: without {copied} tokens that count in the session that it continues")
print(f"   the costs of {equal} sessions are equal; {len(recorded)} record their own cost")

print(f"-- agentsview, {len(files['codex'])} Codex sessions: tokens and cost by day and model of each")
equal = 0
for number, path in enumerate(files["codex"]):
    copies = Copies(f"codex-{number}").add("codex", path)
    ours, (theirs, others) = copies.ours(), copies.theirs()
    total = sum(sum(tokens) for tokens, _ in ours.values())
    assert total == max(codex_requests(path), codex_totals(path)), f"{path.stem}: {ours}"
    counted = codex_lasts(path)
    if counted == total:
        compare(path.stem, ours, theirs, others, True)
        equal += 1
        continue
    # agentsview adds up the last request of each token_count record. Some requests have none, only a token_usage_record.
    their = sum(sum(tokens) for tokens, _ in theirs.values())
    assert their == counted, f"{path.stem}: agentsview {their}, token_count records {counted}"
    print(f"   {path.stem}: {total}, as recorded for each request; agentsview {their}, as in its token_count records")
print(f"   {equal} of {len(files['codex'])} are equal")
