"""The same questions to real Ray and to the stand-in of the mass test: what is asked, in which order, and the answers.

Answers of real Ray are kept in tests/data/ray/VERSION.json. They are made on a machine with Ray, no other job on it, by

    ray start --head --dashboard-agent-listen-port=52365
    python -m tests.contract.ray_questions http://127.0.0.1:8265 http://127.0.0.1:52365 > tests/data/ray/VERSION.json
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

TERMINAL = ("SUCCEEDED", "FAILED", "STOPPED")
POLL_SECONDS = 0.2
GIVE_UP_SECONDS = 90.0
KEPT_HEADERS = ("Accept-Ranges", "Content-Range", "Content-Type", "ETag", "Last-Modified", "Content-Length")
ROWS = "detail=1&limit=10000"


@dataclass(frozen=True, slots=True)
class Question:
    """One request. `{node}` in the path is the head's node id."""

    path: str
    port: str = "dashboard"
    method: str = "GET"
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        extra = f" {json.dumps(self.body)}" if self.body else ""
        ranged = f" {self.headers['Range']}" if "Range" in self.headers else ""
        return f"{self.method} {self.port} {self.path}{ranged}{extra}"


@dataclass(frozen=True, slots=True)
class Until:
    """Waits until the job has one of the statuses."""

    job: str
    statuses: tuple[str, ...] = TERMINAL


@dataclass(frozen=True, slots=True)
class Tail:
    """Follows the job's log over the websocket until it is closed."""

    job: str

    @property
    def name(self) -> str:
        return f"TAIL {self.job}"


def _submit(name: str, entrypoint: str) -> Question:
    return Question("/api/jobs/", method="POST", body={"entrypoint": entrypoint, "submission_id": name})


def _file(name: str, **headers: str) -> Question:
    return Question(f"/logs/{name}", "agent", headers=headers)


def _of_job(name: str) -> tuple[Question, ...]:
    return (
        Question(f"/api/jobs/{name}"),
        Question(f"/api/jobs/{name}/logs"),
        Question(f"/api/v0/logs/file?node_id={{node}}&filename=job-driver-{name}.log&lines=-1"),
        _file(f"job-driver-{name}.log"),
    )


# a driver that prints at once may print before Ray has written that it starts it
LATE = "sleep 1; "
FAILS = LATE + "echo config: bad value for --lr; echo exiting early; exit 3"
CONVERSATION: tuple[Question | Until | Tail, ...] = (
    Question("/api/version"),
    Question("/api/gcs_healthz"),
    Question("/api/authentication_mode"),
    Question("/api/healthz", "agent"),
    Question("/api/local_raylet_healthz", "agent"),
    Question("/api/v0/nodes?detail=1"),
    Question("/api/v0/tasks?limit=10001"),
    Question("/api/v0/logs"),
    Question("/api/v0/logs/file?node_id={node}&filename=nothing.log"),
    Question("/api/jobs/nope"),
    Question("/api/jobs/nope/logs"),
    Question("/api/jobs/nope/stop", method="POST"),
    _file("nothing.log"),
    _file("../sockets/raylet"),
    _submit("fails", FAILS),
    Tail("fails"),
    Until("fails"),
    _submit("fails", FAILS),
    *_of_job("fails"),
    _file("job-driver-fails.log", Range="bytes=0-9"),
    _file("job-driver-fails.log", Range="bytes=30-1000000"),
    _file("job-driver-fails.log", Range="bytes=1000000-2000000"),
    Question("/logs/job-driver-fails.log", "agent", "HEAD"),
    Question(f"/api/v0/tasks?{ROWS}&filter_keys=job_id&filter_predicates=%3D&filter_values=09000000"),
    Question(f"/api/v0/actors?{ROWS}&filter_keys=job_id&filter_predicates=%3D&filter_values=09000000"),
    Question(f"/api/v0/placement_groups?{ROWS}"),
    _submit("works", LATE + "echo done"),
    Until("works"),
    *_of_job("works"),
    Question("/api/jobs/works/stop", method="POST"),
    _submit("binary", LATE + r"printf 'caf\351\nend'; exit 1"),
    Until("binary"),
    *_of_job("binary"),
    _submit("silent", LATE + "exit 5"),
    Until("silent"),
    *_of_job("silent"),
    _submit("unknown-program", LATE + "pyhton train.py"),
    Until("unknown-program"),
    *_of_job("unknown-program"),
    _submit("runs", LATE + "echo step 1; sleep 600"),
    Until("runs", ("RUNNING",)),
    Question("/api/jobs/runs"),
    Question("/api/jobs/runs", method="DELETE"),
    Question("/api/jobs/runs/stop", method="POST"),
    Until("runs"),
    Question("/api/jobs/runs"),
    Question("/api/jobs/runs", method="DELETE"),
    Question("/api/jobs/runs"),
    _file("job-driver-runs.log", Range="bytes=0-5"),
    Question("/api/jobs/"),
    Question("/events"),
    Question("/logs/", "agent"),
    Question("/logs", "agent"),
    Question("/logs/jobs", "agent"),
)


async def converse(dashboard: str, agent: str) -> list[dict[str, Any]]:
    """Every question with its answer. OSError or TimeoutError where nobody answers."""
    asking = _Asking({"dashboard": dashboard, "agent": agent})
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=GIVE_UP_SECONDS)) as session:
        answers = [await asking.step(session, step) for step in CONVERSATION]
    return [answer for answer in answers if answer is not None]


class _Asking:
    def __init__(self, bases: Mapping[str, str]) -> None:
        self._bases, self._node = bases, ""

    async def step(self, session: aiohttp.ClientSession, step: Question | Until | Tail) -> dict[str, Any] | None:
        if isinstance(step, Until):
            await self._wait(session, step)
            return None
        return await (self._tail(session, step) if isinstance(step, Tail) else self._ask(session, step))

    async def _wait(self, session: aiohttp.ClientSession, step: Until) -> None:
        async with asyncio.timeout(GIVE_UP_SECONDS):
            while True:
                async with session.get(f"{self._bases['dashboard']}/api/jobs/{step.job}") as response:
                    if (await response.json())["status"] in step.statuses:
                        return
                await asyncio.sleep(POLL_SECONDS)

    async def _tail(self, session: aiohttp.ClientSession, step: Tail) -> dict[str, Any]:
        url = f"{self._bases['dashboard']}/api/jobs/{step.job}/logs/tail"
        async with session.ws_connect(url) as socket:
            messages = [message.data async for message in socket if message.type is aiohttp.WSMsgType.TEXT]
            return {"question": step.name, "messages": messages, "close_code": socket.close_code}

    async def _ask(self, session: aiohttp.ClientSession, question: Question) -> dict[str, Any]:
        url = self._bases[question.port] + question.path.replace("{node}", self._node)
        headers = {"Accept-Encoding": "identity", **question.headers}
        asked = session.request(
            question.method, url, json=question.body, headers=headers, allow_redirects=False, skip_auto_headers=()
        )
        async with asked as response:
            data = await response.read()
            kept = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
        body: Any = data.decode("latin-1")
        if "json" in kept.get("Content-Type", ""):
            body = json.loads(data)
            if question.path.startswith("/api/v0/nodes"):
                self._node = body["data"]["result"]["result"][0]["node_id"]
        return {"question": question.name, "status": response.status, "headers": kept, "body": body}


if __name__ == "__main__":
    json.dump(asyncio.run(converse(*sys.argv[1:3])), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
