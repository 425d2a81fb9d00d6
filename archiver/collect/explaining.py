"""Gives an attempt's archived evidence to the diagnosis and stores the verdict beside it. Knows no rules itself.

The diagnosis is synchronous and scans whole logs: it runs in a thread, one at a time, and gets a log's bytes frame by frame
from the store, so that a log of any size needs bounded memory.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import Any

import structlog

from archiver.collect.tools import Explained
from archiver.core import keys
from archiver.core.objects import mapping, text
from archiver.core.redact import redact_json
from archiver.diagnosis import Evidence, LogSource, Ruleset, diagnose
from archiver.errors import ArchiverError
from archiver.ports import ObjectStore

RawLog = Callable[[str, str], AsyncIterator[bytes]]
_CHUNK_SECONDS = 60.0
_VERDICT_SECONDS = 600.0
_log = structlog.get_logger()


class Explainer:
    """``explain`` never raises for what is odd in the evidence; a verdict that cannot be made is None and logged.

    ``raw_log`` gives the text of an artifact of an attempt (prefix, name) in pieces.
    """

    def __init__(self, ruleset: Ruleset, store: ObjectStore, raw_log: RawLog) -> None:
        self._ruleset = ruleset
        self._store = store
        self._raw_log = raw_log
        self._one_at_a_time = asyncio.Semaphore(1)

    async def explain(self, explained: Explained) -> Mapping[str, Any] | None:
        """The verdict document, written to ``verdicts/<ruleset>.json`` too."""
        loop = asyncio.get_running_loop()
        evidence = self._evidence(explained, loop)
        try:
            async with self._one_at_a_time, asyncio.timeout(_VERDICT_SECONDS):
                verdict = await asyncio.to_thread(diagnose, evidence, self._ruleset)
        except (TimeoutError, ArchiverError) as error:
            _log.error("no verdict", prefix=explained.attempt_prefix, error=str(error) or "out of time")
            return None
        document = verdict.to_json()
        key = keys.verdict_key(explained.attempt_prefix, str(self._ruleset.version))
        await self._store.put(key, json.dumps(document, ensure_ascii=False, indent=1).encode())
        return document

    def _evidence(self, explained: Explained, loop: asyncio.AbstractEventLoop) -> Evidence:
        logs = {
            source: LogSource(
                partial(self._chunks, loop, explained.attempt_prefix, name),
                is_complete=name not in explained.incomplete,
            )
            for source, name in explained.logs.items()
        }
        return Evidence(
            rayjob_status=mapping(explained.rayjob, "status"),
            rayjob_spec=redact_json(mapping(explained.rayjob, "spec")),
            pods=tuple(redact_json(pod) for pod in explained.pods),
            k8s_events=tuple(explained.events),
            node_conditions=tuple(explained.nodes),
            ray=_ray_facts(explained.ray),
            logs=logs,
            id=text(explained.rayjob, "metadata", "name"),
        )

    def _chunks(self, loop: asyncio.AbstractEventLoop, prefix: str, name: str) -> Iterator[bytes]:
        """Runs in the diagnosis' thread; each piece is fetched on the event loop."""
        pieces = self._raw_log(prefix, name)
        while True:
            future = asyncio.run_coroutine_threadsafe(_next(pieces), loop)
            piece = future.result(_CHUNK_SECONDS)
            if piece is None:
                return
            yield piece


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)


def _ray_facts(documents: Mapping[str, Any]) -> dict[str, Any]:
    """Document names to the words the diagnosis uses."""
    facts: dict[str, Any] = {"job": mapping(documents, "ray/job.json")}
    for name in ("actors", "workers", "nodes", "placement_groups"):
        facts[name] = _rows(documents.get(f"ray/{name}.json"))
    facts["tasks"] = _rows(documents.get("ray/tasks-failed.json")) or _rows(documents.get("ray/tasks.json"))
    facts["events"] = documents.get("ray/events.json") or {}
    return facts


def _rows(answer: object) -> list[Any]:
    rows = answer.get("result") if isinstance(answer, Mapping) else None
    return rows if isinstance(rows, list) else []
