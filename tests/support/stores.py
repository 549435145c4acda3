"""Writes the sample databases of OpenCode, Kilo, Hermes, Crush and Goose: `stores.py sample_runs/tools`.

The rows are made up. The tables have the columns that the programs write and no others, in small pages.
"""

import datetime
import json
import os
import shutil
import sqlite3
import sys
import tempfile

SESSION = """CREATE TABLE `session` (`id` text PRIMARY KEY, `project_id` text NOT NULL, `parent_id` text,
`slug` text NOT NULL, `directory` text NOT NULL, `title` text NOT NULL, `version` text NOT NULL,
`cost` real DEFAULT 0 NOT NULL, `tokens_input` integer DEFAULT 0 NOT NULL, `tokens_output` integer DEFAULT 0 NOT NULL,
`tokens_reasoning` integer DEFAULT 0 NOT NULL, `tokens_cache_read` integer DEFAULT 0 NOT NULL,
`tokens_cache_write` integer DEFAULT 0 NOT NULL, `revert` text, `agent` text, `model` text,
`time_created` integer NOT NULL, `time_updated` integer NOT NULL, `time_compacting` integer, `time_archived` integer)"""
MESSAGE = """CREATE TABLE `message` (`id` text PRIMARY KEY, `session_id` text NOT NULL, `time_created` integer NOT NULL,
`time_updated` integer NOT NULL, `data` text NOT NULL)"""
PART = """CREATE TABLE `part` (`id` text PRIMARY KEY, `message_id` text NOT NULL, `session_id` text NOT NULL,
`time_created` integer NOT NULL, `time_updated` integer NOT NULL, `data` text NOT NULL)"""
EVENTS = "CREATE TABLE `event_sequence` (`aggregate_id` text PRIMARY KEY, `seq` integer NOT NULL, `owner_id` text)"
INDEXES = [
    "CREATE INDEX `message_session_time_created_id_idx` ON `message` (`session_id`,`time_created`,`id`)",
    "CREATE INDEX `part_message_id_id_idx` ON `part` (`message_id`,`id`)",
]
START = 1_777_885_200_000  # 2026-05-04T09:00:00Z
DIFF = """Index: /home/me/ledger/ledger.py
===================================================================
--- /home/me/ledger/ledger.py
+++ /home/me/ledger/ledger.py
@@ -1,2 +1,2 @@
 def total(rows):
-    return sum(rows[1:])
+    return sum(rows)
"""


class OpenCode:
    """One database of OpenCode or Kilo."""

    def __init__(self, path, version):
        self.db = sqlite3.connect(path)
        self.version, self.messages, self.parts, self.time = version, 0, 0, START
        self.db.execute("PRAGMA page_size=1024")
        self.db.execute("PRAGMA journal_mode=WAL")
        for sql in [SESSION, MESSAGE, PART, EVENTS, *INDEXES]:
            self.db.execute(sql)

    def session(self, id, title, parent=None, agent="build", cost=0.0, tokens=(0, 0, 0, 0, 0)):
        self.db.execute(
            "INSERT INTO session(id,project_id,parent_id,slug,directory,title,version,cost,tokens_input,tokens_output,"
            "tokens_reasoning,tokens_cache_read,tokens_cache_write,agent,model,time_created,time_updated)"
            " VALUES(?,'p1',?,'calm-river','/home/me/ledger',?,?,?,?,?,?,?,?,?,?,?,?)",
            (id, parent, title, self.version, cost, *tokens, agent,
             json.dumps({"id": "small-1", "providerID": "example"}), self.time, self.time),
        )
        self.db.execute("INSERT INTO event_sequence VALUES(?,1,NULL)", (id,))

    def message(self, session, data, parts, took=0):
        self.messages += 1
        id = f"msg_{self.messages:04}"
        created, self.time = self.time, self.time + took
        self.db.execute("INSERT INTO message VALUES(?,?,?,?,?)", (id, session, created, self.time, json.dumps(data(created, self.time))))
        for part in parts:
            self.parts += 1
            part = part(created, self.time) if callable(part) else part
            self.db.execute("INSERT INTO part VALUES(?,?,?,?,?,?)",
                            (f"prt_{self.parts:04}", id, session, created, self.time, json.dumps(part)))
        self.db.execute("UPDATE session SET time_updated=? WHERE id=?", (self.time, session))
        self.db.execute("UPDATE event_sequence SET seq=seq+1 WHERE aggregate_id=?", (session,))
        self.time += 1000

    def user(self, session, *parts):
        self.message(session, lambda at, _: {"role": "user", "time": {"created": at}, "agent": "build"}, parts)

    def reply(self, session, parts, finish="tool-calls", tokens=(0, 0, 0, 0, 0), cost=0.0, took=2000, **more):
        read, write = tokens[3:]
        usage = {"input": tokens[0], "output": tokens[1], "reasoning": tokens[2], "cache": {"read": read, "write": write}}

        def data(created, completed):
            time = {"created": created} | ({} if finish is None else {"completed": completed})
            end = {} if finish in (None, "") else {"finish": finish}
            return {"role": "assistant", "agent": "build", "mode": "build", "path": {"cwd": "/home/me/ledger", "root": "/"},
                    "modelID": "small-1", "providerID": "example", "cost": cost, "tokens": usage, "time": time} | end | more

        last = [{"type": "step-finish", "reason": finish, "tokens": usage, "cost": more.pop("own", cost)}] if finish else []
        self.message(session, data, [{"type": "step-start"}, *parts, *last], took)


