"""Do the recipes of docs/fleet.md run as they stand, and do they say what `board whatif` says?

    fleet.py BOARD ENGINES ROOT...

Makes the tables of all runs below the ROOTs, takes the fenced blocks of each engine out of the document and runs them. What they
answer is compared with what the board says of the same runs: `list` for how they ended, `whatif` for what limits would have done.
"""

import collections
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

DOCUMENT = pathlib.Path(__file__).parent.parent.parent / "docs" / "fleet.md"
RULES = ["max_steps=4", "token_budget=1500", "max_cost=0.01"]


def recipes(engine):
    """The blocks of an engine by their names, in order; those without one prepare the others."""
    found = re.findall(r"^```(?:sql|python|sh) (\w+) ?(\w*)\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
    blocks = [(name, text) for of, name, text in found if of == engine]
    assert {name for name, _ in blocks} >= {"", "ends", "cost", "loops", "whatif"}, (engine, blocks)
    return blocks


def duckdb_rows():
    import duckdb

    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'")
    for name, text in recipes("duckdb"):
        for statement in filter(str.strip, text.split(";")):
            rows = base.execute(statement).fetchall()
        yield name, rows


def chdb_rows():
    from chdb import session

    base = session.Session()
    for name, text in recipes("clickhouse"):
        for statement in filter(str.strip, text.split(";")):
            rows = str(base.query(statement, "JSONCompactEachRow"))
        yield name, [json.loads(line) for line in rows.split("\n") if line] if name else []


def spark_rows():
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    spark = spark.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for name, text in recipes("spark"):
        if name:
            yield name, [tuple(row) for row in spark.sql(text.strip().rstrip(";")).collect()]
        else:
            exec(text, {"spark": spark})
    spark.stop()


ENGINES = {"duckdb": duckdb_rows, "chdb": chdb_rows, "spark": spark_rows}


def whatif(board, runs):
    """What the board says of each rule and each way it may come out: runs, steps, tokens, lost answers."""
    sums = collections.defaultdict(lambda: [0, 0, 0, 0])
    asked = shlex.join(word for rule in RULES for word in ("--rule", rule))
    for start in range(0, len(runs), 500):
        paths = [run["path"] for run in runs[start : start + 500]]
        said = subprocess.run([board, "whatif", "--json", *shlex.split(asked), *paths], capture_output=True, text=True)
        assert said.returncode == 0, said.stderr
        for run in json.loads(said.stdout)["runs"]:
            # A run without a step has no row in the table of steps.
            if run["recorded"]["step"] is None:
                continue
            for rule in run["rules"]:
                sum = sums[(rule["rule"], rule["result"])]
                saved = rule["saved"]
                more = [1, saved["steps"] or 0, saved["tokens"] or 0, int(rule["answer_lost"])]
                sum[:] = [a + b for a, b in zip(sum, more)]
    return dict(sums)


def number(value):
    return 0 if value is None else round(float(value), 6)


def main(board, engines, roots):
    board = os.path.abspath(board)
    roots = [os.path.abspath(root) for root in roots]
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for table in ["runs", "steps"]:
            subprocess.run([board, "table", table, *roots, "--out", "table"], check=True, stdout=subprocess.DEVNULL)
        lines = subprocess.run([board, "table", "runs", *roots], check=True, capture_output=True, text=True).stdout
        runs = [json.loads(line) for line in lines.split("\n") if line]
        expected = whatif(board, runs)
        assert len({result for _, result in expected}) >= 3, expected
        kinds = collections.Counter(run["stop_kind"] for run in runs)
        tokens = collections.Counter()
        for run in runs:
            tokens[run["stop_kind"]] += run["total_tokens"] or 0
        for engine in engines:
            began = time.monotonic()
            answers = dict(ENGINES[engine]())
            ends = collections.Counter()
            for _, _, kind, count in answers["ends"]:
                ends[kind] += int(count)
            assert ends == kinds, (engine, ends, kinds)
            cost = {row[0]: (int(row[1]), number(row[2])) for row in answers["cost"]}
            assert cost == {kind: (count, tokens[kind]) for kind, count in kinds.items()}, (engine, cost)
            by_run = collections.Counter()
            steps = subprocess.run([board, "table", "steps", *roots], check=True, capture_output=True, text=True).stdout
            for line in filter(None, steps.split("\n")):
                step = json.loads(line)
                by_run[(step["transcript_id"], step["fingerprint"])] += step["fingerprint"] is not None
            loops = sorted((count, run) for (run, _), count in by_run.items() if count >= 3)
            assert sorted((int(row[3]), row[1]) for row in answers["loops"]) == loops, (engine, answers["loops"], loops)
            said = {(row[0], row[1]): [int(number(value)) for value in row[2:]] for row in answers["whatif"]}
            assert said == expected, (engine, sorted(said.items()), sorted(expected.items()))
            took = time.monotonic() - began
            print(f"{engine}: {len(runs)} runs, {len(answers)} recipes, {len(said)} sums as `board whatif` has them; {took:.1f} s")


main(sys.argv[1], sys.argv[2].split(","), sys.argv[3:])
