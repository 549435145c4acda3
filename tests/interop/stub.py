"""A scripted model service for command-line coding agents, with streamed Anthropic Messages, OpenAI Responses and OpenAI
Chat Completions.

Listens on the loopback only and uses only the standard library. A reply is a dict of `text`, `calls` (a list of tool
name and arguments), `usage` (uncached input tokens, cached input tokens, output tokens) and `after`, a function called
before the reply is sent. A test can use it to pause a tool until it has seen the run so far. A reply with `is_plain` answers
a request without tools. If the script has a `status`, each request is refused with it.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Stub:
    """Answers requests with tools from the script, in order, and others (titles, summaries) with one word."""

    def __init__(self, script):
        self._script = list(script)
        self.status = next((reply["status"] for reply in self._script if "status" in reply), None)
        self._lock = threading.Lock()
        self.fault = None
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.answer({"data": [], "models": []})

            def do_POST(self):
                body = self.body()
                path = self.path.split("?")[0]
                if stub.status and not path.endswith("/count_tokens"):
                    self.answer({"type": "error", "error": {"type": "authentication_error", "message": "invalid key"}}, stub.status)
                elif path.endswith("/messages"):
                    self.stream(messages(body, stub.next(body)))
                elif path.endswith("/responses"):
                    self.stream(responses(body, stub.next(body)))
                elif path.endswith("/chat/completions"):
                    chunks = chat(body, stub.next(body))
                    if body.get("stream"):
                        self.stream(chunks, end="data: [DONE]\n\n")
                    else:
                        self.answer(joined(chunks))
                elif path.endswith("/count_tokens"):
                    self.answer({"input_tokens": 10})
                else:
                    self.answer({}, 404)

            def body(self):
                if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                    return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
                raw = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    raw += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return json.loads(raw)

            def answer(self, value, status=200):
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def stream(self, events, end=""):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                for event in events:
                    kind = f"event: {event['type']}\n" if "type" in event else ""
                    self.wfile.write(f"{kind}data: {json.dumps(event)}\n\n".encode())
                self.wfile.write(end.encode())
                self.wfile.flush()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def next(self, body):
        with self._lock:
            if not body.get("tools") and not (self._script and self._script[0].get("is_plain")):
                return {"text": "ok"}
            reply = self._script.pop(0) if self._script else {"text": "The script is over."}
        try:
            reply.get("after", lambda: None)()
        except Exception as fault:  # The tool must still finish.
            self.fault = self.fault or fault
        return reply

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def messages(body, reply):
    """Yields the events of a streamed response in Anthropic's Messages API."""
    fresh, cached, out = reply.get("usage", (10, 0, 5))
    usage = {"input_tokens": fresh, "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0, "output_tokens": out}
    calls = reply.get("calls", [])
    name = f"msg_{id(reply):x}"
    head = {"id": name, "type": "message", "role": "assistant", "model": body.get("model"), "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": {**head, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}}
    blocks = [("text", {"text": ""}, {"type": "text_delta", "text": reply["text"]})] if reply.get("text") else []
    for number, (tool, arguments) in enumerate(calls):
        start = {"id": f"toolu_{id(reply):x}_{number}", "name": tool, "input": {}}
        blocks.append(("tool_use", start, {"type": "input_json_delta", "partial_json": json.dumps(arguments)}))
    for index, (kind, start, delta) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": {"type": kind, **start}}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = "tool_use" if calls else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def responses(body, reply):
    """Yields the events of a streamed response in OpenAI's Responses API."""
    fresh, cached, out = reply.get("usage", (10, 0, 5))
    base = {"id": f"resp_{id(reply):x}", "object": "response", "created_at": 0, "model": body.get("model")}
    yield {"type": "response.created", "response": {**base, "status": "in_progress", "output": []}}
    items = []
    if reply.get("text"):
        content = [{"type": "output_text", "text": reply["text"], "annotations": []}]
        items.append({"type": "message", "id": f"m_{id(reply):x}", "role": "assistant", "status": "completed", "content": content})
    for number, (tool, arguments) in enumerate(reply.get("calls", [])):
        call = {"id": f"fc_{id(reply):x}_{number}", "call_id": f"call_{id(reply):x}_{number}", "status": "completed"}
        items.append({"type": "function_call", "name": tool, "arguments": json.dumps(arguments), **call})
    for index, item in enumerate(items):
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    usage = {
        "input_tokens": fresh + cached,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": fresh + cached + out,
    }
    yield {"type": "response.completed", "response": {**base, "status": "completed", "output": items, "usage": usage}}


def chat(body, reply):
    """Yields the chunks of a streamed response in OpenAI's Chat Completions API."""
    fresh, cached, out = reply.get("usage", (10, 0, 5))
    base = {"id": f"chatcmpl-{id(reply):x}", "object": "chat.completion.chunk", "created": 0, "model": body.get("model")}
    deltas = [{"role": "assistant", "content": reply.get("text", "")}]
    for number, (tool, arguments) in enumerate(reply.get("calls", [])):
        call = {"index": number, "id": f"call_{id(reply):x}_{number}", "type": "function"}
        deltas.append({"tool_calls": [{**call, "function": {"name": tool, "arguments": json.dumps(arguments)}}]})
    for delta in deltas:
        yield {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    end = "tool_calls" if reply.get("calls") else "stop"
    yield {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": end}]}
    usage = {
        "prompt_tokens": fresh + cached,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens": out,
        "completion_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": fresh + cached + out,
    }
    yield {**base, "choices": [], "usage": usage}


def joined(chunks):
    """Returns the response without streaming that has the same content as these chunks."""
    first, *_, end, used = chunks
    message = first["choices"][0]["delta"]
    return {**used, "object": "chat.completion", "choices": [{**end["choices"][0], "message": message}]}
