"""What is there in the end: what every driver wrote outside its pod, and what the archive has of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.e2e.archiver_pod import ArchiverPod
from tests.e2e.scenarios.kube import Document, Kube, until
from tests.e2e.scenarios.truth import LINK, PORT

ARCHIVED_SECONDS = 900.0
DRIVER = "logs/driver.log"


@dataclass(frozen=True, slots=True)
class Wrote:
    """One run of a driver. `ended_at` (seconds since the epoch) is None where it was killed before it had written all."""

    job: str
    submission: str
    data: bytes
    ended_at: float | None


@dataclass(frozen=True, slots=True)
class Kept:
    """One archived attempt. `driver` is its log as archived, None where there is none."""

    job: str
    uid: str
    attempt: Document
    driver: bytes | None
    events: list[Document]

    @property
    def artifact(self) -> Document | None:
        """The driver log's row."""
        found = (one for one in self.attempt["artifacts"] if one["name"] == DRIVER)
        return next(found, None)

    @property
    def safe_at(self) -> float | None:
        text = self.attempt["times"]["captured"]
        return datetime.fromisoformat(text).timestamp() if text else None


@dataclass(frozen=True, slots=True)
class Harvest:
    wrote: list[Wrote]
    kept: list[Kept]
    listed: list[str]  # uids in the archive's list, as often as they are there
    not_final: str = ""  # what was still not archived for good, in words


class Harvester:
    """Reads through the API server: the truth's pod, and the archiver's REST API."""

    def __init__(self, kube: Kube, archiver: ArchiverPod, namespace: str, truth: str) -> None:
        self._kube, self._archiver, self._namespace, self._truth = kube, archiver, namespace, truth

    async def gather(self, uids: Iterable[str]) -> Harvest:
        """Waits until all that the archive has of the RayJobs is final, or for ARCHIVED_SECONDS."""
        wanted, not_final = set(uids), ""
        try:
            await until(
                "not archived for good", lambda: self._is_final(wanted), seconds=ARCHIVED_SECONDS, poll_seconds=5
            )
        except TimeoutError as error:
            not_final = str(error)
        listed = await self._listed()
        kept = [one for uid in dict.fromkeys(listed) for one in await self._kept(uid)]
        return Harvest(await self._wrote(), kept, listed, not_final)

    async def _is_final(self, wanted: set[str]) -> bool:
        """Takes out of `wanted` what is final; LookupError names what is left."""
        for uid in sorted(wanted):
            try:
                job = await self._archiver.read(f"/jobs/{uid}")
            except LookupError:
                continue
            if all(attempt["state"] == "final" and attempt["verdict"] for attempt in job["attempts"]):
                wanted.discard(uid)
        if wanted:
            raise LookupError(f"{len(wanted)} RayJobs are not there or not final, as {sorted(wanted)[:8]}")
        return True

    async def _listed(self) -> list[str]:
        return [row["uid"] async for row in self._rows()]

    async def _rows(self) -> Any:
        token: dict[str, str] = {}
        while True:
            page = await self._archiver.read("/jobs", namespace=self._namespace, **token)
            for row in page["jobs"]:
                yield row
            if not page["next_page_token"]:
                return
            token = {"page_token": page["next_page_token"]}

    async def _kept(self, uid: str) -> list[Kept]:
        job = await self._archiver.read(f"/jobs/{uid}")
        return [await self._kept_attempt(job["row"]["name"], uid, attempt) for attempt in job["attempts"]]

    async def _kept_attempt(self, name: str, uid: str, attempt: Document) -> Kept:
        place = f"/jobs/{uid}/attempts/{attempt['number']}"
        events = (await self._archiver.read(f"{place}/events"))["events"]
        has_driver = any(one["name"] == DRIVER and one["key"] for one in attempt["artifacts"])
        driver = await self._archiver.read_bytes(f"{place}/logs/{DRIVER}/raw") if has_driver else None
        return Kept(name, uid, attempt, driver, events)

    async def _wrote(self) -> list[Wrote]:
        names = LINK.findall((await self._read("")).decode())
        ends = {name for name in names if name.endswith(".end")}
        return [await self._wrote_one(name, ends) for name in names if name.endswith(".log")]

    async def _wrote_one(self, name: str, ends: set[str]) -> Wrote:
        job, submission, _ = name.split(".")
        end = f"{job}.{submission}.end"
        ended_at = json.loads(await self._read(end))["at"] if end in ends else None
        return Wrote(job, submission, await self._read(name), ended_at)

    async def _read(self, name: str) -> bytes:
        return await self._kube.proxied(f"pods/truth:{PORT}", self._truth, f"/{self._namespace}/{name}")
