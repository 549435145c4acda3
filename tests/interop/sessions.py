"""Finds the sessions of Claude Code and Codex below a directory, and what they used. Used by the tests that compare
`board usage` with other programs."""
import json
import os
import subprocess
from collections import defaultdict

KINDS = ["tokens_uncached", "tokens_cache_write", "tokens_cached", "tokens_out"]


def first_lines(path):
    with open(path, encoding="utf-8", errors="replace") as lines:
        for _, line in zip(range(20), lines):
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record


def tool_of(path):
    """Says which tool wrote a session file, or returns None for streams and other files."""
    for record in first_lines(path):
        if "sessionId" in record and "userType" in record and "parts" not in (record.get("message") or {}):
            return "claude"
        if record.get("type") == "session_meta" and "payload" in record:
            return "codex"
    return None


def sessions_of(directory):
    """Returns the session files by tool."""
    files = defaultdict(list)
    for path in sorted(directory.rglob("*.jsonl")):
        files[tool_of(path)].append(path)
    return files


def run(command, **env):
    done = subprocess.run(command, env={**os.environ, "TZ": "UTC", **env}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def usage(board, by, directory):
    return run([board, "usage", by, str(directory), "--json"])["rows"]


def records(path):
    for line in open(path, encoding="utf-8"):
        try:
            record = json.loads(line)
        except ValueError:
            # The last line of a killed session may be torn.
            continue
        yield line, record


def claude_requests(path):
    """Returns the tokens of a Claude Code session by request. Later records of a request repeat its usage."""
    requests = {}
    for _, record in records(path):
        message = record.get("message")
        if record.get("type") == "assistant" and message.get("usage"):
            counts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
            requests[message["id"]] = sum(message["usage"].get(name) or 0 for name in counts)
    return requests


def codex_records(path):
    for line, record in records(path):
        yield line, record, record.get("payload") or {}


def codex_requests(path):
    """Counts the tokens of a Codex session independently of the board, as recorded for each request, each once."""
    requests = {}
    for line, record, payload in codex_records(path):
        if record.get("type") == "token_usage_record":
            requests[payload.get("response_id", line)] = payload["usage"]["total_tokens"]
    return sum(requests.values())


def codex_counts(path):
    """Returns the running total and the tokens of the last request of each token_count record, as sums of input and output."""
    for _, _, payload in codex_records(path):
        info = (payload.get("info") or {}) if payload.get("type") == "token_count" else {}
        total, last = info.get("total_token_usage"), info.get("last_token_usage")
        if total and last:
            yield [used["input_tokens"] + used["output_tokens"] for used in (total, last)]


def codex_totals(path):
    """Returns the tokens of a Codex session by its highest running total."""
    return max((total for total, _ in codex_counts(path)), default=0)


def codex_lasts(path):
    """Adds up the last request of each token_count record. A record that repeats the total before it counts once."""
    known, sum_of_lasts = None, 0
    for total, last in codex_counts(path):
        sum_of_lasts += last if total != known else 0
        known = total
    return sum_of_lasts
