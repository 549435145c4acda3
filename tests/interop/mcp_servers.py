"""Tests an agent of `board run` with tools of real servers: three over pipes, one of them over HTTP too. The model is scripted.

    python mcp_servers.py BOARD NODE_MODULES

Needs the package mcp for a Python server, and the packages @modelcontextprotocol/server-everything and
@modelcontextprotocol/server-filesystem in NODE_MODULES.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

KEY = "sk-interop-0123456789"
DEADLINE_S = 120
PYTHON_SERVER = """
import sys
try:
    from mcp.server.mcpserver import MCPServer
except ImportError:
    from mcp.server.fastmcp import FastMCP as MCPServer

server = MCPServer("sums")


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


if sys.argv[1] == "stdio":
    server.run("stdio")
elif hasattr(server.settings, "port"):
    server.settings.port = 0
    server.run("streamable-http")
else:
    server.run("streamable-http", port=0)
"""
# Calls of each kind, and the text that each result must contain. `None` means that the call must fail.
CALLS = [
    ("sums__add", {"a": 19, "b": 23}, "42"),
    ("web__add", {"a": 20, "b": 25}, "45"),
    ("web__add", {"a": "many"}, None),
    ("everything__echo", {"message": "hello"}, "Echo: hello"),
    ("everything__get-tiny-image", {}, "left_out_bytes"),
    ("everything__get-env", {}, "PATH"),
    ("everything__echo", {}, None),
    ("files__read_text_file", {"path": "note.txt"}, "what the note says"),
    ("files__read_text_file", {"path": "/etc/passwd"}, None),
    ("files__write_file", {"path": "note.txt", "content": "x"}, None),
]


def expect(holds, what):
    if not holds:
        raise SystemExit(f"wrong: {what}")


class Model(BaseHTTPRequestHandler):
    """Requests the calls, one per reply, and then answers."""

    asked = []

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        place = len(self.asked)
        self.asked.append(request)
        message = {"role": "assistant", "content": "All is done."}
        if place < len(CALLS):
            name, arguments, _ = CALLS[place]
            function = {"name": name, "arguments": json.dumps(arguments)}
            message = {"role": "assistant", "tool_calls": [{"id": f"c{place}", "type": "function", "function": function}]}
        body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def listening(command):
    """Starts an HTTP server. Returns it and the address that it prints."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = []
    for line in server.stderr:
        said.append(line)
        address = re.search(r"running on (http://[0-9.:]+)", line)
        if address:
            # Drains later output, so that it doesn't fill the pipe.
            threading.Thread(target=server.stderr.read, daemon=True).start()
            return server, f"{address[1]}/mcp"
    raise SystemExit(f"wrong: the server over HTTP ended: {''.join(said)}")


def main(board, modules):
    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    scope = Path(modules).resolve() / "@modelcontextprotocol"
    with tempfile.TemporaryDirectory() as home:
        home = Path(home).resolve()
        (home / "work").mkdir()
        (home / "work" / "note.txt").write_text("what the note says\n", encoding="utf-8")
        (home / "sums.py").write_text(PYTHON_SERVER, encoding="utf-8")
        servers = {
            "sums": [sys.executable, str(home / "sums.py"), "stdio"],
            "everything": ["node", str(scope / "server-everything" / "dist" / "index.js")],
            "files": ["node", str(scope / "server-filesystem" / "dist" / "index.js"), "."],
        }
        parts = "".join(f"[mcp.{name}]\ncommand = {json.dumps(command)}\n" for name, command in servers.items())
        web, url = listening([sys.executable, str(home / "sums.py"), "http"])
        parts += f"[mcp.web]\nurl = {json.dumps(url)}\n"
        address = f"http://127.0.0.1:{model.server_address[1]}/v1"
        agent = home / "agent.toml"
        agent.write_text(
            f'[model]\nbase_url = "{address}"\nmodel = "tiny"\n[workspace]\ndir = "work"\ntools = []\n[budget]\nsteps = 20\n'
            f'[gate]\ndeny = ["files__write_*"]\n{parts}',
            encoding="utf-8",
        )
        command = [board, "run", str(agent), "use them", "--runs", str(home / "runs"), "--json"]
        env = {**os.environ, "OPENAI_API_KEY": KEY, "HOME": str(home)}
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=DEADLINE_S)
        finally:
            web.kill()
            web.wait()
        expect(done.returncode == 0, f"board run ended with {done.returncode}: {done.stdout}{done.stderr}")
        report = json.loads(done.stdout)
        expect(report["answer"] == "All is done.", f"the answer is {report}")
        offered = {tool["function"]["name"] for tool in Model.asked[0]["tools"]}
        expect({name for name, _, _ in CALLS} <= offered, f"the model was offered {sorted(offered)}")
        steps = (Path(report["path"]) / "steps.jsonl").read_text(encoding="utf-8")
        expect(KEY not in steps, "the key is in the trace")
        for line, (name, arguments, wanted) in zip(steps.splitlines(), CALLS):
            result = json.loads(line)["action_results"][0]
            told = f"{name} {arguments}: {json.dumps(result)[:400]}"
            good = result["status"] == "success"
            expect(good == (wanted is not None), told)
            expect(wanted is None or wanted in json.dumps(result["output"]), told)
            print(f"  ok     {name}: {json.dumps(result.get('output') if good else result.get('error'))[:80]}")


main(os.path.abspath(sys.argv[1]), sys.argv[2])
