"""Gives an attempt's archived evidence to the diagnosis and stores the verdict beside it. Knows no rules itself.

The diagnosis is synchronous and scans whole logs: it runs in a thread, one at a time, and gets a log's bytes frame by frame
from the store, so that a log of any size needs bounded memory.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from archiver.collect.tools import Explained
from archiver.core import keys
from archiver.core.objects import mapping, text
from archiver.core.redact import redact_json
from archiver.diagnosis import Evidence, LogSource, Ruleset, diagnose
from archiver.errors import ArchiverError, DataError
from archiver.ports import ObjectStore

RawLog = Callable[[str, str], AsyncIterator[bytes]]
_CHUNK_SECONDS = 60.0
_VERDICT_SECONDS = 600.0
_log = structlog.get_logger()


class Explainer:
    """``explain`` never raises for what is odd in the evidence; a verdict that cannot be made is None and logged. ``judge``
    raises instead.

    ``raw_log`` gives the text of an artifact of an attempt (prefix, name) in pieces.
    """

    def __init__(self, ruleset: Ruleset, store: ObjectStore, raw_log: RawLog) -> None:
        self._ruleset = ruleset
        self._store = store
        self._raw_log = raw_log
        self._at_once = asyncio.Semaphore(1)

    @property
    def ruleset(self) -> str:
        """The version that verdicts are written down with."""
        return str(self._ruleset.version)

    async def explain(self, explained: Explained) -> Mapping[str, Any] | None:
        """The verdict document, written to ``verdicts/<ruleset>.json`` too."""
        try:
            document = await self.judge(explained)
        except ArchiverError as error:
            _log.error("no verdict", prefix=explained.attempt_prefix, error=str(error))
            return None
        except Exception:
            # a verdict is derived and can be made again; the archive does not wait for our own mistake
            _log.exception("no verdict", prefix=explained.attempt_prefix)
            return None
        await self.keep(explained.attempt_prefix, document)
        return document

    async def judge(self, explained: Explained) -> Mapping[str, Any]:
        """The verdict document, written nowhere. Raises what reading the logs raises; DataError where it takes too long."""
        async with self._at_once:
            return await judge(explained, self._ruleset, self._raw_log)

    async def keep(self, prefix: str, document: Mapping[str, Any]) -> None:
        """Writes a verdict beside the evidence that it is of; those of other rulesets stay."""
        key = keys.verdict_key(prefix, self.ruleset)
        await self._store.put(key, json.dumps(document, ensure_ascii=False, indent=1).encode())


async def judge(explained: Explained, ruleset: Ruleset, raw_log: RawLog) -> Mapping[str, Any]:
    """The verdict document of some evidence. Raises what ``raw_log`` raises; DataError where it takes too long."""
    loop = asyncio.get_running_loop()
    # a thread cannot be cancelled: it ends when it asks for more
    is_over = threading.Event()
    evidence = _evidence(explained, _Pieces(loop, raw_log, explained.attempt_prefix, is_over))
    try:
        async with asyncio.timeout(_VERDICT_SECONDS):
            verdict = await asyncio.to_thread(diagnose, evidence, ruleset)
    except TimeoutError as error:
        raise DataError(str(error) or "out of time") from error
    finally:
        is_over.set()
    return verdict.to_json()


def _evidence(explained: Explained, pieces: "_Pieces") -> Evidence:
    logs = {
        source: LogSource(partial(pieces.of, name), is_complete=name not in explained.incomplete)
        for source, name in explained.logs.items()
    }
    return Evidence(
        rayjob_status=redact_json(mapping(explained.rayjob, "status")),
        rayjob_spec=redact_json(mapping(explained.rayjob, "spec")),
        pods=tuple(redact_json(pod) for pod in explained.pods),
        k8s_events=tuple(explained.events),
        node_conditions=tuple(explained.nodes),
        ray=_ray_facts(explained.ray),
        logs=logs,
        id=text(explained.rayjob, "metadata", "name"),
    )


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Fetches a log's pieces for the diagnosis' thread, each on the event loop."""

    loop: asyncio.AbstractEventLoop
    raw_log: RawLog
    prefix: str
    is_over: threading.Event

    def of(self, name: str) -> Iterator[bytes]:
        pieces = self.raw_log(self.prefix, name)
        while not self.is_over.is_set():
            future = asyncio.run_coroutine_threadsafe(_next(pieces), self.loop)
            piece = future.result(_CHUNK_SECONDS)
            if piece is None:
                return
            yield piece
        raise DataError("the time for a verdict is over")


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
