"""A server in place of OpenAI's. Asks for the tool `add`, then answers with its result."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Stub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        last = request["messages"][-1]
        if last["role"] == "tool":
            message = {"role": "assistant", "content": f"The sum is {text(last['content'])}."}
        else:
            function = {"name": "add", "arguments": '{"numbers": [19, 23]}'}
            call = {"id": "call_1", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        reply = {
            "id": "reply_1",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def text(content):
    """Returns a message's text, which may be a list of parts."""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Stub).serve_forever()