def text(words, **more):
    return {"type": "text", "text": words} | more


def tool(name, given, status="completed", ms=500, **state):
    def made(created, _):
        time = {"start": created + 1000} | ({"end": created + 1000 + ms} if status != "running" else {})
        return {"type": "tool", "tool": name, "callID": f"call_{name}_{created % 1_000_000}",
                "state": {"status": status, "input": given, "time": time} | state}
    return made


def opencode(path):
    store = OpenCode(path, "1.18.33")
    main, helper, killed, stopped = "ses_main0001", "ses_help0001", "ses_kill0001", "ses_stop0001"
    store.session(main, "Ledger total fix", cost=0.05, tokens=(1900, 260, 40, 3000, 500))
    store.user(main, text('"The total is wrong, fix it."'))
    store.reply(main, [{"type": "reasoning", "text": "Run the test first."}, text("I'll run the test."),
                       tool("bash", {"command": "python -m unittest"}, output="FAILED (failures=1)\n",
                            metadata={"output": "FAILED (failures=1)\n", "exit": 1}),
                       tool("todowrite", {"todos": []}, output="[]",
                            metadata={"todos": [{"content": "Fix total", "status": "pending"}]})],
                tokens=(1000, 60, 40, 0, 500), cost=0.02)
    store.reply(main, [tool("task", {"description": "Read the code", "prompt": "What does total skip?"}, ms=900,
                            output="the first row", metadata={"sessionId": helper})],
                tokens=(300, 50, 0, 1500, 0), cost=0.01)
    store.reply(main, [tool("edit", {"filePath": "/home/me/ledger/ledger.py", "oldString": "rows[1:]", "newString": "rows"},
                            output="Edit applied successfully.",
                            metadata={"diff": DIFF, "filediff": {"file": "/home/me/ledger/ledger.py", "additions": 1, "deletions": 1}}),
                       tool("read", {"filePath": "/home/me/ledger/none.py"}, status="error", error="File not found: /home/me/ledger/none.py")],
                tokens=(200, 100, 0, 1500, 0), cost=0.01)
    store.reply(main, [text("`total` no longer skips the first row.")], finish="stop", tokens=(100, 20, 0, 0, 0), cost=0.005)
    store.user(main, text("The following tool was executed by the user", synthetic=True))
    store.reply(main, [tool("bash", {"command": "git status"}, output="clean\n", metadata={"output": "clean\n"})], finish="")
    store.user(main, {"type": "compaction", "auto": True})
    store.reply(main, [text("## Goal\nFix total.")], finish="stop", tokens=(250, 20, 0, 0, 0), cost=0.004, mode="compaction", summary=True)
    store.user(main, text("What did you change?"))
    store.reply(main, [text("The slice in `total`.")], finish="stop", tokens=(50, 10, 0, 0, 0), cost=0.001)

    store.session(helper, "Read the code (@general subagent)", parent=main, agent="general", cost=0.002, tokens=(400, 30, 0, 0, 0))
    store.user(helper, text("What does total skip?"))
    store.reply(helper, [text("The first row.")], finish="stop", tokens=(400, 30, 0, 0, 0), cost=0.002)

    store.session(killed, "New session - 2026-05-04T09:00:30.000Z")
    store.user(killed, text("Build it."))
    store.reply(killed, [text("Building."), tool("bash", {"command": "make"}, status="running", metadata={"output": ""})], finish=None)

    store.session(stopped, "Long talk")
    store.user(stopped, text("Talk to me."))
    store.reply(stopped, [text("There was a cent that ro")], finish="",
                error={"name": "MessageAbortedError", "data": {"message": "Aborted"}})
    store.db.commit()
    return store.db


