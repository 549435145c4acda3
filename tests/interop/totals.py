"""Compares sums over many mixed runs: DuckDB over `board table runs`, the run list and its groups, Overview, and Usage.

    totals.py BOARD NUMBER

The runs are NUMBER variants of the samples, the samples themselves with their child runs, and copies of some of them. Days
are those of a zone that is far from UTC, so that many runs start on another day there.
"""

import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import duckdb

import fleet_runs

ZONE = "Pacific/Auckland"
COPIES = 40
DEADLINE_S = 300


def runs_in(root, number):
    """Creates the runs."""
    fleet_runs.make(root / "variants", number)
    shutil.copytree(fleet_runs.SAMPLES, root / "samples")
    for place in sorted((root / "variants" / "000").iterdir())[:COPIES]:
        shutil.copytree(place, root / "copies" / place.name)
    fleet_runs.age(root)


class Board:
    """A board that serves the runs."""

    def __init__(self, board, root, env):
        command = [board, "serve", str(root), "--no-cache", "--port", "0"]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split()[-1].rstrip("/")

    def get(self, path, **query):
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def wait(self):
        """Waits until all runs are read and compared for copies."""
        end = time.monotonic() + DEADLINE_S
        while (health := self.get("/healthz"))["indexing"] or health["uncompared"]:
            assert time.monotonic() < end, f"not read after {DEADLINE_S} s: {health}"
            time.sleep(0.1)


def close(one, other):
    return one == other or None not in (one, other) and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def same(what, expected, actual):
    """Fails if two tables of name and numbers differ."""
    assert expected.keys() == actual.keys(), f"{what}: {sorted(expected.keys() ^ actual.keys(), key=str)[:10]}"
    for name, numbers in expected.items():
        assert all(map(close, numbers, actual[name])), f"{what}, {name}: DuckDB {numbers}, the board {actual[name]}"
    print(f"   {what}: {len(expected)} rows are equal")


def main(board, number):
    temp = pathlib.Path(tempfile.mkdtemp())
    root = temp / "runs"
    runs_in(root, number)
    env = {**os.environ, "TZ": ZONE}
    table = temp / "runs.jsonl"
    with open(table, "w", encoding="utf-8") as out:
        subprocess.run([board, "table", "runs", str(root)], env=env, stdout=out, check=True)
    base = duckdb.connect()
    base.execute(f"SET TimeZone = '{ZONE}'")
    base.execute(f"CREATE TABLE runs AS SELECT * FROM read_json('{table}', sample_size = -1, maximum_object_size = 100000000)")
    served = Board(board, root, env)
    try:
        served.wait()
        compare(base, served)
    finally:
        served.process.terminate()
        served.process.wait()
        shutil.rmtree(temp)


# The columns of sums in the run list, and what they are in the table. Total times are in seconds there.
SUMS = {
    "tokens": "total_tokens",
    "cost_usd": "cost_usd",
    "cost_estimated": "cost_estimated",
    # If the time of a run is unknown, the sum includes the least that it may be.
    "duration_ms": "coalesce(total_time, total_time_at_least) * 1000",
    "steps": "steps",
    "tool_calls": "tool_calls",
    "tool_errors": "tool_errors",
    "tokens_in": "tokens_in",
    "tokens_out": "tokens_out",
}
# The estimated cost of a child run is part of its parent's recorded one.
COUNTED = {"cost_estimated": "cost_in IS NULL"}
# Terms of `?group=`, and the column. Groups are named null if it isn't recorded.
GROUPS = {"model": "model", "task": "task", "day": "strftime(started_at, '%Y-%m-%d')"}


def sums(base, name, condition="true"):
    """Returns the number of runs and the sums that DuckDB finds, by name."""
    columns = [f"sum({column}) FILTER ({COUNTED.get(key, 'true')})" for key, column in SUMS.items()]
    rows = base.execute(f"SELECT {name}, count(*), {', '.join(columns)} FROM runs WHERE {condition} GROUP BY ALL").fetchall()
    return {name: [runs, *map(number, sums)] for name, runs, *sums in rows}


def number(value):
    return None if value is None else float(value)


def groups(served, by, query):
    """Returns the same of the groups in the run list."""
    found, page = {}, {"next": ""}
    while page["next"] is not None:
        page = served.get("/api/runs", group=by, q=query, limit=100, **({"after": page["next"]} if page["next"] else {}))
        for one in page["groups"]:
            found[one["name"]] = [one["runs"], *(number(one["sums"][key]["sum"]) for key in SUMS)]
    assert page["groups_total"] == len(found), f"{len(found)} of {page['groups_total']} groups by {by} are listed"
    return found


def compare(base, served):
    """Compares the sums of all runs, and of some."""
    copies = served.get("/api/runs", limit=1)["copies"]
    assert copies >= COPIES, f"{copies} copies are known"
    for query, condition in QUERIES.items():
        of_table = sums(base, "'all'", condition)["all"]
        print(f"-- {query or 'all'}: {of_table[0]} runs")
        for by, column in GROUPS.items():
            same(f"groups by {by}", sums(base, column, condition), groups(served, by, query))
        # Runs that may go on have none.
        ended = f"result IS NOT NULL AND {condition}"
        results = dict(base.execute(f"SELECT result, [count(*)] FROM runs WHERE {ended} GROUP BY ALL").fetchall())
        overview = served.get("/api/overview", q=query)["totals"]
        same("results", results, {name: [runs] for name, runs in overview["results"].items() if runs})
        runs, tokens, usd, estimated, ms, *_ = of_table
        cost = base.execute(f"SELECT sum(coalesce(cost_usd, cost_estimated, cost_at_least)) FROM runs WHERE cost_in IS NULL AND {condition}")
        cost = number(cost.fetchone()[0])
        of_overview = [overview["runs"], *(overview[name]["sum"] for name in ("tokens", "cost", "duration_ms"))]
        same("overview", {"all": [runs, tokens, cost, ms]}, {"all": of_overview})
        usage = served.get("/api/usage", q=query, by="model")["total"]
        # Usage has no runs without tokens, so their number can differ.
        same("usage", {"all": [tokens, cost]}, {"all": [usage["tokens"], usage["cost"]]})


QUERIES = {"": "true", "steps>3": "steps > 3", "result:failed": "result = 'failed'"}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
