"""Judges archived attempts again with the rules of now, and says cause by cause what that changes.

The raw evidence is only read. A new verdict is written beside it, then into the manifest, then into the index. An attempt
that was judged by this ruleset already is passed over, so a run that was cut off is gone on with by running again; its
row is brought up to date all the same, for a run that ended between bucket and index.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core import keys
from archiver.core.manifest import Manifest, ManifestState, to_json
from archiver.errors import ArchiverError, UserError
from archiver.index.engine import writing
from archiver.index.verdicts import read_verdict
from archiver.index.writes import lock, write_manifests
from archiver.ports import ObjectStore
from archiver.read.bucket import Finding, batched, load_manifest, manifest_keys

FINDINGS_KEPT = 10_000
EXAMPLES = 3
NO_VERDICT = "-"


class Judge(Protocol):
    """Makes verdicts of archived evidence. ``judge`` raises what reading it raises, and writes nothing.

    ``at_once`` is how many attempts it can judge side by side.
    """

    @property
    def ruleset(self) -> str: ...

    @property
    def at_once(self) -> int: ...

    async def judge(self, manifest: Manifest, prefix: str) -> Mapping[str, Any]: ...

    async def keep(self, prefix: str, document: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class ReprocessRequest:
    """``since``: attempts that ended then or later. ``is_all``: also those that this ruleset has judged already."""

    since: datetime | None = None
    is_all: bool = False
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class CauseChange:
    """So many attempts go from one cause to another; the first EXAMPLES of them by name."""

    before: str
    after: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReprocessReport:
    """``changes``, most frequent first. ``findings`` name the first FINDINGS_KEPT of the ``unreadable`` attempts.

    ``unchanged`` attempts keep their cause, and get the new ruleset's verdict too; ``passed_over`` had it already.
    """

    ruleset: str
    is_dry_run: bool
    judged: int
    unchanged: int
    passed_over: int
    unreadable: int
    changes: tuple[CauseChange, ...]
    findings: tuple[Finding, ...]


async def reprocess(
    store: ObjectStore, engine: AsyncEngine, judge: Judge, request: ReprocessRequest, *, prefix: str = ""
) -> ReprocessReport:
    """Attempts that are still captured are the watcher's. Raises only where store or index cannot be listed or written."""
    work = _Reprocess(store, engine, judge, request)
    async for batch in batched(manifest_keys(store, prefix), judge.at_once):
        await work.redo(batch)
    return work.report()


@dataclass(frozen=True, slots=True)
class _Judged:
    """One attempt that was read. ``verdict`` is None where it is passed over."""

    key: str
    manifest: Manifest
    verdict: Mapping[str, Any] | None


class _Reprocess:
    def __init__(self, store: ObjectStore, engine: AsyncEngine, judge: Judge, request: ReprocessRequest) -> None:
        self._store = store
        self._engine = engine
        self._judge = judge
        self._request = request
        self._counts: Counter[tuple[str, str]] = Counter()
        self._examples: dict[tuple[str, str], list[str]] = {}
        self._findings: list[Finding] = []
        self._passed_over = self._unreadable = 0

    async def redo(self, batch: list[str]) -> None:
        """Judges some attempts side by side, and writes what came of them."""
        found = [each for each in await asyncio.gather(*map(self._read, batch)) if each is not None]
        for each in found:
            if each.verdict is not None:
                self._count(each.manifest, each.verdict)
        if self._request.is_dry_run:
            return
        for each in found:
            if each.verdict is not None:
                await self._write(each.key, each.manifest.attempt.rayjob.uid, each.verdict)
        async with writing(self._engine) as connection:
            known = [(each.manifest, each.key) for each in found if each.verdict is None]
            await write_manifests(connection, known)

    def report(self) -> ReprocessReport:
        """So far."""
        changed = [(pair, count) for pair, count in self._counts.most_common() if pair[0] != pair[1]]
        judged = sum(self._counts.values())
        return ReprocessReport(
            ruleset=self._judge.ruleset,
            is_dry_run=self._request.is_dry_run,
            judged=judged,
            unchanged=judged - sum(count for _, count in changed),
            passed_over=self._passed_over,
            unreadable=self._unreadable,
            changes=tuple(CauseChange(*pair, count, tuple(self._examples[pair])) for pair, count in changed),
            findings=tuple(self._findings),
        )

    async def _read(self, key: str) -> _Judged | None:
        """None for what cannot be read, which is noted, and for what was not asked for."""
        try:
            return await self._judged(key)
        except UserError:
            raise  # of all attempts alike: a setting, not this one's evidence
        except ArchiverError as error:
            self._find(Finding(key, str(error)))
        except Exception as error:  # our own mistake about one attempt must not keep the others from their verdict
            self._find(Finding(key, f"{type(error).__name__}: {error}"))
        return None

    async def _judged(self, key: str) -> _Judged | None:
        found = await load_manifest(self._store, key)
        if isinstance(found, Finding):
            self._find(found)
            return None
        if found is None or not self._is_asked_for(found):
            return None
        verdict = read_verdict(found.verdict)
        if verdict is not None and verdict.ruleset == self._judge.ruleset and not self._request.is_all:
            self._passed_over += 1
            return _Judged(key, found, None)
        return _Judged(key, found, await self._judge.judge(found, _prefix(key)))

    def _is_asked_for(self, manifest: Manifest) -> bool:
        times, since = manifest.times, self._request.since
        at = times.ended or times.first_signal or times.created
        return manifest.state is ManifestState.FINAL and (since is None or at is None or at >= since)

    async def _write(self, key: str, uid: str, verdict: Mapping[str, Any]) -> None:
        """Into what the bucket has now, under the RayJob's lock. An attempt that is gone meanwhile stays gone."""
        async with writing(self._engine) as connection:
            await lock(connection, [uid])
            fresh = await load_manifest(self._store, key)
            if not isinstance(fresh, Manifest):
                return
            await self._judge.keep(_prefix(key), verdict)
            judged = replace(fresh, revision=fresh.revision + 1, verdict=verdict)
            await self._store.put(key, to_json(judged))
            await write_manifests(connection, [(judged, key)], force=True)

    def _count(self, manifest: Manifest, verdict: Mapping[str, Any]) -> None:
        pair = _cause(manifest.verdict), _cause(verdict)
        self._counts[pair] += 1
        examples = self._examples.setdefault(pair, [])
        if len(examples) < EXAMPLES:
            job = manifest.attempt.rayjob
            examples.append(f"{job.namespace}/{job.name} attempt {manifest.attempt.number}")

    def _find(self, finding: Finding) -> None:
        self._unreadable += 1
        if len(self._findings) < FINDINGS_KEPT:
            self._findings.append(finding)


def _cause(document: Mapping[str, Any] | None) -> str:
    verdict = read_verdict(document)
    return verdict.cause if verdict else NO_VERDICT


def _prefix(key: str) -> str:
    return key.removesuffix(keys.manifest_key(""))
