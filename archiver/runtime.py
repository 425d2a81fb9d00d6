"""Opens and closes everything: one stack, one task group. Knows every floor and decides nothing on its own."""

import asyncio
import socket
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import structlog
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.collect.again import Again
from archiver.collect.catalog import Catalog
from archiver.collect.controller import Controller
from archiver.collect.excerpt import read_excerpt
from archiver.collect.explaining import Explainer
from archiver.collect.hold import sweep
from archiver.collect.indexer import Indexer
from archiver.collect.pings import Pings
from archiver.collect.record import Sources
from archiver.collect.streams import Streams
from archiver.collect.tools import CaptureSettings, Tools
from archiver.core import keys
from archiver.core.manifest import Manifest
from archiver.diagnosis import Ruleset, load_ruleset
from archiver.errors import KubeError
from archiver.index.engine import open_engine, writing
from archiver.index.revision import check_revision
from archiver.index.writes import write_manifests
from archiver.kube.access import Access, find_access
from archiver.kube.discovery import kuberay_version, server_version
from archiver.kube.informer import Informers
from archiver.kube.lease import LeaseHolder, LeaseName
from archiver.kube.objects import ApiServerObjects
from archiver.kube.podlogs import ApiServerPodLogs
from archiver.kube.proxy import ApiServerProxy
from archiver.kube.transport import Transport
from archiver.ports import Kind, ObjectStore
from archiver.ray import RayClient
from archiver.ray.routes import Routes
from archiver.read.service import Reader
from archiver.settings import Settings
from archiver.store.bucket import init_bucket
from archiver.store.codec import ZstdCodec
from archiver.store.filesystem import FilesystemStore
from archiver.store.notes import Notes
from archiver.store.reader import LogReader
from archiver.store.s3 import S3Options, S3Store
from archiver.telemetry import Metrics

_STORE = "the object store"
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Archive:
    """The opened object store and index. ``prefix`` is the bucket's prefix without slashes at its ends."""

    store: ObjectStore
    prefix: str
    engine: AsyncEngine
    reader: Reader


@dataclass(slots=True)
class WatcherStatus:
    """What health pages and progress lines may ask of a running watcher. All None until it leads."""

    metrics: Metrics
    informers: Informers | None = None
    streams: Streams | None = None
    indexer: Indexer | None = None
    controller: Controller | None = None
    pings: Pings | None = None
    is_leading: bool = False
    is_watching: asyncio.Event = field(default_factory=asyncio.Event)
    problems: list[str] = field(default_factory=list)

    def not_ready(self) -> list[str]:
        """Sentences about what keeps the watcher from doing its work; empty where all is well."""
        if not self.is_leading:
            return []
        found = list(self.problems)
        if self.informers is not None:
            found += self.informers.missing()
        if self.pings is not None:
            found += self.pings.problems()
        if self.streams is not None and self.streams.is_held_up:
            found.append(f"the object store takes nothing: {self.streams.last_error or 'the spool is full'}")
        if self.indexer is not None and self.indexer.last_error:
            found.append(f"the index takes nothing: {self.indexer.last_error}")
        return found


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[tuple[ObjectStore, str]]:
    """The object store of the settings, and the prefix in it."""
    if settings.store.startswith("s3://"):
        place = urlsplit(settings.store)
        async with S3Store(_s3_options(settings, place.netloc)) as store:
            yield store, place.path.strip("/")
    else:
        yield FilesystemStore(_folder(settings)), ""


@asynccontextmanager
async def open_archive(settings: Settings, database_url: str) -> AsyncIterator[Archive]:
    """Store and index, opened. Nothing is created; the database is connected to when first used."""
    async with AsyncExitStack() as stack:
        store, prefix = await stack.enter_async_context(open_store(settings))
        engine = open_engine(database_url)
        stack.push_async_callback(engine.dispose)
        yield Archive(store, prefix, engine, Reader(engine, store, prefix=prefix))


async def archive_judge(settings: Settings, archive: Archive) -> Again:
    """Judges history with the rules of the settings. Raises UserError for rules that are wrong."""
    ruleset = await asyncio.to_thread(load_ruleset, settings.rules_dir)
    return Again(ruleset, archive.store)


