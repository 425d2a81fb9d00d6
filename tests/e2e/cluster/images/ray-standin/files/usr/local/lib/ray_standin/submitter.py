"""`ray job …` as KubeRay's submitter calls it. Prints what Ray's command prints; exit codes are Ray's."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from ray_standin.session import stamp
from ray_standin.websocket import NORMAL, Following

TIMEOUT_SECONDS = 30.0
STYLES = {"SUCCEEDED": ("SUCC", "\x1b[32m", "succeeded"), "FAILED": ("ERR", "\x1b[31m", "failed")}


class Client:
    """The Job API of one head. OSError where it does not answer."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 8265

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        connection = HTTPConnection(self.host, self.port, timeout=TIMEOUT_SECONDS)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def record(self, name: str) -> dict[str, Any] | None:
        status, body = self.ask("GET", f"/api/jobs/{name}")
        found: dict[str, Any] | None = json.loads(body) if status == 200 else None
        return found


def submit(options: Namespace) -> int:
    client, name = Client(options.address), options.submission_id
    _say("INFO", f"\x1b[37mJob submission server address\x1b[39m: \x1b[1m{options.address}\x1b[22m")
    body = {"entrypoint": subprocess.list2cmdline(options.entrypoint), "submission_id": name}
    body |= {"runtime_env": _parsed(options.runtime_env_json), "metadata": _parsed(options.metadata_json)}
    status, answer = client.ask("POST", "/api/jobs/", body)
    if status != 200:
        sys.stderr.write(f"RuntimeError: Request failed with status code {status}: {answer.decode()}.\n")
        return 1
    name = json.loads(answer)["submission_id"]
    _boxed("SUCC", "\x1b[32m", f"Job '{name}' submitted successfully")
    _next_steps(name)
    if options.no_wait:
        return 0
    _say("INFO", "Tailing logs until the job exits (disable with --no-wait):")
    return 1 if _follow(client, name) == "FAILED" else 0


def logs(options: Namespace) -> int:
    """With --follow it ends with 0 whatever became of the job."""
    client = Client(options.address)
    _say("INFO", f"\x1b[37mJob submission server address\x1b[39m: \x1b[1m{options.address}\x1b[22m")
    if options.follow:
        _follow(client, options.name)
        return 0
    status, answer = client.ask("GET", f"/api/jobs/{options.name}/logs")
    sys.stdout.write(json.loads(answer)["logs"] if status == 200 else "")
    return 0 if status == 200 else 1


def status(options: Namespace) -> int:
    record = Client(options.address).record(options.name)
    if record is None:
        sys.stderr.write(f"RuntimeError: Request failed with status code 404: Job {options.name} does not exist.\n")
        return 1
    _ending(record)
    return 0


def stop(options: Namespace) -> int:
    code, _ = Client(options.address).ask("POST", f"/api/jobs/{options.name}/stop")
    return 0 if code == 200 else 1


def _follow(client: Client, name: str) -> str:
    """Prints the log until its stream ends, then how the job fares; gives its status. OSError for a broken stream."""
    following = Following(client.host, client.port, f"/api/jobs/{name}/logs/tail")
    for message in following:
        sys.stdout.write(message)
        sys.stdout.flush()
    if following.close_code != NORMAL:
        raise ConnectionError(f"WebSocket connection closed unexpectedly with close code {following.close_code}")
    _say("INFO", f"WebSocket closed for job {name} with close code {following.close_code}")
    record = client.record(name)
    if record is None:
        raise ConnectionError(f"Job {name} does not exist")
    _ending(record)
    return str(record["status"])


def _ending(record: dict[str, Any]) -> None:
    level, colour, word = STYLES.get(record["status"], ("INFO", "", ""))
    if not word:
        return _say(level, f"Status for job '{record['submission_id']}': {record['status']}")
    _boxed(level, colour, f"Job '{record['submission_id']}' {word}")
    if record["status"] == "FAILED":
        _say("INFO", f"Status message: {record['message']}")
    return None


def _next_steps(name: str) -> None:
    _say("INFO", "\x1b[36mNext steps\x1b[39m")
    for what, command in (("Query the logs", "logs"), ("Query the status", "status"), ("Request the job", "stop")):
        tail = " to be stopped:" if command == "stop" else " of the job:"
        _say("INFO", f"{what}{tail}")
        _say("INFO", f"\x1b[1mray job {command} {name}\x1b[22m")


def _boxed(level: str, colour: str, words: str) -> None:
    for line in ("-" * len(words), words, "-" * len(words)):
        _say(level, f"{colour}{line}\x1b[39m")


def _say(level: str, words: str) -> None:
    sys.stdout.write(f"{stamp()}\t{level} cli.py:42 -- {words}\n")
    sys.stdout.flush()


def _parsed(text: str | None) -> Any:
    return json.loads(text) if text else None
