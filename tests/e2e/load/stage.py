"""Lets the crowd run, as many at a time as the machine bears, and does to each what a user would."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from archiver.errors import ArchiverError
from tests.e2e.load.crowd import Member, document
from tests.e2e.scenarios.kube import Document, Kube, until

BOARD_SECONDS = 1.0
MEMBER_SECONDS = 900.0  # a machine five times too slow, with a fault in between, must pass
OVER = ("Complete", "Failed", "ValidationFailed")


@dataclass(slots=True)
class Board:
    """All RayJobs of the namespace as of a moment ago: one list for everybody. `uids` of all that were ever seen."""

    kube: Kube
    namespace: str
    jobs: dict[str, Document] = field(default_factory=dict)
    uids: dict[str, str] = field(default_factory=dict)
    second_heads: list[str] = field(default_factory=list)

    async def follow(self) -> None:
        while True:
            with suppress(OSError, ArchiverError):  # an API server that is away comes back
                await self._part_heads()
                listed = await self.kube.list("RayJob", self.namespace)
                self.jobs = {job["metadata"]["name"]: job for job in listed}
                self.uids |= {name: job["metadata"]["uid"] for name, job in self.jobs.items()}
            await asyncio.sleep(BOARD_SECONDS)

    async def _part_heads(self) -> None:
        """Where the API server is killed in a creation, KubeRay 1.6 makes a second head and then waits for ever."""
        heads: dict[str, list[str]] = {}
        for pod in await self.kube.list("Pod", self.namespace, "ray.io/node-type=head"):
            if not pod["metadata"].get("deletionTimestamp"):
                heads.setdefault(pod["metadata"]["labels"]["ray.io/cluster"], []).append(pod["metadata"]["name"])
        for name in [name for names in heads.values() for name in sorted(names)[1:]]:
            self.second_heads.append(name)
            await self.kube.delete("Pod", self.namespace, name, grace_seconds=0)

    def status(self, name: str) -> Document:
        found: Document = self.jobs.get(name, {}).get("status") or {}
        return found


@dataclass(slots=True)
class Stage:
    """`ended` counts the members whose RayJob is over: the faults come by it. `stuck` says whose never was."""

    kube: Kube
    board: Board
    images: dict[str, str]
    at_once: asyncio.Semaphore
    ended: int = 0
    stuck: list[str] = field(default_factory=list)
    _waiting: dict[int, asyncio.Event] = field(default_factory=dict)

    async def play(self, member: Member) -> None:
        """Until the RayJob is over, or gone where the user deletes it. The others go on where one gets stuck."""
        async with self.at_once:
            try:
                await self._play(member)
            except TimeoutError as error:
                self.stuck.append(str(error))
        self.ended += 1
        for count, reached in self._waiting.items():
            if self.ended >= count:
                reached.set()

    async def _play(self, member: Member) -> None:
        await self._insist(f"{member.name} is not created", lambda: self._apply(member))
        await self._wait(member, "is not seen", lambda: member.name in self.board.uids)
        if member.mode == "InteractiveMode":
            await self._wait(member, "does not wait", lambda: self._has_deployment_status(member, "Waiting"))
            await self._insist(f"{member.name} is not submitted", lambda: self._submit(member))
        if member.is_deleted:
            await self._wait(member, "does not run", lambda: self._is_running(member))
            await self._insist(f"{member.name} is not deleted", lambda: self._delete(member))
            await self._wait(member, "is not gone", lambda: member.name not in self.board.jobs)
        else:
            await self._wait(member, "is not over", lambda: self._has_deployment_status(member, *OVER))

    async def has_ended(self, count: int) -> None:
        """Returns once so many members are over."""
        reached = self._waiting.setdefault(count, asyncio.Event())
        if self.ended < count:
            await reached.wait()

    async def _wait(self, member: Member, what: str, holds: Callable[[], bool]) -> None:
        async def is_so() -> bool:
            return holds()

        try:
            await until(f"{member.name} {what}", is_so, seconds=MEMBER_SECONDS)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; its status is {self.board.status(member.name)}") from error

    async def _insist(self, what: str, do: Callable[[], Awaitable[Any]]) -> None:
        async def done() -> bool:
            await do()
            return True

        await until(what, done, seconds=MEMBER_SECONDS, poll_seconds=1.0)

    def _has_deployment_status(self, member: Member, *wanted: str) -> bool:
        return self.board.status(member.name).get("jobDeploymentStatus") in wanted

    def _is_running(self, member: Member) -> bool:
        status = self.board.status(member.name)
        return status.get("jobStatus") == "RUNNING" or status.get("jobDeploymentStatus") in OVER

    async def _apply(self, member: Member) -> None:
        await self.kube.apply(document(member, self.board.namespace, self.images))

    async def _delete(self, member: Member) -> None:
        await self.kube.delete("RayJob", self.board.namespace, member.name)

    async def _submit(self, member: Member) -> None:
        """What a user does in InteractiveMode. Done again, it finds the job there and only tells the RayJob."""
        namespace, cluster = self.board.namespace, self.board.status(member.name)["rayClusterName"]
        heads = await self.kube.list("Pod", namespace, f"ray.io/cluster={cluster},ray.io/node-type=head")
        target = f"pods/{heads[0]['metadata']['name']}:8265"
        body = {"entrypoint": member.entrypoint, "submission_id": f"{member.name}-by-hand"}
        try:
            await self.kube.proxied(target, namespace, "/api/jobs/", body=body)
        except OSError as error:
            if "already exists" not in str(error):
                raise
        await self.kube.patch("RayJob", namespace, member.name, {"spec": {"jobId": body["submission_id"]}})
