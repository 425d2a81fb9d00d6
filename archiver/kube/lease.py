"""Leader election on a coordination.k8s.io Lease, by the rules of client-go: one leads, the others watch the clock.

Nobody's wall clock is compared with another's: a holder counts as dead when its record has not changed for its lease
duration by *our* monotonic clock. Not a lock: a holder that is paused notices the loss only when it runs again.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from archiver.errors import KubeConflict, KubeError
from archiver.kube.answers import Call
from archiver.kube.pacing import Backoff
from archiver.kube.resources import LEASES
from archiver.kube.transport import Transport
from archiver.kube.trim import part

Work = Callable[[], Coroutine[Any, Any, None]]

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Seconds. A dead leader is followed after ``duration_seconds`` + ``retry_seconds`` at the latest."""

    duration_seconds: int = 11
    renew_seconds: float = 2.0
    retry_seconds: float = 1.0
    # seen on a loaded cluster: an API server that needs seconds for a renewal, while nobody else wants the lease
    request_seconds: float = 2.5

    @property
    def give_up_seconds(self) -> float:
        """A leader that could not renew for so long stops before anybody else may begin."""
        return self.duration_seconds * 3 / 4


@dataclass(frozen=True, slots=True)
class LeaseName:
    namespace: str
    name: str


class LeaseHolder:
    """One candidate. ``identity`` must be unique (pod name and uid). ``is_leading`` is for metrics and readiness."""

    def __init__(
        self, transport: Transport, lease: LeaseName, *, identity: str, timing: LeaseTiming | None = None
    ) -> None:
        self.identity = identity
        self.is_leading = False
        self.leader: str | None = None
        self._transport = transport
        self._lease = lease
        self._timing = timing or LeaseTiming()
        self._said = ""
        self._seen: tuple[Any, ...] = ()
        self._seen_at = float("-inf")

    async def run_led(self, work: Work) -> None:
        """Waits to lead, runs ``work``; cancels it when the lease is lost, and waits again. Returns when work returns.

        The lease is given back on the way out, also when we are cancelled, so that another can lead at once.
        """
        while True:
            await self._acquire()
            try:
                if await self._lead(work):
                    return
            finally:
                self.is_leading = False
                await self._release()
            _log.warning("leadership lost", identity=self.identity)

    async def _acquire(self) -> None:
        backoff = Backoff(self._timing.retry_seconds, self._timing.retry_seconds * 4)
        while True:
            try:
                if await self._try_to_hold():
                    break
                backoff.reset()
            except KubeConflict:
                backoff.reset()  # another candidate was faster
            except KubeError as error:
                self._say("lease not acquired", str(error))
            await asyncio.sleep(backoff.next_seconds())
        self.is_leading = True
        _log.info("leading", identity=self.identity, lease=self._lease.name)

    async def _lead(self, work: Work) -> bool:
        """True where the work came to its end, False where the lease was lost before."""
        renewal = asyncio.create_task(self._renew(), name=f"renew lease {self._lease.name}")
        worker = asyncio.create_task(work(), name=f"led by lease {self._lease.name}")
        try:
            await asyncio.wait((worker, renewal), return_when=asyncio.FIRST_COMPLETED)
            is_finished = worker.done()
        finally:
            # The lease is renewed until the work has cleaned up: nobody else may begin before.
            await _stop(worker)
            await _stop(renewal)
        if is_finished:
            worker.result()
        return is_finished

    async def _renew(self) -> None:
        """Returns when the lease is lost: taken by another, or not renewed in time."""
        is_held = True
        while is_held:
            try:
                async with asyncio.timeout(self._timing.give_up_seconds):
                    is_held = await self._renew_once()
            except TimeoutError:
                return

    async def _renew_once(self) -> bool:
        """True once the lease is renewed, False when it is somebody else's. After a failure it tries more often."""
        wait_seconds = self._timing.renew_seconds
        while True:
            await asyncio.sleep(wait_seconds)
            try:
                return await self._try_to_hold()
            except KubeError as error:
                self._say("lease not renewed", str(error))
            wait_seconds = self._timing.retry_seconds / 2

    async def _try_to_hold(self) -> bool:
        """Creates, renews or takes over the lease; False while another one holds it."""
        lease = await self._read()
        if lease is None:
            return await self._write("create", self._record({}))
        spec = part(lease, "spec")
        self._observe(spec)
        if self.leader not in (self.identity, None) and not self._is_expired(spec):
            return False
        record = self._record(spec)
        record["metadata"]["resourceVersion"] = part(lease, "metadata").get("resourceVersion")
        return await self._write("update", record)

    def _observe(self, spec: Any) -> None:
        seen = tuple(spec.get(key) for key in ("holderIdentity", "renewTime", "leaseTransitions", "acquireTime"))
        self.leader = spec.get("holderIdentity") or None
        if seen != self._seen:
            self._seen, self._seen_at = seen, time.monotonic()

    def _is_expired(self, spec: Any) -> bool:
        duration = spec.get("leaseDurationSeconds")
        duration_seconds = duration if isinstance(duration, int) else self._timing.duration_seconds
        return time.monotonic() - self._seen_at > duration_seconds

    def _record(self, before: Any) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        is_ours = before.get("holderIdentity") == self.identity
        transitions = int(before.get("leaseTransitions") or 0) + (1 if before and not is_ours else 0)
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timing.duration_seconds,
            "acquireTime": before.get("acquireTime", now) if is_ours else now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"namespace": self._lease.namespace, "name": self._lease.name},
            "spec": spec,
        }

    async def _read(self) -> Any | None:
        call = self._call("get", "GET", self._lease.name)
        return await self._transport.read_json(call, timeout_seconds=self._timing.request_seconds)

    async def _write(self, verb: str, record: dict[str, Any]) -> bool:
        """Raises KubeConflict where another one wrote in between; False where the lease was deleted."""
        method, name = ("POST", "") if verb == "create" else ("PUT", self._lease.name)
        call = self._call(verb, method, name, record)
        written = await self._transport.read_json(call, timeout_seconds=self._timing.request_seconds)
        if written is None and verb == "create":
            raise KubeError(f"cannot {call.intent}: the namespace does not exist")
        self._said = ""
        self._observe(part(written or {}, "spec"))
        return written is not None

    async def _release(self) -> None:
        """Best effort: whoever cannot say goodbye is followed after the lease duration."""
        try:
            lease = await self._read()
            if lease is None or part(lease, "spec").get("holderIdentity") != self.identity:
                return
            record = self._record(part(lease, "spec"))
            record["metadata"]["resourceVersion"] = part(lease, "metadata").get("resourceVersion")
            record["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            await self._write("update", record)
            _log.info("lease released", lease=self._lease.name)
        except KubeError as error:
            _log.warning("lease not released", lease=self._lease.name, reason=str(error))

    def _call(self, verb: str, method: str, name: str, body: Any = None) -> Call:
        path = LEASES.path(self._lease.namespace, name)
        return Call(verb, LEASES.label, path, self._lease.namespace, method=method, body=body, is_paced=False)

    def _say(self, event: str, reason: str) -> None:
        """Once, not at every try."""
        if reason != self._said:
            _log.warning(event, lease=self._lease.name, reason=reason)
        self._said = reason


async def _stop(task: "asyncio.Task[None]") -> None:
    """Cancels a task and waits until it has cleaned up; how it ended is for the caller to look at."""
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled() and task.exception() is not None:
        _log.warning("led task failed", task=task.get_name(), reason=repr(task.exception()))
