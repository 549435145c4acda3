"""Does the board follow runs in an object store, whatever becomes of the store meanwhile?

    python store.py BOARD OBJECTS

moto answers as S3 does. Between it and the board stands a proxy that counts requests and spoils answers: 503, 403, cut
bodies, an answer that never comes. The board must show what was there at the last good listing, and say what is wrong.
One line for each thing that holds; exit code 1 where one does not. Nothing waits for a time, only for what must come.
"""

import http.client
import http.server
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

DEADLINE_S = 120
SAMPLES = Path("sample_runs")


class Proxy(http.server.ThreadingHTTPServer):
    """Passes requests on to the store; `spoil` says what becomes of the answers."""

    daemon_threads = True

    def __init__(self, store):
        self.store, self.spoil, self.delay, self.lists, self.gets = store, None, 0.0, 0, 0
        self.held = threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """Whoever leaves is no fault of the test."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        listing = "list-type=2" in self.path
        self.server.lists += listing
        self.server.gets += not listing
        time.sleep(self.server.delay)  # As long as a request takes, not a wait for something.
        spoil = self.server.spoil
        if spoil in (403, 503):
            return self.answer(spoil, [("Retry-After", "0")], b"<Error><Code>Spoiled</Code></Error>")
        if spoil == "hang" and not listing:
            self.server.held.wait(DEADLINE_S)
        asked = http.client.HTTPConnection(*self.server.store)
        asked.request("GET", self.path, headers=dict(self.headers))
        answer = asked.getresponse()
        body = answer.read()
        kept = ("etag", "last-modified", "content-range", "content-type")
        headers = [(name, value) for name, value in answer.getheaders() if name.lower() in kept]
        self.answer(answer.status, headers, body, cut=spoil == "cut" and not listing)

    def answer(self, status, headers, body, cut=False):
        self.send_response(status)
        for name, value in [*headers, ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True


class Board:
    def __init__(self, binary, proxy, cache, *roots):
        keep = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        port = proxy.server_address[1]
        env = {**keep, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "a", "XDG_CACHE_HOME": cache,
               "AWS_SECRET_ACCESS_KEY": "b", "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}
        command = [binary, "serve", *roots, "--port", "0", "--s3-every", "1", "--s3-requests", "1000"]
        self.began = time.monotonic()
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().split()[-1].rstrip("/")

    def get(self, path):
        try:
            with urllib.request.urlopen(self.url + path, timeout=DEADLINE_S) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def store(self):
        return json.loads(self.get("/healthz"))["stores"][0]

    def runs(self):
        return json.loads(self.get("/api/runs?limit=1000"))

    def steps(self, key):
        return {run["key"]: run["steps"] for run in self.runs()["runs"]}.get(key)

    def settled(self):
        """All that the store holds from now on is here, and read."""
        asked = time.monotonic()
        until("all is here", lambda: (self.store()["lag_ms"] or 1e12) < (time.monotonic() - asked) * 1000)
        until("all is read", lambda: json.loads(self.get("/healthz"))["indexing"] == 0)

    def end(self):
        self.process.terminate()
        assert self.process.wait(DEADLINE_S) == 0, "it ends as it should"


def until(what, probe):
    end = time.monotonic() + DEADLINE_S
    while not (found := probe()):
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(0.02)
    return found


def holds(what):
    print(f"ok  {what}", flush=True)


def follow(binary, proxy, s3, cache):
    local = SAMPLES / "qitos"
    s3.create_bucket(Bucket="team")
    put = lambda key, text: s3.put_object(Bucket="team", Key=f"runs/{key}", Body=text)
    for path in sorted(SAMPLES.rglob("*")):
        if path.is_file():
            put(path.relative_to(SAMPLES).as_posix(), path.read_bytes())
    board = Board(binary, proxy, cache, "s3://team/runs", str(local))
    board.settled()
    alone = subprocess.run([binary, "list", str(SAMPLES), "--json"], capture_output=True, text=True, check=True)
    word = lambda run: (run["key"].removeprefix("runs/"), run["stop_reason"], run["steps"], run["events"])
    expected = sorted(map(word, json.loads(alone.stdout)["runs"]), key=str)
    until("the runs of the root on disk", lambda: any(run["key"].startswith("qitos/") for run in board.runs()["runs"]))
    shown = lambda: [word(run) for run in board.runs()["runs"] if run["key"].startswith("runs/")]
    until("runs in the bucket read as those on disk", lambda: sorted(shown(), key=str) == expected)
    holds(f"{len(expected)} runs of every format, read as on disk; beside a root on disk")

    steps = [line + b"\n" for line in (local / "q060_critic_stop" / "steps.jsonl").read_bytes().splitlines()]
    lists = proxy.lists
    for number in range(1, len(steps) + 1):
        put("live/steps.jsonl", b"".join(steps[:number]))
        lists = proxy.lists
        until(f"step {number}", lambda: board.steps("runs/live") == number)
        assert proxy.lists <= lists + 3, "seen within one listing period"
    holds(f"a run is seen to grow, each of {len(steps)} steps by the next listing")
    put("live/steps.jsonl", steps[0])
    until("the truncated one", lambda: board.steps("runs/live") == 1)
    put("live/steps.jsonl", b"".join(steps[1:]))
    until("the replaced one", lambda: board.steps("runs/live") == len(steps) - 1)
    s3.delete_object(Bucket="team", Key="runs/live/steps.jsonl")
    until("the deleted one", lambda: board.steps("runs/live") is None)
    holds("truncated, replaced and deleted objects")

    for spoil, said in [(503, "503"), (403, "403"), ("cut", "cut off"), ("hang", None)]:
        proxy.spoil = spoil
        put("late/steps.jsonl", steps[0] + str(spoil).encode() + b"\n")
        before = board.runs()["total"]
        if spoil in (503, 403):
            until("the error", lambda: said in (board.store().get("error") or ""))
            page = board.get("/")
            assert "Not followed" in page and said in page, "the page says so"
        elif spoil == "cut":
            until("the cut body", lambda: board.store()["left_out"] == 1)
            assert said in board.get("/"), "the page names the object"
        else:
            until("an object that does not come", lambda: board.store()["waiting"] == 1)
        assert board.runs()["total"] == before, "what was read stays"
        proxy.spoil = None
        proxy.held.set()
        board.settled()
        until("it comes in the end", lambda: board.steps("runs/late") is not None and not board.store().get("error"))
        s3.delete_object(Bucket="team", Key="runs/late/steps.jsonl")
        until("and goes", lambda: board.steps("runs/late") is None)
    holds("503, 403, cut bodies and answers that do not come: said, nothing lost, and mended")
    board.end()


def many(binary, proxy, s3, cache, objects):
    """`OBJECTS` runs of one object each: how long until all rows are known, and by how many requests."""
    s3.create_bucket(Bucket="many")
    text = (SAMPLES / "qitos/q060_critic_stop/steps.jsonl").read_bytes()
    from moto.s3.models import s3_backends

    backend = s3_backends["123456789012"]["aws"]
    for number in range(objects):
        backend.put_object("many", f"{number // 1000:03}/{number:06}/steps.jsonl", text)
    proxy.delay, proxy.lists, proxy.gets = 0.02, 0, 0
    for start in ("first", "second"):
        board = Board(binary, proxy, cache, "s3://many")
        health = lambda: json.loads(board.get("/healthz"))
        until("all rows", lambda: (h := health())["runs"] == objects and h["indexing"] == 0 and h["stores"][0]["lag_ms"])
        took = time.monotonic() - board.began
        store = board.store()
        holds(f"{objects} runs, {start} start: all rows after {took:.1f} s at 20 ms a request; "
              f"{proxy.lists} requests for listings, {proxy.gets} for objects")
        assert store["requests"] <= proxy.lists + proxy.gets, "it counts what it asks"
        assert start == "first" or proxy.gets == 0, "nothing is fetched twice"
        board.end()
        proxy.lists = proxy.gets = 0


def main(binary, objects):
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    store = server.get_host_and_port()
    proxy = Proxy(store)
    s3 = boto3.client("s3", endpoint_url=f"http://{store[0]}:{store[1]}", region_name="us-east-1",
                      aws_access_key_id="a", aws_secret_access_key="b")
    with tempfile.TemporaryDirectory() as cache:
        follow(binary, proxy, s3, cache)
        many(binary, proxy, s3, cache, objects)
    server.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
