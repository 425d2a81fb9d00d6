"""Plays scenarios: several at once, as many as the machine has places for, each in a namespace of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from tests.e2e.archiver_pod import ArchiverPod
from tests.e2e.cluster.connection import Connection
from tests.e2e.scenarios import rayjob
from tests.e2e.scenarios.acts import Stage, perform
from tests.e2e.scenarios.kube import Document, Kube, until
from tests.e2e.scenarios.scenario import Scenario
from tests.e2e.scenarios.tape import Recorder
from tests.e2e.scenarios.truth import Truth

ARCHIVED_SECONDS = 900.0  # a machine five times too slow must pass
CENT = 100
POLICY = "ValidatingAdmissionPolicy"


@dataclass(frozen=True, slots=True)
class Played:
    """What is left of a scenario. `jobs` are the archive's views of every RayJob object, oldest first."""

    scenario: Scenario
    namespace: str
    jobs: tuple[Document, ...]
    truths: dict[str, bytes]  # by RayCluster: what its driver wrote outside the pod
    drivers: dict[str, bytes]  # by RayCluster: what the archive has of it
    events: dict[str, list[Document]]
    rows: tuple[Document, ...]  # the list's rows of this namespace
    seconds: float

    @property
    def attempts(self) -> list[Document]:
        return [attempt for job in self.jobs for attempt in job["attempts"]]


@dataclass(slots=True)
class Places:
    """A machine's room for RayJobs, in hundredths of one with Ray in it."""

    total: int
    free: int
    _waiting: list[tuple[int, asyncio.Event]] = field(default_factory=list)

    @classmethod
    def of(cls, places: float) -> Places:
        return cls(round(places * CENT), round(places * CENT))

    async def take(self, amount: int) -> None:
        mine = (amount, asyncio.Event())
        self._waiting.append(mine)
        self._admit()
        await mine[1].wait()

    def give(self, amount: int) -> None:
        self.free += amount
        self._admit()

    def _admit(self) -> None:
        """The dearest that fits in: cheap ones fill what is left."""
        for waiting in list(self._waiting):
            if waiting[0] <= self.free:
                self.free -= waiting[0]
                self._waiting.remove(waiting)
                waiting[1].set()


class Player:
    """Everything that a scenario is played with."""

    def __init__(self, kube: Kube, connection: Connection, archiver: ArchiverPod, truth: Truth, *, run: str) -> None:
        self.archiver = archiver
        self._kube, self._connection, self._truth, self._run = kube, connection, truth, run

    async def play(self, scenario: Scenario, recorder: Recorder | None) -> Played:
        """Applies, acts, waits until every attempt is archived for good, reads all of it back, cleans up."""
        namespace, started = f"{scenario.name}-{self._run}", monotonic()
        documents = list(rayjob.documents(scenario, namespace, self._connection.images, self._connection.gpu_resource))
        stage = Stage(self._kube, self._truth, namespace, documents[-1])
        try:
            for document in documents[:-1]:
                await self._kube.apply(document)
            if any(document["kind"] == POLICY for document in documents):
                # an API server takes its time to heed a new policy
                await until("the policy is in force", lambda: self._kube.is_denied(_bare_pod(namespace)), seconds=120.0)
            if recorder:
                await recorder.start(namespace, scenario.name)
            await self._kube.apply(documents[-1])
            for act in scenario.acts:
                await perform(act, stage)
            jobs = await self._archived(scenario, namespace)
            return await self._read_back(scenario, namespace, jobs, monotonic() - started)
        finally:
            await self._kube.delete("Namespace", "", namespace)
            for document in documents:
                if document["kind"].startswith(POLICY):
                    await self._kube.delete(document["kind"], "", document["metadata"]["name"])

    async def _archived(self, scenario: Scenario, namespace: str) -> list[Document]:
        seen: list[Any] = []

        async def is_archived() -> list[Document] | None:
            seen[:] = [await self._jobs(namespace, scenario.name)]
            jobs: list[Document] = seen[0]
            attempts = [attempt for job in jobs for attempt in job["attempts"]]
            is_whole = len(jobs) >= scenario.jobs and len(attempts) >= len(scenario.expected)
            is_final = all(attempt["state"] == "final" and attempt["verdict"] for attempt in attempts)
            return jobs if is_whole and is_final else None

        try:
            found: list[Document] = await until(
                "not archived for good", is_archived, seconds=ARCHIVED_SECONDS, poll_seconds=1.0
            )
        except TimeoutError as error:
            raise TimeoutError(f"{scenario.name}: {error}; archived is {summary(seen[0] if seen else [])}") from error
        return found

    async def _jobs(self, namespace: str, name: str) -> list[Document]:
        """Every RayJob object of the name, oldest first."""
        newest = await self.archiver.job(namespace, name)
        others = [await self.archiver.read(f"/jobs/{other['uid']}") for other in newest["same_name"]]
        return [*reversed(others), newest]

    async def _read_back(self, scenario: Scenario, namespace: str, jobs: list[Document], seconds: float) -> Played:
        truths, drivers, events = {}, {}, {}
        for job in jobs:
            for attempt in job["attempts"]:
                place = f"/jobs/{job['row']['uid']}/attempts/{attempt['number']}"
                key = attempt["ray_cluster"] or ""
                page = await self.archiver.read(f"{place}/events")
                events[f"{job['row']['uid']}/{attempt['number']}"] = page["events"]
                truth = await self._truth.of_cluster(namespace, key) if key else None
                if truth is not None:
                    truths[key] = truth
                if any(artifact["name"] == "logs/driver.log" for artifact in attempt["artifacts"]):
                    drivers[key] = await self._driver(place)
        listed = await self.archiver.read("/jobs", namespace=namespace)
        return Played(scenario, namespace, tuple(jobs), truths, drivers, events, tuple(listed["jobs"]), seconds)

    async def _driver(self, place: str) -> bytes:
        return await self.archiver.read_bytes(f"{place}/logs/logs/driver.log/raw")


def _bare_pod(namespace: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asks", "namespace": namespace, "labels": {"asks": "the-policy"}},
        "spec": {"containers": [{"name": "asks", "image": "none"}]},
    }


def summary(jobs: Sequence[Document]) -> list[str]:
    """One line an attempt, for the report of a failure."""
    return [
        f"{attempt['number']} {attempt['state']} {attempt['status']} {attempt['completeness']}"
        for job in jobs
        for attempt in job["attempts"]
    ]
