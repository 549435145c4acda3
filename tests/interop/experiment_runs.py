"""Writes runs of an experiment: tasks that two versions of a prompt tried several times.

    experiment_runs.py DIR [TASKS [RUNS]]

The runs are the same every time. Their values are made up.
"""

import datetime
import json
import pathlib
import random
import sys

NAMES = """slugify-unicode csv-quoted-newline lru-cache-ttl toml-merge date-range-overlap json-pointer trie-delete
ini-roundtrip money-rounding glob-match topo-sort-cycle rate-limiter base32-decode diff-hunks url-normalise ring-buffer
matrix-spiral roman-parse semver-range cron-next markdown-table http-range utf8-repair interval-tree bank-ledger word-wrap
huffman-code sql-escape path-relative priority-queue event-debounce calendar-week xml-entities luhn-check gray-code
bloom-filter text-justify retry-backoff snake-case tar-header ansi-strip unit-convert sparse-vector undo-stack dns-label
phone-format bitset-ops zip-longest""".split()


def time(start, seconds):
    return (start + datetime.timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def write(place, task, prompt, start, solved, reason, steps, tokens, cost, seconds, scores, limit=20):
    """Writes one run in QitOS's format."""
    place.mkdir(parents=True)
    result = {"task_id": task, "success": solved, "stop_reason": reason}
    summary = {
        "stop_reason": reason, "final_result": "done" if solved else None, "steps": steps,
        "token_usage": tokens, "latency_seconds": seconds, "cost": cost, "task_result": result,
        "task_meta": {"task_id": task, "budget": {"max_steps": limit, "max_tokens": None, "max_runtime_seconds": None}},
    }
    manifest = {
        "run_id": place.name, "schema_version": "v1", "status": "completed", "updated_at": time(start, seconds),
        "event_count": 2 + 2 * steps, "step_count": steps, "summary": summary, "model_id": "claude-sonnet-4-5",
        "prompt_hash": prompt, "token_usage": tokens, "latency_seconds": seconds, "cost": cost, "agent_name": "coder",
        "started_at": time(start, 0),
    }
    (place / "manifest.json").write_text(json.dumps(manifest))
    lines, events = [], [{"step_id": 0, "phase": "INIT", "ok": True, "ts": time(start, 0), "payload": {"task": task, "state": {"max_steps": limit}}}]
    for n in range(steps):
        at = seconds * (n + 1) / (steps + 1)
        step = {
            "step_id": n, "agent_id": "coder", "decision": {"mode": "act", "rationale": "Go on."},
            "actions": [{"name": "run_tests", "args": {"n": n}}], "action_results": [{"status": "success", "output": "ok"}],
            "critic_outputs": [], "state_diff": {},
        }
        if n == steps - 1:
            step["critic_outputs"] = [{"critic_name": name, "action": "stop" if reason == "critic_stop" and name == "tests" else "continue", "reason": "", "score": score} for name, score in scores.items()]
        lines.append(step)
        events.append({"step_id": n, "phase": "DECIDE", "ok": True, "ts": time(start, at), "payload": {"stage": "decision_ready", "mode": "act"}})
        events.append({"step_id": n, "phase": "ACT", "ok": True, "ts": time(start, at + 0.1), "payload": {"stage": "action_results"}})
    events.append({"step_id": steps - 1, "phase": "END", "ok": True, "ts": time(start, seconds), "payload": {"stop_reason": reason}})
    for name, records in (("steps.jsonl", lines), ("events.jsonl", events)):
        (place / name).write_text("".join(json.dumps(record) + "\n" for record in records))


def make(root, tasks=48, runs=3, seed=26):
    root, chance = pathlib.Path(root), random.Random(seed)
    for number in range(tasks):
        task = NAMES[number % len(NAMES)] + (f"-{number // len(NAMES)}" if number >= len(NAMES) else "")
        rate = chance.choice([0.04, 0.1, 0.2, 0.45, 0.6, 0.8, 0.93, 0.97])
        gain = chance.choice([0, 0, 0, 0.05, 0.1, 0.3, 0.45, 0.55, -0.12])
        size = chance.lognormvariate(2.35, 0.28)
        for side, prompt, day in (("prompt-v1", "a41f22d09c", 18), ("prompt-v2", "7be2f805d1", 21)):
            second = side == "prompt-v2"
            p = min(0.98, max(0.02, rate + (gain if second else 0)))
            for run in range(runs):
                solved = chance.random() < p
                steps = max(3, min(20, round(size * chance.lognormvariate(0.0, 0.12) * (1 if solved else 1.08))))
                reason = "success" if solved else chance.choice(["max_steps", "max_steps", "critic_stop", "critic_stop", "unrecoverable_error"])
                steps = 20 if reason == "max_steps" else steps
                tokens = int(steps * 23_000 * chance.lognormvariate(0, 0.2))
                cost = round(tokens / 1e6 * (1.05 if second else 0.95) * chance.lognormvariate(0, 0.05), 6)
                seconds = round(steps * chance.lognormvariate(2.25, 0.35) + 4, 3)
                start = datetime.datetime(2026, 11, day, 9, tzinfo=datetime.timezone.utc) + datetime.timedelta(seconds=110 * (number * runs + run))
                scores = {
                    "tests": 1.0 if solved else round(chance.uniform(0.2, 0.9), 2),
                    "style": round(min(1, max(0, chance.gauss(0.74 if second else 0.72, 0.1))), 2),
                    "diff_size": round(min(1, max(0, chance.gauss(0.74 if second else 0.81, 0.12))), 2),
                }
                write(root / side / f"{task}-{run}", f"Make the tests of {task} pass. Change no test.", prompt, start, solved, reason, steps, tokens, cost, seconds, scores)


if __name__ == "__main__":
    make(sys.argv[1], *map(int, sys.argv[2:]))
