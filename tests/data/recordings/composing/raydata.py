"""What a Ray head tells and writes during an attempt, from a localized sample laid along the attempt's time."""

import json
from datetime import datetime
from typing import Any

from archiver.sandbox.recording import Content
from tests.data.recordings.composing.samples import SOURCE, Localized
from tests.data.recordings.composing.story import Story

_EMPTY = {"total": 0, "num_after_truncation": 0, "num_filtered": 0, "result": [], "partial_failure_warning": ""}
_NODES = "2.60.0/nodes.json"


class RayData:
    def __init__(self, sample: Localized, *, ray_version: str, head_ip: str, started: datetime) -> None:
        self.sample = sample
        self.node_id = sample.node_id
        self._ray_version = ray_version
        self._head_ip = head_ip
        self._started = started

    def head_stdout(self) -> list[bytes]:
        """The head container's own output, as `ray start --block` writes it."""
        stamp = f"{self._started:%Y-%m-%d %H:%M:%S,%f}"[:-3]
        lines = (
            "INFO usage_lib.py:448 -- Usage stats collection is disabled.",
            f"INFO scripts.py:1043 -- \x1b[37mLocal node IP\x1b[39m: \x1b[1m{self._head_ip}\x1b[22m",
            "SUCC scripts.py:1085 -- \x1b[32mRay runtime started.\x1b[39m",
            "INFO scripts.py:1266 -- This command will now block forever until terminated by a signal.",
        )
        return [f"{stamp}\t{line}\n".encode() for line in lines]

    def answers(self, story: Story, at: float, pod: str) -> None:
        """What the dashboard says before any job ran."""
        session = f"session_{self._started:%Y-%m-%d_%H-%M-%S}_161723_17"
        version = {"version": "4", "ray_version": self._ray_version, "session_name": session}
        story.ray_answer(at, pod, "/api/version", version)
        story.ray_answer(at, pod, "/api/v0/nodes", self._nodes())
        story.ray_answer(at, pod, "/events", _events([]))

    def _nodes(self) -> dict[str, Any]:
        if "nodes" in self.sample.states:
            found: dict[str, Any] = self.sample.states["nodes"]
            return found
        text = (SOURCE / _NODES).read_text()
        document = json.loads(text)
        old = document["data"]["result"]["result"][0]["node_id"]
        replaced: dict[str, Any] = json.loads(text.replace(old, self.node_id).replace("10.0.0.2", self._head_ip))
        replaced["data"]["result"]["result"][0]["start_time_ms"] = round(self._started.timestamp() * 1000)
        return replaced

    def pending(self, story: Story, at: float, pod: str) -> None:
        record = {**self.sample.record, "status": "PENDING", "message": _PENDING, "end_time": None}
        for name in ("error_type", "driver_exit_code", "driver_info", "driver_agent_http_address", "driver_node_id"):
            record[name] = None
        story.ray_job(at, pod, {**record, "job_id": None})

    def running(self, story: Story, at: float, pod: str) -> None:
        record = {**self.sample.record, "status": "RUNNING", "message": "Job is currently running.", "end_time": None}
        story.ray_job(at, pod, {**record, "error_type": None, "driver_exit_code": None})

    def driver(
        self, story: Story, begin: float, end: float, pod: str, *, until: bytes = b""
    ) -> list[tuple[float, bytes]]:
        """The driver's lines, each when it was written; the last ones just before the end."""
        path = f"job-driver-{self.sample.record['submission_id']}.log"
        lines = self._timed(story, begin, end)
        stop = next((n for n, (_, line) in enumerate(lines) if until and line.startswith(until)), len(lines))
        lines = lines[:stop]
        for at, line in _grouped(lines):
            story.ray_file(at, pod, path, line)
        return lines

    def _timed(self, story: Story, begin: float, end: float) -> list[tuple[float, bytes]]:
        moments = self.sample.line_moments()
        trace = next((n for n, (_, line) in enumerate(moments) if line.startswith(b"Traceback")), len(moments))
        timed: list[tuple[float, bytes]] = []
        at = begin
        for number, (moment, line) in enumerate(moments):
            if moment is not None:
                at = min(max(at, (moment - story.origin).total_seconds(), begin), end)
            elif number >= trace:
                at = max(at, end - 0.05)
            else:
                at += (end - 0.05 - at) / max(2, trace - number + 1)
            timed.append((round(at, 3), line))
        return timed

    def ended(self, story: Story, at: float, pod: str) -> None:
        """The final record, and state, events and files that a late reader finds."""
        story.ray_job(at, pod, self.sample.record)
        for name in ("tasks", "actors", "workers", "placement_groups"):
            body = self.sample.states.get(name) or {"result": True, "msg": "", "data": {"result": _EMPTY}}
            story.ray_answer(at + 0.02, pod, f"/api/v0/{name}", body)
        story.ray_answer(at + 0.03, pod, "/events", _events(self.sample.events))
        for path, data in sorted(self.sample.files.items()):
            if data:
                story.ray_file(at + 0.04, pod, path, Content(data))


_PENDING = "Job has not started yet. It may be waiting for the runtime environment to be set up."


def _grouped(lines: list[tuple[float, bytes]]) -> list[tuple[float, bytes]]:
    """Lines that were written in the same millisecond are one growth of the file."""
    grouped: list[tuple[float, bytes]] = []
    for at, line in lines:
        if grouped and grouped[-1][0] == at:
            grouped[-1] = (at, grouped[-1][1] + line)
        else:
            grouped.append((at, line))
    return grouped


def _events(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The shape of `/events`: camelCase, by job."""
    by_job: dict[str, list[dict[str, Any]]] = {"global": []}
    for row in rows:
        job_id = (row.get("custom_fields") or {}).get("job_id", "global")
        by_job.setdefault(job_id, []).append({_camel(name): _camel_keys(value) for name, value in row.items()})
    return {"result": True, "msg": "All events fetched.", "data": {"events": by_job}}


def _camel_keys(value: Any) -> Any:
    return {_camel(name): item for name, item in value.items()} if isinstance(value, dict) else value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
