"""What every capture is given: the adapters, the archive, the settings that matter to it, and a clock."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from archiver.collect.catalog import Catalog
from archiver.collect.indexer import Indexer
from archiver.collect.record import Sources
from archiver.collect.streams import Streams
from archiver.core.model import Kind
from archiver.ports import KubeObjects, PodLogs, RayNodes
from archiver.telemetry import Metrics

_TAILS_AT_ONCE = 2
_LOOKS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """Seconds and bytes, as ``settings.Settings`` explains them."""

    hold_seconds: float
    snapshot_seconds: float
    state_refresh_seconds: float
    settle_seconds: float
    driver_poll_seconds: float
    ray_log_bytes: int
    ray_token_secrets: bool
    sources: Sources


@dataclass(frozen=True, slots=True)
class Tools:
    """Shared by all attempts of a process.

    ``node`` gives the last version of a Node that was seen; ``is_listed`` whether a kind is known completely, so that what
    ``exists`` does not find is gone; ``is_settled`` also where it is known that it cannot be listed; ``find`` one
    object by name, and ``known`` every object of a kind that an owner's uid leads to, trimmed;
    ``versions`` those of Kubernetes and KubeRay; ``explain`` turns an attempt's evidence into a verdict document, or None
    where no ruleset is loaded. ``now`` dates what happens; what lasts is measured by ``monotonic``, because clocks jump.
    """

    catalog: Catalog
    streams: Streams
    indexer: Indexer
    logs: PodLogs
    ray: RayNodes
    objects: KubeObjects
    metrics: Metrics
    settings: CaptureSettings
    now: Callable[[], datetime]
    node: Callable[[str], Mapping[str, Any] | None]
    exists: Callable[[str], bool]
    is_listed: Callable[[Kind], bool]
    is_settled: Callable[[Kind], bool]
    find: Callable[[Kind, str, str], Mapping[str, Any] | None]
    known: Callable[[Kind, str], Sequence[Mapping[str, Any]]]
    versions: Callable[[], Mapping[str, str]]
    is_store_healthy: Callable[[], bool]
    explain: Callable[["Explained"], Awaitable[Mapping[str, Any] | None]] | None = None
    monotonic: Callable[[], float] = time.monotonic
    # few at once: where very many jobs end together, the logs that tell the reason go first
    looks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_LOOKS_AT_ONCE))
    # each holds TAIL_BYTES of a driver's log in memory
    tails: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_TAILS_AT_ONCE))


@dataclass(frozen=True, slots=True)
class Explained:
    """The evidence of an attempt as the diagnosis takes it. ``logs`` maps source names to artifact names."""

    attempt_prefix: str
    rayjob: Mapping[str, Any]
    pods: list[Mapping[str, Any]]
    events: list[Mapping[str, Any]]
    nodes: list[Mapping[str, Any]]
    ray: Mapping[str, Any]
    logs: Mapping[str, str]
    incomplete: frozenset[str]
