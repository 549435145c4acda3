"""Tests that the board follows runs in an object store, whatever happens to the store.

    python store.py BOARD OBJECTS [follow|tls|small|many]...

moto emulates S3. A proxy between it and the board counts requests and spoils responses: 503, 403, truncated bodies, and
responses that never arrive. The board must keep showing the state of the last good listing, and report the problem.
Prints one line per passed check and exits with 1 at the first failure. No test waits for a fixed time.
"""

import atexit
import datetime
import hashlib
import http.client
import http.server
import ipaddress
import json
import logging
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

import boto3
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

DEADLINE_S = 600
SAMPLES = Path("sample_runs")


class Proxy(http.server.ThreadingHTTPServer):
    """Forwards requests to the store. `spoil` selects how responses are spoiled."""

    daemon_threads = True

    def __init__(self, store, handler=None, tls=None):
        self.store, self.spoil, self.delay, self.lists, self.gets = store, None, 0.0, 0, 0
        self.held, self.scheme = threading.Event(), "https" if tls else "http"
        super().__init__(("127.0.0.1", 0), handler or Handler)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """Ignores errors from clients that disconnect."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        listing = "list-type=2" in self.path
        self.server.lists += listing
        self.server.gets += not listing
        time.sleep(self.server.delay)  # Simulates latency; not a wait for an event.
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


class Many(Handler):
    """Serves `store`, a dict of many objects by key. moto would be slower per object than a store on the network."""

    def do_GET(self):
        path, _, query = self.path.partition("?")
        listing, objects = "list-type=2" in query, self.server.store
        self.server.lists += listing
        self.server.gets += not listing
        time.sleep(self.server.delay)
        if not listing:
            body = objects[urllib.parse.unquote(path).removeprefix("/many/")]
            return self.answer(200, [("ETag", f'"{hashlib.md5(body).hexdigest()}"')], body)
        keys = self.server.keys
        begin = int(urllib.parse.parse_qs(query).get("continuation-token", ["0"])[0])
        end = min(begin + 1000, len(keys))
        entries = "".join(
            f"<Contents><Key>{key}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
            f"<ETag>&quot;{hashlib.md5(objects[key]).hexdigest()}&quot;</ETag><Size>{len(objects[key])}</Size></Contents>"
            for key in keys[begin:end]
        )
        more = f"<NextContinuationToken>{end}</NextContinuationToken>" if end < len(keys) else ""
        body = (f"<ListBucketResult><IsTruncated>{str(bool(more)).lower()}</IsTruncated>{more}{entries}</ListBucketResult>")
        self.answer(200, [], body.encode())


class Board:
    def __init__(self, binary, proxy, cache, *roots, options=(), **more):
        keep = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        port = proxy.server_address[1]
        env = {**keep, **more, "AWS_ENDPOINT_URL": f"{proxy.scheme}://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "a", "XDG_CACHE_HOME": cache,
               "AWS_SECRET_ACCESS_KEY": "b", "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}
        command = [binary, "serve", *roots, "--port", "0", "--s3-every", "1", "--s3-requests", "1000", *options]
        self.began = time.monotonic()
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        atexit.register(self.process.kill)
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
        """Waits until everything in the store at the time of the call has been fetched and read."""
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
            raise AssertionError(f"timed out: {what}")
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

    for nth, (spoil, said) in enumerate([(503, "503"), (403, "403"), ("cut", "response was truncated"), ("hang", None)]):
        proxy.held.clear()
        proxy.spoil = spoil
        # The same step each time, in an object that has changed.
        put("late/steps.jsonl", steps[0].rstrip() + b" " * nth + b"\n")
        before = board.runs()["total"]
        if spoil in (503, 403):
            until("the error", lambda: said in (board.store().get("error") or ""))
            page = board.get("/")
            assert "Not updating" in page and said in page, "the page says so"
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


def authority(home):
    """Creates a certificate authority and a certificate for this machine. Returns the paths of both."""
    key, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name = lambda text: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
    now = datetime.datetime.now(datetime.timezone.utc)

    def certificate(subject, of, extensions):
        builder = x509.CertificateBuilder(name("an authority"), name(subject), of.public_key(), x509.random_serial_number(),
                                          now - datetime.timedelta(1), now + datetime.timedelta(9))
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    ca, server = Path(home, "ca.pem"), Path(home, "server.pem")
    ca.write_bytes(certificate("an authority", key, [(x509.BasicConstraints(True, None), True)]))
    private = own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    server.write_bytes(certificate("store", own, [(address, False), (x509.BasicConstraints(False, None), True)]) + private)
    return ca, server


def tls(binary, store, s3, cache):
    """A store behind TLS, with a certificate from an authority that the system doesn't trust."""
    s3.create_bucket(Bucket="tls")
    s3.put_object(Bucket="tls", Key="run/steps.jsonl", Body=b'{"step_id": 0}\n')
    with tempfile.TemporaryDirectory() as home:
        ca, server = authority(home)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(server)
        proxy = Proxy(store, tls=context)
        board = Board(binary, proxy, cache, "s3://tls")
        until("the error", lambda: "invalid peer certificate" in (board.store().get("error") or ""))
        page = board.get("/")
        assert "UnknownIssuer" in page and "SSL_CERT_FILE" in page, "the page says what to do"
        assert proxy.lists == 0 and board.runs()["total"] == 0, "nothing was asked"
        board.end()
        board = Board(binary, proxy, cache, "s3://tls", SSL_CERT_FILE=str(ca))
        board.settled()
        assert board.steps("run") == 1 and board.store().get("error") is None
        board.end()
        proxy.shutdown()
    holds("TLS: an authority of one's own by SSL_CERT_FILE; one that is not known is an error that says so")


