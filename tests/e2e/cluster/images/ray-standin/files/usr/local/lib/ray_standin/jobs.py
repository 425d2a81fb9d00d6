"""Submitted jobs: each is a shell command whose output goes to its driver log, and a record of how it fares."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ray_standin.session import Session, stamp

TERMINAL = ("SUCCEEDED", "FAILED", "STOPPED")
KILL_SECONDS = 3.0
TAIL_LINES, TAIL_CHARS, TAIL_BYTES = 10, 20_000, 100_000


@dataclass
class Job:
    record: dict[str, Any]
    process: subprocess.Popen[bytes] | None = None
    is_stopped: bool = False
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def is_terminal(self) -> bool:
        return self.record["status"] in TERMINAL


class Jobs:
    """All jobs of a head. Every method may be called from any thread."""

    def __init__(self, session: Session, agent_address: str) -> None:
        self._session, self._agent_address = session, agent_address
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def submit(self, body: dict[str, Any]) -> str:
        """Starts it. ValueError where the id is taken."""
        name = body.get("submission_id") or f"raysubmit_{os.urandom(8).hex()}"
        with self._lock:
            if name in self._jobs:
                raise ValueError(f"Job with submission_id {name} already exists. Please use a different submission_id.")
            job = self._jobs[name] = Job(self._new_record(name, body))
        threading.Thread(target=self._run, args=(job,), daemon=True).start()
        return str(name)

    def find(self, name: str) -> Job | None:
        return self._jobs.get(name)

    def records(self) -> list[dict[str, Any]]:
        return [dict(job.record) for job in list(self._jobs.values())]

    def stop(self, job: Job) -> bool:
        """SIGTERM, and SIGKILL three seconds later. False for a job that is over."""
        if job.is_terminal:
            return False
        job.is_stopped = True
        if job.process:
            _signal(job.process, signal.SIGTERM)
            threading.Thread(target=self._kill_later, args=(job,), daemon=True).start()
        return True

    def delete(self, name: str) -> None:
        """Forgets the record; the log stays."""
        self._jobs.pop(name, None)

    def kill_all(self) -> None:
        for job in list(self._jobs.values()):
            if job.process:
                _signal(job.process, signal.SIGKILL)

    def _kill_later(self, job: Job) -> None:
        if not job.over.wait(KILL_SECONDS) and job.process:
            _signal(job.process, signal.SIGKILL)

    def _run(self, job: Job) -> None:
        record = job.record
        name, entrypoint = record["submission_id"], record["entrypoint"]
        path = self._session.driver_log(name)
        environment = os.environ | {"RAY_STANDIN_SUBMISSION_ID": name, "PYTHONUNBUFFERED": "1"}
        with path.open("ab", buffering=0) as log:
            log.write(f"{stamp()}\tINFO job_manager.py:581 -- Runtime env is setting up.\n".encode())
            log.write(f"Running entrypoint for job {name}: {entrypoint}\n".encode())
            self._session.note(f"jobs/supervisor-{name}.log", f"Starting entrypoint: {entrypoint}")
            record |= {
                "driver_agent_http_address": self._agent_address,
                "driver_node_id": self._session.node_id,
                "message": "Job is currently running.",
                "status": "RUNNING",
            }
            job.process = subprocess.Popen(
                ["/bin/sh", "-c", entrypoint],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            if job.is_stopped:
                _signal(job.process, signal.SIGTERM)
            code = job.process.wait()
        record |= _ending(code if code >= 0 else 128 - code, path, is_stopped=job.is_stopped)
        self._session.note(f"jobs/supervisor-{name}.log", f"Job {name} ended with status {record['status']}")
        job.over.set()

    @staticmethod
    def _new_record(name: str, body: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "SUBMISSION",
            "job_id": None,
            "submission_id": name,
            "driver_info": None,
            "status": "PENDING",
            "entrypoint": body["entrypoint"],
            "message": "Job has not started yet.",
            "error_type": None,
            "start_time": int(time.time() * 1000),
            "end_time": None,
            "metadata": body.get("metadata"),
            "runtime_env": body.get("runtime_env"),
            "driver_agent_http_address": None,
            "driver_node_id": None,
            "driver_exit_code": None,
        }


def _ending(code: int, path: Path, *, is_stopped: bool) -> dict[str, Any]:
    """What a record says once its driver has ended."""
    end = {"end_time": int(time.time() * 1000)}
    if is_stopped:
        return end | {"status": "STOPPED", "message": "Job was intentionally stopped."}
    if code == 0:
        return end | {"status": "SUCCEEDED", "message": "Job finished successfully.", "driver_exit_code": 0}
    said = f"Job entrypoint command failed with exit code {code}, last available logs (truncated to 20,000 chars):\n"
    error = {"message": said + _tail(path), "driver_exit_code": code, "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR"}
    return end | error | {"status": "FAILED"}


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines(keepends=True)
    return "".join(lines[-TAIL_LINES:])[-TAIL_CHARS:]


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """To the driver and all that it has started."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return