def kilo(path):
    store = OpenCode(path, "7.7.9")
    main, helper = "ses_kilo0001", "ses_kilo0002"
    store.session(main, "ok", agent="code", cost=0.01, tokens=(500, 50, 0, 0, 0))
    store.user(main, text("Ask a helper."))
    # Its message has the cost of the sub-agent too.
    store.reply(main, [tool("task", {"description": "Help", "prompt": "Help me."}, output="helped", metadata={"sessionId": helper})],
                tokens=(300, 30, 0, 0, 0), cost=0.009, own=0.006)
    store.reply(main, [text("Half of an ans")], finish="length", tokens=(200, 20, 0, 0, 0), cost=0.004)
    store.session(helper, "Help (@general subagent)", parent=main, agent="general", cost=0.003, tokens=(100, 10, 0, 0, 0))
    store.user(helper, text("Help me."))
    store.reply(helper, [text("helped")], finish="stop", tokens=(100, 10, 0, 0, 0), cost=0.003)
    store.db.commit()
    return store.db


SESSIONS = """CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, model TEXT, model_config TEXT,
parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT, message_count INTEGER DEFAULT 0,
tool_call_count INTEGER DEFAULT 0, input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0,
cache_read_tokens INTEGER DEFAULT 0, cache_write_tokens INTEGER DEFAULT 0, reasoning_tokens INTEGER DEFAULT 0, cwd TEXT,
estimated_cost_usd REAL, actual_cost_usd REAL, cost_status TEXT, title TEXT, api_call_count INTEGER DEFAULT 0,
rewind_count INTEGER NOT NULL DEFAULT 0, archived INTEGER NOT NULL DEFAULT 0)"""
MESSAGES = """CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,
content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL, token_count INTEGER,
finish_reason TEXT, reasoning TEXT, active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0)"""


