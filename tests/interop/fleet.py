"""Tests that the recipes in docs/fleet.md run unchanged and agree with `board whatif`.

    fleet.py BOARD ENGINE [--runs NUMBER] [--format jsonl|parquet] [--s3] ROOT...

Writes the tables of all runs below the ROOTs, and of --runs variants of the samples. Extracts the engine's fenced blocks
from the document and runs them. Compares their results with the board's output for the same runs: `list` for how they
ended, `whatif` for the effect of limits. Costs are the recorded ones: if a run records a total that its steps don't add up
to, `whatif` counts estimated steps, and the table has no total so far. For --format parquet and --s3, the blocks are changed
as the document describes. The store is moto, which emulates S3.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import time

import fleet_runs

DOCUMENT = pathlib.Path(__file__).parent.parent.parent / "docs" / "fleet.md"
RULES = ["max_steps=4", "token_budget=1500", "max_cost=0.01"]


def recipes(engine, changes):
    """Returns an engine's blocks with their names, in order. Unnamed blocks are setup for the others."""
    found = re.findall(r"^```(?:sql|python|sh) (\w+) ?(\w*)\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
    blocks = [[name, text] for of, name, text in found if of == engine]
    # The document has the statement for what-if once, and says what ClickHouse adds to it.
    if engine != "duckdb":
        assert "`SETTINGS join_use_nulls = 1` at its end" in DOCUMENT.read_text()
        (whatif,) = [text for of, name, text in found if (of, name) == ("duckdb", "whatif")]
        end = "\nSETTINGS join_use_nulls = 1;\n" if engine == "clickhouse" else ";\n"
        blocks.append(["whatif", whatif.rstrip().removesuffix(";") + end])
    assert {name for name, _ in blocks} >= {"", "ends", "cost", "loops", "whatif"}, (engine, blocks)
    for pattern, by in changes:
        assert any(re.search(pattern, text) for _, text in blocks), f"no block of {engine} has {pattern}"
        for block in blocks:
            block[1] = re.sub(pattern, by, block[1])
    return blocks


def duckdb_rows(options, store):
    import duckdb

    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'")
    changes = []
    if options.format == "parquet":
        changes.append((r"read_json\('(table/\w+/\*/\*)\.jsonl', [^)]*\)", r"read_parquet('\1.parquet')"))
    if store:
        from duckdb_extensions import import_extension

        import_extension("httpfs")
        base.execute("LOAD httpfs")
        base.execute(f"CREATE SECRET (TYPE s3, KEY_ID 'a', SECRET 'b', ENDPOINT '{store}', URL_STYLE 'path', USE_SSL false)")
        changes.append(("'table/", "'s3://bucket/table/"))
    for name, text in recipes("duckdb", changes):
        for statement in filter(str.strip, text.split(";")):
            rows = base.execute(statement).fetchall()
        yield name, rows
    if options.format == "parquet" and not store:
        same_as_lines(base)


def same_as_lines(base):
    """Checks that the Parquet tables have the documented types and the same values as the JSON lines of `board table`."""
    for table in ["runs", "steps"]:
        read = f"read_parquet('table/{table}/*/*.parquet', hive_partitioning = false)"
        kinds = {name: kind for name, kind, *_ in base.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()}
        told = {name: kinds[name] for name in TYPES[table]}
        assert told == TYPES[table], told
        text = lambda name: f"""strftime("{name}" AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%fZ')"""
        columns = [text(name) if kind == MOMENT else f'"{name}"' for name, kind in kinds.items()]
        names = list(kinds)
        rows = [dict(zip(names, row)) for row in base.execute(f"SELECT {', '.join(columns)} FROM {read}").fetchall()]
        lines = (pathlib.Path("lines") / table).glob("*/*.jsonl")
        lines = [json.loads(line) for path in lines for line in path.read_text().split("\n") if line]
        assert len(rows) == len(lines) > 0
        key = lambda row: (row["transcript_id"], row.get("step"))
        for row, line in zip(sorted(rows, key=key), sorted(lines, key=key)):
            assert row == line, [(name, row[name], line[name]) for name in line if row[name] != line[name]]
        nulls = sum(value is None for row in rows for value in row.values())
        print(f"parquet: {len(rows)} rows of {table}, {len(names)} columns, {nulls} nulls, as in JSON lines")


MOMENT = "TIMESTAMP WITH TIME ZONE"
# One column of each type.
TYPES = {"runs": {"model": "VARCHAR", "started_at": MOMENT, "steps": "BIGINT", "cost_usd": "DOUBLE", "answered": "BOOLEAN"},
         "steps": {"call": "VARCHAR", "at": MOMENT, "step": "BIGINT", "score": "DOUBLE", "tools": "VARCHAR[]",
                   "asked_before_end": "BOOLEAN"}}


def chdb_rows(options, store):
    from chdb import session

    base = session.Session()
    changes = []
    if options.format == "parquet":
        changes.append((r"\.jsonl', JSONEachRow,\s*'[^']*'\)", ".parquet', Parquet)"))
    if store:
        changes.append((r"file\('table/([^']*)', (\w+)", rf"s3('http://{store}/bucket/table/\1', 'a', 'b', '\2'"))
    for name, text in recipes("clickhouse", changes):
        for statement in filter(str.strip, text.split(";")):
            rows = str(base.query(statement, "JSONCompactEachRow"))
        yield name, [json.loads(line) for line in rows.split("\n") if line] if name else []


def spark_rows(options, store):
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    spark = spark.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "4")
    changes = []
    if options.format == "parquet":
        changes = [(r"read\.json", "read.parquet"), (r"\.jsonl", ".parquet")]
    if store:
        import sagemaker_pyspark

        provider = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
        told = {"endpoint": f"http://{store}", "endpoint.region": "us-east-1", "path.style.access": "true",
                "access.key": "a", "secret.key": "b", "aws.credentials.provider": provider}
        for name, value in told.items():
            spark = spark.config(f"spark.hadoop.fs.s3a.{name}", value)
        spark = spark.config("spark.jars", ",".join(sagemaker_pyspark.classpath_jars()))
        changes.append((r'"table/', '"s3a://bucket/table/'))
    spark = spark.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for name, text in recipes("spark", changes):
        if name:
            yield name, [tuple(row) for row in spark.sql(text.strip().rstrip(";")).collect()]
        else:
            exec(text, {"spark": spark})
    spark.stop()