def small(binary, proxy, s3, cache):
    """A cache with room for three of five runs."""
    s3.create_bucket(Bucket="small")
    step = lambda n: json.dumps({"step_id": n, "decision": {"mode": "wait"}, "text": "x" * 10_000}).encode() + b"\n"
    steps = b"".join(map(step, range(30)))

    def put(name):
        manifest = {"run_id": name, "status": "completed", "summary": {"stop_reason": "final"}}
        texts = {"steps.jsonl": steps, "events.jsonl": json.dumps({"run_id": name, "phase": "END"}).encode() + b"\n", "manifest.json": json.dumps(manifest).encode()}
        for file, text in texts.items():
            s3.put_object(Bucket="small", Key=f"{name}/{file}", Body=text)
            # Long ago: an object written in the current second may still change within it, so its row isn't cached yet.
            written = datetime.datetime(2026, 1, 2, "abcde".index(name), tzinfo=datetime.timezone.utc)
            s3_backends["123456789012"]["aws"].get_object("small", f"{name}/{file}").last_modified = written

    start = lambda: Board(binary, proxy, cache, "s3://small", options=["--s3-cache", "1MB"])
    board = start()
    rows = lambda: [(run["key"], run["steps"]) for run in board.runs()["runs"]]
    for names in ("abc", "de"):
        for name in names:
            put(name)
        board.settled()
        until("its rows", lambda: sorted(rows()) == [(name, 30) for name in "abcde" if name <= names[-1]])
    within = lambda: (store := board.store())["evicted"] == 6 and store["kept_bytes"] <= store["kept_limit"]
    assert within() and board.store()["left_out"] == 0, board.store()
    assert sorted(rows()) == [(name, 30) for name in "abcde"], "the rows of those that were evicted stay"
    assert "6 evicted (fetched again when their run is opened)" in board.get("/")
    for name in "abcde":
        answer = board.get(f"/api/runs/{name}/steps/29")
        assert '"n":29' in answer.replace(" ", ""), f"it is fetched where it is opened: {answer[:300]}"
        until("the oldest make room", within)
    proxy.spoil = 403
    answers = [board.get(f"/runs/{name}") for name in "abcde"]
    away = [answer for answer in answers if "Not available locally" in answer]
    assert len(away) == 2 and all("403" in answer for answer in away), "why it cannot be had is said"
    board.end()
    board = start()
    until("the rows at the next start, with a store that is away", lambda: sorted(rows()) == [(name, 30) for name in "abcde"])
    proxy.spoil = None
    for name in "abcde":
        until("it can be opened", lambda: "Not available locally" not in board.get(f"/runs/{name}"))
    board.end()
    holds("a cache of 1 MB for 1.5 MB of runs: it keeps within that, all rows stay, and each run can be opened")


def many(binary, cache, objects):
    """`OBJECTS` runs of one object each. Measures the time and the requests until all rows are known."""
    text = next((SAMPLES / "tools/claude-code").glob("*/*01.jsonl")).read_bytes()
    proxy = Proxy({f"{number // 1000:03}/{number:06}.jsonl": text for number in range(objects)}, Many)
    proxy.keys, proxy.delay = sorted(proxy.store), 0.02
    for start in ("first", "second"):
        proxy.lists = proxy.gets = 0
        board = Board(binary, proxy, cache, "s3://many")
        shown = []
        health = lambda: json.loads(board.get("/healthz"))

        def known():
            state = health()
            if state["runs"] == objects and state["indexing"] == 0:
                shown.append(time.monotonic() - board.began)
                return state["stores"][0]["lag_ms"]

        until("all rows", known)
        took = time.monotonic() - board.began
        store = board.store()
        holds(f"{objects} runs, {start} start: all rows after {shown[0]:.1f} s, as in the store after {took:.1f} s, at 20 ms a "
              f"request; {proxy.lists} requests for listings, {proxy.gets} for objects")
        assert store["requests"] <= proxy.lists + proxy.gets, "it counts what it asks"
        assert proxy.gets == (objects if start == "first" else 0), "each object is fetched once"
        pages = -(-objects // 1000)
        assert proxy.lists <= pages * (3 + took), "at most one listing a second, as it was told"
        board.end()
    proxy.shutdown()


def main(binary, objects, *parts):
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    store = server.get_host_and_port()
    proxy = Proxy(store)
    s3 = boto3.client("s3", endpoint_url=f"http://{store[0]}:{store[1]}", region_name="us-east-1",
                      aws_access_key_id="a", aws_secret_access_key="b")
    all_parts = {
        "follow": lambda cache: follow(binary, proxy, s3, cache),
        "tls": lambda cache: tls(binary, store, s3, cache),
        "small": lambda cache: small(binary, proxy, s3, cache),
        "many": lambda cache: many(binary, cache, objects),
    }
    with tempfile.TemporaryDirectory() as cache:
        for part in parts or all_parts:
            all_parts[part](cache)
    server.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