async def watch(settings: Settings, archive: Archive, status: WatcherStatus, *, access: Access | None = None) -> None:
    """Watches the cluster and captures until cancelled; where a Lease is configured, only while this replica leads."""
    access = access or find_access(str(settings.kubeconfig) if settings.kubeconfig else None, settings.context)
    async with Transport(access) as transport:
        work = _Work(settings, archive, status, transport)
        namespace = settings.lease_namespace
        if namespace is None:
            status.is_leading = True
            await work.run()
            return
        identity = settings.identity or socket.gethostname()
        holder = LeaseHolder(transport, LeaseName(namespace, settings.lease_name), identity=identity)
        await holder.run_led(work.run)


class _Work:
    """One reign: everything that captures, opened, run, and closed in the reverse order."""

    def __init__(self, settings: Settings, archive: Archive, status: WatcherStatus, transport: Transport) -> None:
        self._settings = settings
        self._archive = archive
        self._status = status
        self._transport = transport
        self._versions: dict[str, str] = {}

    async def run(self) -> None:
        self._status.is_leading = True
        self._status.metrics.leading.set(1)
        try:
            async with AsyncExitStack() as stack:
                await self._run(stack)
        finally:
            self._status.is_leading = False
            self._status.metrics.leading.set(0)

    async def _run(self, stack: AsyncExitStack) -> None:
        settings, archive, metrics = self._settings, self._archive, self._status.metrics
        streams = Streams(archive.store, settings.spool_path, spool_limit_bytes=settings.spool_limit_bytes)
        await streams.start()
        stack.push_async_callback(streams.close)
        notes = Notes(settings.spool_path / "attempts")
        catalog = Catalog(archive.store, notes, prefix=archive.prefix, cluster=settings.cluster)
        await catalog.start()
        indexer = Indexer(self._write_rows, catalog, metrics)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        objects = ApiServerObjects(self._transport)
        seen, pings = _Seen(), self._pings()
        # reading the rules takes a second: before the watches start, and not on the event loop
        ruleset = await asyncio.to_thread(load_ruleset, settings.rules_dir)
        explainer = self._explainer(ruleset)
        tools = Tools(
            catalog=catalog,
            streams=streams,
            indexer=indexer,
            logs=ApiServerPodLogs(self._transport),
            ray=RayClient(Routes(session, ApiServerProxy(objects))),
            objects=objects,
            metrics=metrics,
            settings=capture_settings(settings),
            now=_now,
            node=seen.node,
            exists=seen.exists,
            is_listed=seen.is_listed,
            is_settled=seen.is_settled,
            find=seen.find,
            known=seen.known,
            versions=lambda: self._versions,
            is_store_healthy=lambda: streams.healthy and not pings.is_failing(_STORE),
            explain=explainer.explain,
        )
        await self._run_beside(pings, ruleset, self._run_all(tools, streams, indexer, objects, seen))

    async def _run_beside(self, pings: Pings, ruleset: Ruleset, captures: Coroutine[Any, Any, None]) -> None:
        self._status.pings = pings
        async with asyncio.TaskGroup() as group:
            group.create_task(pings.run(), name="pings")
            # the fast scanner compiles for seconds: behind everything, so that the first verdict need not wait for it
            group.create_task(asyncio.to_thread(ruleset.scanner.prepare), name="prepare rules")
            await captures

    def _pings(self) -> Pings:
        archive = self._archive
        probe = f"{archive.prefix}/{keys.LAYOUT}/probe".lstrip("/")
        return Pings(
            {
                _STORE: lambda: archive.store.head(probe),
                "the index": lambda: check_revision(archive.engine),
                "the API server": lambda: server_version(self._transport),
            }
        )

    async def _run_all(
        self, tools: Tools, streams: Streams, indexer: Indexer, objects: ApiServerObjects, seen: "_Seen"
    ) -> None:
        settings = self._settings
        controller = Controller(tools, cluster=settings.cluster)
        informers = Informers(self._transport, controller.on_change, namespaces=settings.namespaces)
        seen.informers = informers
        status = self._status
        status.informers, status.streams, status.indexer, status.controller = informers, streams, indexer, controller
        async with asyncio.TaskGroup() as group:
            for name, work in (
                ("streams", streams.run()),
                ("indexer", indexer.run()),
                ("controller", controller.run()),
                ("informers", informers.run()),
                ("gate", self._open_gate(informers, controller)),
                ("versions", self._find_versions()),
                ("gauges", self._measure(streams)),
                ("sweep", self._sweep(informers, objects)),
            ):
                group.create_task(work, name=name)

    def _explainer(self, ruleset: Ruleset) -> Explainer:
        store = self._archive.store
        reader = LogReader(store, ZstdCodec())
        return Explainer(ruleset, store, lambda prefix, name: read_excerpt(reader, keys.artifact_key(prefix, name)))

    async def _write_rows(self, written: Sequence[tuple[Manifest, str]]) -> None:
        async with writing(self._archive.engine) as connection:
            await write_manifests(connection, written)

    async def _open_gate(self, informers: Informers, controller: Controller) -> None:
        await informers.wait_listed(Kind.RAYJOB)
        await controller.open_gate()
        self._status.is_watching.set()

    async def _find_versions(self) -> None:
        """Versions are nice to have: whatever cannot be asked stays out."""
        try:
            self._versions["kubernetes"] = (await server_version(self._transport)).git
            found = await kuberay_version(self._transport, tuple(self._settings.namespaces))
            if found:
                self._versions["kuberay"] = found
        except KubeError as error:
            _log.info("versions not readable", error=str(error))

    async def _sweep(self, informers: Informers, objects: ApiServerObjects) -> None:
        """A finalizer that a killed process left must not keep a cluster whose hold nobody counts any more."""
        await informers.wait_listed(Kind.RAYCLUSTER)
        if self._settings.hold_seconds > 0:
            return
        freed = await sweep(objects, informers.list(Kind.RAYCLUSTER))
        if freed:
            _log.warning("released holds of an earlier process", count=freed)

    async def _measure(self, streams: Streams) -> None:
        metrics = self._status.metrics
        while True:
            metrics.spool_bytes.set(streams.usage_bytes)
            metrics.spool_oldest_seconds.set(streams.oldest_seconds)
            metrics.open_streams.set(streams.open_count)
            await asyncio.sleep(1.0)