ENGINES = {"duckdb": duckdb_rows, "chdb": chdb_rows, "spark": spark_rows}


def put_into_store():
    """Copies the table to a bucket, as `aws s3 sync table s3://bucket/table` would. Returns the store's address."""
    import logging

    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    s3 = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    s3.create_bucket(Bucket="bucket")
    files = [path for path in pathlib.Path("table").rglob("day=*/*") if path.is_file()]
    for path in files:
        s3.put_object(Bucket="bucket", Key=path.as_posix(), Body=path.read_bytes())
    for path in files:
        path.unlink()  # Leaves the file in the store only.
    return f"{host}:{port}"


def whatif(board, runs, steps):
    """Sums up runs, steps, tokens and lost answers per rule and result, as `board whatif` reports them.

    Leaves out runs that lack rows in the table of steps: those without steps, and those that repeat steps of another run. If
    the table has no cost so far, a limit that the recorded costs reach anyway is unknown to the query, as the document says.
    """
    has_cost = collections.defaultdict(bool)
    places = collections.defaultdict(set)
    for step in steps:
        has_cost[step["transcript_id"]] |= step["cost_so_far"] is not None
        places[step["transcript_id"]].add(step["step"])
    runs = [run for run in runs if (own := places[run["transcript_id"]]) and len(own) > max(own)]
    sums = collections.defaultdict(lambda: [0, 0, 0, 0])
    asked = shlex.join(word for rule in RULES for word in ("--rule", rule))
    for start in range(0, len(runs), 500):
        paths = [run["path"] for run in runs[start : start + 500]]
        said = subprocess.run([board, "whatif", "--json", "--no-prices", *shlex.split(asked), *paths], capture_output=True, text=True)
        assert said.returncode == 0, said.stderr
        told = json.loads(said.stdout)["runs"]
        assert len(told) == len(paths), (len(told), len(paths))
        for run, row in zip(told, runs[start:]):
            assert run["path"] == row["path"], (run["path"], row["path"])
            for rule in run["rules"]:
                saved = rule["saved"]
                lost = rule["answer_lost"]
                if lost is None and " · recorded in " in row["verdict"]:
                    # Only the output has the end, which the session alone doesn't know.
                    lost = row["answered"] and rule["cuts"]
                result, *more = rule["result"], 1, saved["steps"] or 0, saved["tokens"] or 0, int(lost or False)
                if rule["rule"].startswith("max_cost") and result in ("earlier", "same") and not has_cost[row["transcript_id"]]:
                    result, more = "unknown", [1, 0, 0, 0]
                sum = sums[(rule["rule"], result)]
                sum[:] = [a + b for a, b in zip(sum, more)]
    return dict(sums)


