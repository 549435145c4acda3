"""Receives the output of `board export RUN --otlp URL` for each run, and checks it against OpenTelemetry's messages and
attribute names. `otlp.py BOARD RUN...`"""

import base64
import json
import pathlib
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

NAMES = {value for name, value in vars(gen_ai_attributes).items() if name.isupper() and isinstance(value, str)}
# Names that are newer than the released ones, or that other tools use and receivers know.
BESIDE = {"gen_ai.usage.cost"}
received = []


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        # OTLP JSON has hexadecimal ids, protobuf's JSON format has base64.
        for spans in (scope["spans"] for resource in body["resourceSpans"] for scope in resource["scopeSpans"]):
            for span in spans:
                for key in ("traceId", "spanId", "parentSpanId"):
                    if key in span:
                        span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
        try:
            assert self.path == "/v1/traces" and self.headers["content-type"] == "application/json"
            received.append(json_format.ParseDict(body, ExportTraceServiceRequest()))
            status, answer = 200, json_format.MessageToJson(ExportTraceServiceResponse())
        except Exception as error:
            status, answer = 400, str(error)
        self.send_response(status)
        self.send_header("content-length", str(len(answer.encode())))
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_):
        pass


def values(attributes):
    found = {}
    for attribute in attributes:
        assert attribute.key not in found, f"{attribute.key} twice"
        found[attribute.key] = getattr(attribute.value, attribute.value.WhichOneof("value"))
    for key in found:
        assert not key.startswith("gen_ai.") or key in NAMES | BESIDE, f"{key} is no name of the conventions"
    return found


def check(board, run, url):
    received.clear()
    said = subprocess.run([board, "export", run, "--otlp", url], capture_output=True, text=True)
    if "records no times" in said.stderr:
        return None
    assert said.returncode == 0, said.stderr
    spans = [s for request in received for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]
    ids = {span.span_id for span in spans}
    assert len(ids) == len(spans) and all(len(id) == 8 for id in ids)
    assert len({span.trace_id for span in spans}) == 1 and len(spans[0].trace_id) == 16
    counts = {"invoke_agent": 0, "chat": 0, "execute_tool": 0}
    judged = 0
    for span in spans:
        says = values(span.attributes)
        counts[says["gen_ai.operation.name"]] += 1
        assert span.name.split(" ")[0] == says["gen_ai.operation.name"]
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.parent_span_id in ids or span is spans[0]
        for key in ("gen_ai.input.messages", "gen_ai.output.messages"):
            for message in json.loads(says.get(key, "[]")):
                assert message["role"] and message["parts"], message
        for event in span.events:
            assert event.name == "gen_ai.evaluation.result" and "gen_ai.evaluation.name" in values(event.attributes)
            judged += 1
    assert counts["invoke_agent"] == 1
    shown = json.loads(subprocess.run([board, "show", "--json", run], capture_output=True, text=True, check=True).stdout)
    assert counts["chat"] == len(shown["steps_list"]), f"{counts} of {len(shown['steps_list'])} steps"
    root = values(spans[0].attributes)
    assert root["board.verdict"] == shown["verdict"] and root["board.outcome"] == shown["outcome"]
    return counts["chat"], counts["execute_tool"], judged


def main():
    board, *runs = sys.argv[1:]
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    total, untimed = [0, 0, 0], 0
    for run in runs:
        path = pathlib.Path(run)
        if path.is_dir() and not (path / "manifest.json").exists() and not (path / "steps.jsonl").exists():
            continue
        try:
            counted = check(board, run, url)
        except AssertionError as error:
            raise SystemExit(f"{run}: {error}") from error
        untimed += counted is None
        total = [a + b for a, b in zip(total, counted or (0, 0, 0))]
    steps, tools, judged = total
    assert steps > 50 and tools > 20 and judged > 10, total
    print(f"{steps} steps, {tools} tools and {judged} scores arrived as they should; {untimed} runs record no times")


main()