class _Seen:
    """What the informers know, for those who are made before them."""

    informers: Informers | None = None

    def node(self, name: str) -> Mapping[str, Any] | None:
        return self.informers.get(Kind.NODE, "", name) if self.informers else None

    def exists(self, uid: str) -> bool:
        return self.informers is not None and self.informers.by_uid(uid) is not None

    def is_listed(self, kind: Kind) -> bool:
        return self.informers is not None and self.informers.is_listed(kind)

    def is_settled(self, kind: Kind) -> bool:
        return self.informers is not None and self.informers.is_settled(kind)

    def find(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self.informers.get(kind, namespace, name) if self.informers else None

    def known(self, kind: Kind, owner_uid: str) -> Sequence[Mapping[str, Any]]:
        return self.informers.children(kind, owner_uid) if self.informers else ()


def capture_settings(settings: Settings) -> CaptureSettings:
    """The part of the settings that captures look at."""
    return CaptureSettings(
        hold_seconds=settings.hold_seconds,
        snapshot_seconds=settings.snapshot_seconds,
        state_refresh_seconds=settings.state_refresh_seconds,
        settle_seconds=settings.settle_seconds,
        driver_poll_seconds=settings.driver_poll_seconds,
        ray_log_bytes=settings.ray_log_bytes,
        ray_token_secrets=settings.ray_token_secrets,
        sources=Sources(
            team=settings.team_sources,
            queue=settings.queue_sources,
            cost_centre=settings.cost_centre_sources,
            submitter=settings.submitter_sources,
        ),
    )


def _folder(settings: Settings) -> Path:
    folder = settings.store.removeprefix("file://")
    return Path(folder).expanduser() if folder else settings.home_dir / "store"


def _s3_options(settings: Settings, bucket: str) -> S3Options:
    return S3Options(
        bucket=bucket,
        endpoint_url=settings.s3_endpoint,
        region=settings.s3_region,
        path_style=settings.s3_path_style,
        access_key=settings.s3_access_key.get_secret_value() if settings.s3_access_key else None,
        secret_key=settings.s3_secret_key.get_secret_value() if settings.s3_secret_key else None,
        sse=settings.s3_sse or "",
        sse_key_id=settings.s3_kms_key or "",
    )


def _now() -> datetime:
    return datetime.now(UTC)


def prepare_bucket(settings: Settings) -> str:
    """Creates the bucket or folder of the settings where it is missing; says what it did. Raises the StoreError tree."""
    if not settings.store.startswith("s3://"):
        _folder(settings).mkdir(parents=True, exist_ok=True)
        return f"the folder {_folder(settings)} is ready"
    options = _s3_options(settings, urlsplit(settings.store).netloc)
    was_made = init_bucket(options)
    return f"the bucket {options.bucket} {'was created' if was_made else 'is there already'} and can be written to"
