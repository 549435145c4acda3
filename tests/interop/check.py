"""Checks that QitOS's schema validator and every page of its viewer can read the runs in a directory.

    python check.py DIRECTORY [BOARD]

Needs qitos==0.3.0. Prints one line per run and exits with 1 if anything is wrong. A run whose manifest was never closed
is listed as open and isn't validated. `BOARD why` must give the same stop reason as the viewer. `--board BOARD EXPECTED` tests the other direction: that the board BOARD reads the
runs written by scripted.py as described in EXPECTED.
"""

import html
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

# Generous, because a loaded machine starts Python slowly. A passing test doesn't wait this long.
DEADLINE_S = 60


class Wrong(Exception):
    """A failed expectation."""


def expect(holds, what):
    if not holds:
        raise Wrong(what)


def read(path):
    return path.read_text(encoding="utf-8")


def lines(path):
    # Splits at line feeds only. Other line separators may be part of a text, and a reader that splits there loses the line.
    return [json.loads(line) for line in read(path).split("\n") if line] if path.exists() else []


def validate(manifest, steps, events):
    from qitos.trace.schema import TraceSchemaValidator

    validator = TraceSchemaValidator()
    validator.validate_manifest(manifest)
    validator.validate_events(events)
    validator.validate_steps(steps)


class Qita:
    """The real viewer on a free port."""

    def __init__(self, root):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.base = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "qitos.qita", "board", "--logdir", str(root), "--port", str(port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                self.get("/api/runs")
                return
            except urllib.error.URLError as error:
                ended = self.process.poll() is not None
                if ended or time.monotonic() > deadline:
                    self.process.kill()
                    said = self.process.communicate()[0]
                    raise SystemExit(f"qita does not answer ({error}); it said:\n{said}") from None
                time.sleep(0.05)

    def get(self, path):
        # Ignores the environment's proxy settings for this local server.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.base + path, timeout=DEADLINE_S) as answer:
            expect(answer.status == 200, f"{path} answered {answer.status}")
            return answer.read().decode("utf-8")

    def page(self, path):
        try:
            return self.get(path)
        except urllib.error.HTTPError as error:
            raise Wrong(f"{path} answered {error.code}") from None
        except OSError as error:
            raise Wrong(f"{path} was not answered: {error}") from None

    def close(self):
        self.process.terminate()
        self.process.communicate()


def embedded(page, path):
    """Returns the run that a page embeds for its script."""
    found = re.search(r'<script id="payload" type="application/json">(.*?)</script>', page, re.DOTALL)
    expect(found, f"{path} carries no run")
    return json.loads(found[1])


def explained(board, run):
    """Returns the stop reason in board's explanation, which must be without contradictions."""
    done = subprocess.run([board, "why", str(run), "--json"], capture_output=True, text=True, timeout=DEADLINE_S)
    expect(done.returncode == 0, f"board why: {done.stderr}")
    said = json.loads(done.stdout)
    expect(not said["contradictions"], f"board why: {said['contradictions']}")
    return said["stop_reason"]


def look(qita, listed, run, other, board):
    """Checks that each page of the viewer contains the same run as the files, and that board explains the same end."""
    manifest, steps, events = json.loads(read(run / "manifest.json")), lines(run / "steps.jsonl"), lines(run / "events.jsonl")
    closed = manifest["status"] != "running"
    if closed:
        validate(manifest, steps, events)
        expect(manifest["step_count"] == len(steps), f"the manifest counts {manifest['step_count']} steps of {len(steps)}")
        expect(manifest["event_count"] == len(events), f"{manifest['event_count']} events counted of {len(events)}")
        expect(manifest["summary"]["stop_reason"], "no stop reason")
    reason = manifest["summary"]["stop_reason"]
    name = urllib.parse.quote(run.name)
    if board and closed:
        told = explained(board, run)
        expect(told == reason, f"board why says {told}, and the manifest {reason}")

    row = listed.get(run.name)
    expect(row is not None, "/api/runs does not list it")
    expect((row["step_count"], row["stop_reason"]) == (manifest["step_count"], reason), f"/api/runs says {row}")
    same = {"manifest": manifest, "steps": steps, "events": events}
    for path in (f"/api/run/{name}", f"/export/raw/{name}"):
        answer = json.loads(qita.page(path))
        for part, whole in same.items():
            expect(answer[part] == whole, f"{path} holds other {part} than the file")
    for path in (f"/run/{name}", f"/export/html/{name}"):
        page = qita.page(path)
        for part, whole in same.items():
            expect(embedded(page, path)[part] == whole, f"{path} holds other {part} than the file")
    replay = qita.page(f"/replay/{name}")
    for step in steps:
        for action in step["actions"]:
            expect(json.dumps(action["name"]) in replay, f"/replay does not show the action {action['name']!r}")
    comparison = qita.page(f"/compare?left={name}&right={urllib.parse.quote(other.name)}")
    expect(html.escape(run.name) in comparison, "/compare does not name it")
    expect(reason is None or reason in comparison, f"/compare does not say {reason}")
    return f"{len(steps)} steps, {reason}" if closed else f"{len(steps)} steps, open: never closed, not validated"


def by_qitos(root, board):
    runs = sorted(path.parent for path in root.glob("*/manifest.json"))
    if not runs:
        raise SystemExit(f"there are no runs in {root}")
    qita = Qita(root)
    wrong = 0
    try:
        expect("qita board" in qita.page("/"), "/ is not the board")
        listed = {row["id"]: row for row in json.loads(qita.page("/api/runs"))}
        for place, run in enumerate(runs):
            try:
                print(f"  ok     {run.name}: {look(qita, listed, run, runs[place - 1], board)}")
            except (Wrong, ValueError, KeyError, TypeError) as error:
                wrong += 1
                print(f"  wrong  {run.name}: {type(error).__name__}: {error}")
    finally:
        qita.close()
    return wrong


def by_board(root, board, expected):
    """Checks that the board shows what QitOS wrote."""

    def ask(*arguments):
        done = subprocess.run([board, *arguments, "--json"], capture_output=True, text=True, timeout=DEADLINE_S)
        expect(done.returncode in (0, 1), f"board {arguments[0]}: {done.stderr}")
        return json.loads(done.stdout)["runs"]

    rows = {row["key"]: row for row in ask("list", str(root))}
    checks = {check["key"]: check for check in ask("check", *(str(root / name) for name in expected))}
    wrong = 0
    for name, wanted in expected.items():
        shown = {key: rows.get(name, {}).get(key) for key in ("steps", "stop_reason", "liveness")}
        shown["issues"] = [issue["kind"] for issue in checks.get(name, {}).get("issues_list", [])]
        verdict = "ok   " if shown == wanted else "wrong"
        wrong += shown != wanted
        print(f"  {verdict}  {name}: {shown}" + ("" if shown == wanted else f", not {wanted}"))
    return wrong


def main():
    root = Path(sys.argv[1]).resolve()
    if sys.argv[2:3] == ["--board"]:
        wrong = by_board(root, os.path.abspath(sys.argv[3]), json.loads(read(Path(sys.argv[4]))))
    else:
        board = sys.argv[2] if len(sys.argv) > 2 else None
        wrong = by_qitos(root, board)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
