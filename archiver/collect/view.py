"""What the followers of an attempt may ask of it and tell it. Asks the fold; decides nothing."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from archiver.collect.pulse import Pulse
from archiver.collect.state import AttemptState
from archiver.collect.tools import Tools
from archiver.core.lifecycle import JOB_TERMINAL
from archiver.core.model import ContainerRun
from archiver.core.objects import text
from archiver.ports import RayHead

_RECORDS_KEPT = 64


class AttemptView:
    """Implements driver.DriverView and podlog.RunView. ``records`` are versions of the Ray job's record to be kept."""

    def __init__(self, state: AttemptState, tools: Tools, pulse: Pulse, hold_is_on: Callable[[], bool]) -> None:
        self._state = state
        self._tools = tools
        self._pulse = pulse
        self._hold_is_on = hold_is_on
        self.records: deque[Mapping[str, Any]] = deque(maxlen=_RECORDS_KEPT)
        self.token: str | None = None

    def head(self) -> RayHead | None:
        head = self._state.head()
        if head is None:
            return None
        return replace(head, token=self.token, workers={ip: pod for pod, ip in self._state.worker_ips().items()})

    def head_run(self) -> tuple[str, int] | None:
        return self._state.head_run()

    def is_ending(self) -> bool:
        return self._state.first_signal_seen is not None

    def is_job_over(self) -> bool:
        return self._state.had_job and self._state.facts is not None and self._state.facts.job_status in JOB_TERMINAL

    def is_over_for_ray(self) -> bool:
        """Ray's own record, or where there is none the RayJob's status, says that the job is over."""
        record = self._state.ray_record
        return text(record, "status") in JOB_TERMINAL if record is not None else self.is_job_over()

    def had_job(self) -> bool:
        return self._state.had_job

    def is_head_lost(self) -> bool:
        if self._state.head() is not None:
            return False
        return self._state.cluster_deleted_seen is not None or self._state.ended is not None

    def is_held(self) -> bool:
        return self._hold_is_on()

    def is_finished(self, run: ContainerRun) -> bool:
        return self._state.is_finished(run)

    def is_pod_gone(self, run: ContainerRun) -> bool:
        return self._state.is_pod_gone(run)

    def is_node_lost(self, run: ContainerRun) -> bool:
        return self._state.is_node_lost(run)

    def has_restarted(self, run: ContainerRun) -> bool:
        return self._state.has_restarted(run)

    def started_at(self, run: ContainerRun) -> datetime | None:
        return self._state.started_at(run)

    def ended_at(self, run: ContainerRun) -> datetime | None:
        return self._state.ended_at(run)

    def monotonic(self) -> float:
        return self._tools.monotonic()

    def on_record(self, record: Mapping[str, Any]) -> None:
        self._state.note_record(record, self._tools.now())
        self.records.append(record)
        self._pulse.beat()

    async def wait_change(self, timeout_seconds: float) -> None:
        await self._pulse.wait(timeout_seconds)
