"""Tests `board mcp` with a real client: every tool, errors, a growing run, a cancelled call, and the end of the session.

    python mcp_client.py BOARD

Needs the package mcp, 1.x or 2.x. With 2.x, a session without a handshake, that client's default, and one with it are tested.
"""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parent.parent / "sample_runs"
MODERN = not version("mcp").startswith("1.")


def expect(holds, what):
    if not holds:
        raise SystemExit(f"wrong: {what}")


async def call(session, name, **arguments):
    """Returns a tool's result as a document, or its error text."""
    result = await session.call_tool(name, arguments)
    text = result.content[0].text
    is_error = result.is_error if MODERN else result.isError
    return text if is_error else json.loads(text)


async def look(session, run):
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    names = {"list_runs", "why", "step", "state", "search", "usage", "diff", "whatif"}
    expect(names <= set(tools), f"the tools are {list(tools)}")

    runs = await call(session, "list_runs", limit=500, max_bytes=1_000_000)
    keys = {row["key"] for row in runs["runs"]}
    expect({"fix_bug", "critic_stop"} <= keys and runs["matched"] == len(keys), "not all runs are listed")
    why = await call(session, "why", run="critic_stop")
    expect(why["stop_reason"] == "critic_stop" and why["evidence"], f"why says {why}")
    step = await call(session, "step", run="fix_bug", n=0)
    expect(step["head"]["n"] == 0 and step["step"]["step_id"] == 0, f"the step is {step}")
    state = await call(session, "state", run="fix_bug", key="tests.passed")
    expect(state["value"] == 4, f"the history is {state}")
    found = await call(session, "search", text="treasurer")
    expect(found["state"] == "done" and "critic_stop" in {hit["run"] for hit in found["hits"]}, f"found {found}")
    usage = await call(session, "usage", by="model")
    expect(usage["by"] == "model" and usage["rows"], f"the usage is {usage}")
    diff = await call(session, "diff", a="fix_bug", b="critic_stop")
    expect(diff["differs"] and diff["first_divergence"], f"the difference is {diff}")
    whatif = await call(session, "whatif", run="fix_bug", rules=["max_steps=3"])
    expect(whatif["rules"][0]["result"] == "earlier", f"what-if says {whatif}")
    wrong = await call(session, "why", run="critic_stp")
    expect(wrong.startswith("error: ") and "hint: did you mean critic_stop?" in wrong, f"the error is {wrong}")
    short = await call(session, "list_runs", limit=500, max_bytes=8000)
    expect(short["truncated"] and len(json.dumps(short)) < 9000, "a long answer was not cut")

    # A growing run yields new results.
    steps = run / "steps.jsonl"
    total = (await call(session, "step", run="grows"))["total"]
    with steps.open("a", encoding="utf-8") as file:
        file.write(steps.read_text(encoding="utf-8").splitlines()[-1] + "\n")
    while (await call(session, "step", run="grows"))["total"] == total:
        await asyncio.sleep(0.01)

    # A cancelled call doesn't affect the session.
    given_up = asyncio.create_task(call(session, "search", text="a"))
    await asyncio.sleep(0)
    given_up.cancel()
    expect((await call(session, "why", run="fix_bug"))["stop_reason"] == "final", "there is no talk after a cancelled call")


async def main(board):
    with tempfile.TemporaryDirectory() as home:
        root = Path(home) / "runs"
        for name in ("fix_bug", "critic_stop", "loop", "tools"):
            shutil.copytree(SAMPLES / name, root / name)
        run = root / "grows"
        shutil.copytree(SAMPLES / "fix_bug", run)
        env = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home}
        server = StdioServerParameters(command=board, args=["mcp", str(root)], env=env)
        begins = ["initialize", "discover"] if MODERN else ["initialize"]
        for begin in begins:
            async with stdio_client(server) as streams, ClientSession(*streams) as session:
                hello = await getattr(session, begin)()
                await look(session, run)
                if begin == "initialize":
                    await session.send_ping()
                    spoken = hello.protocol_version if MODERN else hello.protocolVersion
                else:
                    spoken = session.protocol_version
            print(f"  ok     mcp {version('mcp')}, {begin}: {spoken}")


asyncio.run(main(os.path.abspath(sys.argv[1])))
