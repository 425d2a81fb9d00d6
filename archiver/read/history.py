"""What happened to an attempt, from its archived Events and objects: the Events page and the timeline."""

import asyncio
import json
from collections import OrderedDict
from typing import Any

from archiver.core.manifest import ManifestState
from archiver.core.model import Artifact, ArtifactKind, Completeness
from archiver.core.timeline import TimelineEntry, assemble, from_manifest
from archiver.errors import DataError
from archiver.index.queries import StoredAttempt
from archiver.index.verdicts import artifact_of
from archiver.read import happenings
from archiver.read.documents import Version, entries, fold_events, versions, word
from archiver.read.evidence import Evidence
from archiver.read.views import EventPage

MAX_EVENTS = 20_000
KNOWN_ENTRIES = 50_000  # of all timelines that are remembered: some tens of MiB
_STATUSES = "kube/rayjobs.ndjson"
_CLUSTERS = "kube/rayclusters.ndjson"
_PODS = "kube/pods.ndjson"
_EVENTS = "events/kubernetes.ndjson"
_NO_EVENTS = "no Kubernetes Events are archived of this attempt"


class History:
    """Reads the object streams of an attempt. Damaged ones count as not there: a timeline of the rest is worth more."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._known: OrderedDict[tuple[str, int], tuple[TimelineEntry, ...]] = OrderedDict()

    async def events(self, stored: StoredAttempt) -> EventPage:
        """Events with their completeness."""
        live = await self._evidence.with_live(stored)
        artifact = _events_artifact(live)
        if artifact is None:
            return EventPage((), Completeness.LOST, _NO_EVENTS)
        found = await self._evidence.document(live, artifact.name)
        if found is None:
            return EventPage((), Completeness.LOST, artifact.reason or _NO_EVENTS)
        body, is_cut = found
        events = await asyncio.to_thread(lambda: fold_events(versions(body)))
        is_bounded = is_cut or len(events) > MAX_EVENTS
        return EventPage(events[-MAX_EVENTS:], artifact.completeness, artifact.reason, is_bounded)

    async def timeline(self, stored: StoredAttempt) -> tuple[TimelineEntry, ...]:
        """Manifest, Events, statuses, pods and cited lines on one axis. Of a final attempt it is remembered."""
        place = stored.key, stored.manifest.revision
        known = self._known.get(place)
        if known is None:
            known = await self._timeline(await self._evidence.with_live(stored))
            if stored.manifest.state is ManifestState.FINAL:
                self._remember(place, known)
        return known

    def _remember(self, place: tuple[str, int], entries: tuple[TimelineEntry, ...]) -> None:
        self._known[place] = entries
        while sum(map(len, self._known.values())) > KNOWN_ENTRIES and len(self._known) > 1:
            self._known.popitem(last=False)

    async def _timeline(self, live: StoredAttempt) -> tuple[TimelineEntry, ...]:
        manifest = live.manifest
        artifact = _events_artifact(live)
        events = fold_events(await self._versions(live, artifact.name if artifact else _EVENTS))
        places = entries(manifest.verdict, "evidence")
        return assemble(
            from_manifest(manifest),
            happenings.from_statuses(await self._versions(live, _STATUSES)),
            happenings.from_clusters(await self._versions(live, _CLUSTERS)),
            happenings.from_pods(await self._versions(live, _PODS)),
            happenings.from_events(events[-MAX_EVENTS:], artifact.name if artifact else _EVENTS),
            happenings.from_ray_events(await self._document(live, happenings.RAY_EVENTS)),
            happenings.from_citations(
                places,
                {word(place, "source"): artifact_of(word(place, "source"), manifest.artifacts) for place in places},
            ),
        )

    async def _document(self, stored: StoredAttempt, name: str) -> Any:
        """A document as JSON; None where there is none, or where it cannot be understood."""
        try:
            found = await self._evidence.document(stored, name)
            return await asyncio.to_thread(json.loads, found[0]) if found else None
        except (DataError, ValueError, RecursionError):
            return None

    async def _versions(self, stored: StoredAttempt, name: str) -> list[Version]:
        try:
            found = await self._evidence.document(stored, name)
        except DataError:
            return []
        return await asyncio.to_thread(lambda: list(versions(found[0]))) if found else []


def _events_artifact(stored: StoredAttempt) -> Artifact | None:
    kinds = (each for each in stored.manifest.artifacts if each.kind is ArtifactKind.KUBE_EVENTS)
    return next(kinds, None)