def hermes(path):
    db = sqlite3.connect(path)
    db.execute("PRAGMA page_size=1024")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
    db.execute("INSERT INTO schema_version VALUES(22)")
    db.execute(SESSIONS)
    db.execute(MESSAGES)
    db.execute("CREATE INDEX idx_messages_session_active ON messages(session_id, active, timestamp)")
    db.execute("CREATE TABLE session_model_usage (session_id TEXT NOT NULL, model TEXT NOT NULL, task TEXT NOT NULL DEFAULT '',"
               " api_call_count INTEGER NOT NULL DEFAULT 0, input_tokens INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (session_id, model, task))")
    at = [START / 1000]

    def session(id, source, calls, tokens, parent=None, most=90, **more):
        row = {"id": id, "source": source, "model": "small-1", "model_config": json.dumps({"max_iterations": most}),
               "parent_session_id": parent, "started_at": at[0], "cwd": None if parent else "/home/me/ledger",
               "api_call_count": calls, "input_tokens": tokens[0], "cache_read_tokens": tokens[1], "output_tokens": tokens[2]} | more
        db.execute(f"INSERT INTO sessions({','.join(row)}) VALUES({','.join('?' * len(row))})", tuple(row.values()))
        db.execute("INSERT INTO session_model_usage VALUES(?,'small-1','',?,?)", (id, calls, tokens[0]))

    def message(session, role, content, **more):
        at[0] += 1
        row = {"session_id": session, "role": role, "content": content, "timestamp": at[0]} | more
        db.execute(f"INSERT INTO messages({','.join(row)}) VALUES({','.join('?' * len(row))})", tuple(row.values()))

    def calls(*named):
        return json.dumps([{"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
                           for n, name, args in named])

    main, helper, limited = "20260504_090000_aaaaaa", "20260504_090100_bbbbbb", "20260504_090200_cccccc"
    session(main, "cli", 3, (600, 1400, 90), title="Ledger", actual_cost_usd=0.02)
    message(main, "user", "Fix the total.")
    message(main, "assistant", "Running the test.", tool_calls=calls((1, "terminal", {"command": "python -m unittest"}),
            (2, "delegate_task", {"goal": "Read ledger.py"})), finish_reason="tool_calls", reasoning="First the test.")
    warned = json.dumps({"output": "FAILED", "exit_code": 1, "error": None}) + "\n\n[Tool loop warning: same failure 2 times]"
    message(main, "tool", warned, tool_call_id="call_1", tool_name="terminal")
    message(main, "tool", json.dumps({"status": "dispatched", "count": 1}), tool_call_id="call_2", tool_name="delegate_task")
    message(main, "assistant", "", tool_calls=calls((3, "patch", {"path": "ledger.py"})), finish_reason="tool_calls")
    diff = "--- a/ledger.py\n+++ b/ledger.py\n@@ -1,2 +1,2 @@\n def total(rows):\n-    return sum(rows[1:])\n+    return sum(rows)\n"
    message(main, "tool", json.dumps({"success": True, "diff": diff, "files_modified": ["ledger.py"]}), tool_call_id="call_3", tool_name="patch")
    message(main, "assistant", "Fixed.", finish_reason="stop")
    session(helper, "subagent", 1, (100, 0, 10), parent=main, most=50, ended_at=at[0] + 3, end_reason="agent_close")
    message(helper, "user", "Read ledger.py")
    message(helper, "assistant", "It skips a row.", finish_reason="stop")
    session(limited, "cli", 2, (300, 0, 20), most=1)
    message(limited, "user", "Count the files.")
    message(limited, "assistant", "", tool_calls=calls((4, "terminal", {"command": "ls"})), finish_reason="tool_calls")
    message(limited, "tool", json.dumps({"output": "ledger.py", "exit_code": 0, "error": None}), tool_call_id="call_4", tool_name="terminal")
    message(limited, "user", "You've reached the maximum number of tool-calling iterations allowed. Summarize.")
    message(limited, "assistant", "One file so far.", finish_reason="stop")
    db.commit()
    return db


CRUSH_TABLES = [
    """CREATE TABLE sessions (id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT NOT NULL,
message_count INTEGER NOT NULL DEFAULT 0 CHECK (message_count >= 0), prompt_tokens INTEGER NOT NULL DEFAULT 0 CHECK (prompt_tokens >= 0),
completion_tokens INTEGER NOT NULL DEFAULT 0 CHECK (completion_tokens>= 0), cost REAL NOT NULL DEFAULT 0.0 CHECK (cost >= 0.0),
updated_at INTEGER NOT NULL, created_at INTEGER NOT NULL, summary_message_id TEXT, todos TEXT)""",
    """CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, role TEXT NOT NULL, parts TEXT NOT NULL default '[]',
model TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, finished_at INTEGER, provider TEXT,
is_summary_message INTEGER DEFAULT 0 NOT NULL, FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE)""",
    "CREATE INDEX idx_messages_session_id ON messages (session_id)",
]


class Crush:
    """The database of one project."""

    def __init__(self, path):
        self.db = sqlite3.connect(path)
        self.messages, self.time = 0, START // 1000
        self.db.execute("PRAGMA page_size=1024")
        self.db.execute("PRAGMA journal_mode=WAL")
        for sql in CRUSH_TABLES:
            self.db.execute(sql)

    def session(self, id, title, parent=None, cost=0.0, tokens=(0, 0)):
        self.db.execute("INSERT INTO sessions(id,parent_session_id,title,cost,prompt_tokens,completion_tokens,updated_at,created_at)"
                        " VALUES(?,?,?,?,?,?,?,?)", (id, parent, title, cost, *tokens, self.time, self.time))

    def message(self, session, role, *parts, took=0, model="", summary=0, ends=None):
        """Ids are random, so they don't sort by time. Most rows have the time of the one before."""
        self.messages += 1
        id = f"{self.messages * 7919 % 9973:04x}0000-0000-4000-8000-{self.messages:012}"
        if role != "assistant":
            parts = (*parts, part("finish", reason="stop", time=0))
        created, self.time = self.time, self.time + took
        ended = None
        if ends:
            ended = self.time
            parts = (*parts, part("finish", **({"reason": ends} if isinstance(ends, str) else ends), time=ended))
        self.db.execute("INSERT INTO messages VALUES(?,?,?,?,?,?,?,?,?,?)",
                        (id, session, role, json.dumps(list(parts)), model, created, self.time, ended,
                         "example" if role == "assistant" else None, summary))
        self.db.execute("UPDATE sessions SET updated_at=?, message_count=message_count+1 WHERE id=?", (self.time, session))
        return id

    def user(self, session, words):
        self.message(session, "user", part("text", text=words))

    def reply(self, session, *parts, ends="end_turn", took=2, **more):
        return self.message(session, "assistant", *parts, ends=ends, took=took, model="small-1", **more)

    def result(self, session, call, name, content, failed=False, **metadata):
        self.message(session, "tool", part("tool_result", tool_call_id=call, name=name, content=content, data="", mime_type="",
                                           metadata=json.dumps(metadata) if metadata else "", is_error=failed))


def part(kind, **data):
    return {"type": kind, "data": data}


def call(id, name, **given):
    return part("tool_call", id=id, name=name, input=json.dumps(given), provider_executed=False, finished=True)


def crush(path):
    store = Crush(path)
    main, killed, stopped, failed, denied = (f"{n}0000000-1111-4111-8111-111111111111" for n in "12345")
    file = "/home/me/ledger/ledger.py"
    store.session(main, "Ledger total fix", cost=0.05, tokens=(900, 60))
    store.user(main, "The total is wrong, fix it.")
    first = store.reply(main, part("reasoning", thinking="Run the test first.", signature="", started_at=0),
                        part("text", text="I'll run the test."), call("call_1", "bash", command="python -m unittest", description="test"),
                        call("call_2", "agent", prompt="What does total skip?"), ends="tool_use")
    helper = f"{first}$$call_2"
    store.result(main, "call_1", "bash", "\nFAILED (failures=1)\nExit code 1\n\n<cwd>/home/me/ledger</cwd>",
                 start_time=START + 2000, end_time=START + 2500, output="", description="test", working_directory="/home/me/ledger")
    store.result(main, "call_2", "agent", "the first row")
    store.reply(main, call("call_3", "edit", file_path=file, old_string="rows[1:]", new_string="rows"),
                call("call_4", "view", file_path="/home/me/ledger/none.py"), ends="tool_use")
    store.result(main, "call_3", "edit", f"<result>\nContent replaced in file: {file}\n</result>\n", additions=1, removals=1,
                 old_content="def total(rows):\n    return sum(rows[1:])\n", new_content="def total(rows):\n    return sum(rows)\n")
    store.result(main, "call_4", "view", "File not found: /home/me/ledger/none.py", failed=True)
    store.reply(main, part("text", text="`total` no longer skips the first row."))
    store.message(main, "user", part("shell_command", command="git status", output="clean", exit_code=0))
    summary = store.reply(main, part("text", text="Total was fixed."), summary=1)
    store.db.execute("UPDATE sessions SET summary_message_id=? WHERE id=?", (summary, main))
    store.user(main, "What did you change?")
    store.reply(main, part("text", text="The slice in `tot"), ends="max_tokens")

    store.session(helper, "New Agent Session", parent=main, cost=0.01, tokens=(400, 30))
    store.user(helper, "What does total skip?")
    store.reply(helper, part("text", text="The first row."))

    store.session(killed, "Untitled Session")
    store.user(killed, "Build it.")
    store.reply(killed, part("text", text="Building."), call("call_5", "bash", command="make"), ends=None)

    store.session(stopped, "Long talk")
    store.user(stopped, "Wait for me.")
    store.reply(stopped, call("call_6", "bash", command="sleep 60"), ends={"reason": "canceled", "message": "User canceled request"})
    store.result(stopped, "call_6", "bash", "Error: user cancelled assistant tool calling", failed=True)

    store.session(failed, "Hello")
    store.user(failed, "Hello.")
    store.reply(failed, ends={"reason": "error", "message": "Provider Error", "details": "500 Internal Server Error"})

    store.session(denied, "Clean up")
    store.user(denied, "Clean up.")
    store.reply(denied, call("call_7", "bash", command="rm -r build"))
    store.result(denied, "call_7", "bash", "User denied permission", failed=True)
    store.db.commit()
    return store.db


GOOSE_TABLES = [
    "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
    """CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '',
user_set_name BOOLEAN DEFAULT FALSE, session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL,
created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, extension_data TEXT DEFAULT '{}',
accumulated_total_tokens INTEGER, accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER,
accumulated_cache_read_tokens INTEGER, accumulated_cache_write_tokens INTEGER, accumulated_cost REAL, provider_name TEXT,
model_config_json TEXT, goose_mode TEXT NOT NULL DEFAULT 'auto', archived_at TIMESTAMP, parent_session_id TEXT)""",
    """CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL REFERENCES sessions(id),
role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, timestamp TIMESTAMP DEFAULT '', tokens INTEGER,
metadata_json TEXT)""",
    "CREATE INDEX idx_messages_session_created ON messages(session_id, created_timestamp, id)",
]


class Goose:
    """The database of one user."""

    def __init__(self, path):
        self.db = sqlite3.connect(path)
        self.time = START // 1000
        self.db.execute("PRAGMA page_size=1024")
        self.db.execute("PRAGMA journal_mode=WAL")
        for sql in GOOSE_TABLES:
            self.db.execute(sql)
        self.db.execute("INSERT INTO schema_version VALUES(17, '2026-05-04 09:00:00')")

    def session(self, id, name, kind="user", parent=None, tokens=None, cost=None):
        at = datetime.datetime.fromtimestamp(self.time, datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        row = {"id": id, "name": name, "session_type": kind, "working_dir": "/home/me/ledger", "created_at": at, "updated_at": at,
               "extension_data": json.dumps({"enabled_extensions.v0": {"extensions": [{"envs": {"TOKEN": "not for board"}}]}}),
               "provider_name": "example", "parent_session_id": parent, "accumulated_cost": cost,
               "model_config_json": json.dumps({"model_name": "small-1", "context_limit": 128000})}
        if tokens:
            names = ["input", "output", "cache_read", "cache_write"]
            row |= {f"accumulated_{name}_tokens": value for name, value in zip(names, tokens)}
            row["accumulated_total_tokens"] = tokens[0] + tokens[1]
        self.db.execute(f"INSERT INTO sessions({','.join(row)}) VALUES({','.join('?' * len(row))})", tuple(row.values()))

    def message(self, session, role, *content, sees=(True, True), took=0, usage=None, **more):
        self.time += took
        metadata = {"userVisible": sees[0], "agentVisible": sees[1]} | more
        if usage:
            names = ["inputTokens", "outputTokens", "cacheReadTokens", "cost"]
            metadata["usage"] = dict(zip(names, usage)) | {"costSource": "estimated"}
        self.db.execute("INSERT INTO messages(message_id,session_id,role,content_json,created_timestamp,metadata_json) VALUES(?,?,?,?,?,?)",
                        (f"msg_{self.db.total_changes:04}", session, role, json.dumps(list(content)), self.time, json.dumps(metadata)))

    def user(self, session, words, **more):
        self.message(session, "user", text(words), took=5, **more)

    def reply(self, session, *content, took=3, **more):
        self.message(session, "assistant", *content, took=took, **more)

    def result(self, session, id, words, failed=False, took=0, **value):
        value = {"content": [{"type": "text", "text": words, "annotations": {"priority": 0.0}}], "isError": failed} | value
        self.message(session, "user", {"type": "toolResponse", "id": id, "toolResult": {"status": "success", "value": value}}, took=took)


def asks(id, name, **given):
    return {"type": "toolRequest", "id": id, "toolCall": {"status": "success", "value": {"name": name, "arguments": given}}}


def goose(path):
    store = Goose(path)
    main, helper, stopped, declined = (f"20260504_{n}" for n in range(1, 5))
    file = "/home/me/ledger/ledger.py"
    first = {"type": "thinking", "thinking": "Run the test first.", "signature": ""}
    store.session(main, "Ledger total fix", tokens=(2300, 150, 600, 0), cost=0.02)
    store.user(main, "The total is wrong, fix it.", sees=(True, False))
    store.reply(main, text("I'll run the test."), sees=(True, False))
    # The calls of one reply, each with its result, in the second in which it arrived.
    store.reply(main, first, asks("call_1", "shell", command="python -m unittest"), sees=(True, False), took=0)
    store.result(main, "call_1", "FAILED (failures=1)\n\nCommand exited with code 1", failed=True,
                 structuredContent={"stdout": "", "stderr": "FAILED (failures=1)", "exit_code": 1})
    store.reply(main, first, asks("call_2", "delegate", instructions="What does total skip?"), sees=(True, False), took=0,
                usage=(500, 60, 0, 0.004))
    store.result(main, "call_2", "the first row")
    store.message(main, "user", text("Ledger: `total` skips a row."), sees=(False, True), took=9)
    store.message(main, "assistant", text("Your context was compacted. The previous message contains a summary of the conversation"
                                          " so far.\nContinue calling tools as necessary to complete the task."), sees=(False, True))
    store.message(main, "user", text("The total is wrong, fix it."))
    store.reply(main, asks("call_3", "edit", path=file, before="rows[1:]", after="rows"), usage=(600, 40, 300, 0.005))
    store.result(main, "call_3", f"Edited {file} (1 lines -> 1 lines)")
    store.reply(main, text("`total` no longer skips the first row."), usage=(700, 20, 300, 0.006))
    store.message(main, "user", text("/prompts"), sees=(True, False), took=5)
    store.message(main, "assistant", text("No prompts available"), sees=(True, False))

    store.session(helper, "Read the code", kind="sub_agent", parent=main, tokens=(400, 30, 0, 0), cost=0.001)
    store.user(helper, "What does total skip?")
    store.reply(helper, text("The first row."), usage=(400, 30, 0, 0.001))

    store.session(stopped, "CLI Session")
    store.user(stopped, "Wait for me.")
    store.reply(stopped, asks("call_4", "developer__shell", command="sleep 60"))
    store.message(stopped, "user")

    store.session(declined, "Clean up")
    store.user(declined, "Clean up.")
    store.reply(declined, asks("call_5", "shell", command="rm -r build"), usage=(300, 10, 0, 0.001))
    store.result(declined, "call_5", "The user has declined to run this tool. DO NOT attempt to call this tool again.", failed=True)
    store.reply(declined, text("The model returned an empty response. Please resend your message to continue."))
    store.db.commit()
    return store.db


def main(root):
    for folder, name, make, keeps_log in [("opencode", "opencode.db", opencode, True), ("kilo", "kilo.db", kilo, False),
                                          ("hermes", "state.db", hermes, False), ("crush", "crush.db", crush, False),
                                          ("goose", "sessions.db", goose, False)]:
        os.makedirs(os.path.join(root, folder), exist_ok=True)
        with tempfile.TemporaryDirectory() as temp:
            path = os.path.join(temp, name)
            db = make(path)
            if not keeps_log:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            # OpenCode is killed with its newest rows in the log, as usual.
            for ending in ["", "-wal"] if keeps_log else [""]:
                shutil.copyfile(path + ending, os.path.join(root, folder, name + ending))
            db.close()


if __name__ == "__main__":
    main(sys.argv[1])