def number(value):
    return 0 if value is None else round(float(value), 6)


def rows(board, table, roots):
    said = subprocess.run([board, "table", table, "--no-prices", *roots], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in said.split("\n") if line]


def main(options):
    board = os.path.abspath(options.board)
    roots = [os.path.abspath(root) for root in options.roots]
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        if not roots:
            shutil.copytree(fleet_runs.SAMPLES, "samples")
            roots.append(os.path.abspath("samples"))
        if options.runs:
            fleet_runs.make("runs", options.runs)
            roots.append(os.path.abspath("runs"))
        fleet_runs.age(place)
        keep = lambda table, format, out: subprocess.run(
            [board, "table", table, "--no-prices", *roots, "--out", out, "--format", format], check=True, stdout=subprocess.DEVNULL)
        for table in ["runs", "steps"]:
            keep(table, options.format, "table")
            if options.format == "parquet":
                keep(table, "jsonl", "lines")
        store = put_into_store() if options.s3 else None
        runs = rows(board, "runs", roots)
        assert not options.runs or len(runs) >= options.runs, (len(runs), options.runs)
        steps = rows(board, "steps", roots)
        expected = whatif(board, runs, steps)
        assert len({result for _, result in expected}) >= 3, expected
        kinds = collections.Counter(run["stop_kind"] for run in runs)
        tokens = collections.Counter()
        for run in runs:
            tokens[run["stop_kind"]] += run["total_tokens"] or 0
        by_run = collections.Counter()
        for step in steps:
            by_run[(step["transcript_id"], step["fingerprint"])] += step["fingerprint"] is not None
        loops = sorted((count, run) for (run, _), count in by_run.items() if count >= 3)

        engine = options.engine
        began = time.monotonic()
        answers = dict(ENGINES[engine](options, store))
        took = time.monotonic() - began
        ends = collections.Counter()
        for _, _, kind, count in answers["ends"]:
            ends[kind] += int(count)
        assert ends == kinds, (engine, ends, kinds)
        cost = {row[0]: (int(row[1]), number(row[2])) for row in answers["cost"]}
        assert cost == {kind: (count, tokens[kind]) for kind, count in kinds.items()}, (engine, cost)
        assert sorted((int(row[3]), row[1]) for row in answers["loops"]) == loops, (engine, answers["loops"], loops)
        said = {(row[0], row[1]): [int(number(value)) for value in row[2:]] for row in answers["whatif"]}
        assert said == expected, (engine, sorted(said.items()), sorted(expected.items()))
        where = f"{options.format}{' over s3://' if store else ''}"
        print(f"{engine}, {where}: {len(runs)} runs, {sum(by_run.values())} steps, {len(answers)} recipes, {len(said)} sums "
              f"as `board whatif` has them; {took:.1f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("board")
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--format", default="jsonl", choices=["jsonl", "parquet"])
    parser.add_argument("--s3", action="store_true")
    parser.add_argument("roots", nargs="*", help="sample_runs if none is given")
    main(parser.parse_args())
