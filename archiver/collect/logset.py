"""The container logs of one attempt: which are followed, which are done, and what each is worth.

A name is fixed by what the log is (``logs/submitter-<pod>.<container>.<restart>.log``), so a restarted archiver goes on
with the same stream.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import structlog

from archiver.collect.podlog import LogFollower, RunView
from archiver.collect.sealing import artifact_of
from archiver.collect.streams import StreamWriter
from archiver.core.model import (
    Artifact,
    ArtifactKind,
    Completeness,
    ContainerRun,
    Gap,
    GapReason,
    LogKind,
    LogSource,
)
from archiver.core.pods import WantedLog
from archiver.ports import PodLogs

Open = Callable[[str, ArtifactKind, LogSource | None], Awaitable[StreamWriter]]
_log = structlog.get_logger()


def log_name(wanted: WantedLog, *, is_taken: bool = False) -> str:
    """The artifact's name. ``is_taken``: another pod of the same name has it already."""
    run = wanted.run
    mark = f"-{run.pod_uid[:8]}" if is_taken else ""
    return f"logs/{wanted.kind}-{run.pod}{mark}.{run.container}.{run.restart}.log"


def source_of(name: str) -> LogSource | None:
    """What a log's name says of its source, where nothing else is left of it."""
    stem = name.removeprefix("logs/")
    if stem.startswith("driver"):
        return LogSource(LogKind.DRIVER)
    kind = stem.split("-", 1)[0]
    return LogSource(LogKind(kind)) if kind in set(LogKind) else None


@dataclass(slots=True)
class Followed:
    """One log. ``is_read``: nothing more can come of it; ``artifact`` is there once it is sealed."""

    wanted: WantedLog
    name: str
    task: asyncio.Task[None] | None = None
    is_read: bool = False
    artifact: Artifact | None = None


@dataclass(slots=True)
class LogSet:
    """``ensure`` starts what is not followed yet; ``seal_rest`` ends what goes on after the attempt's end."""

    open_stream: Open
    logs: PodLogs
    view: RunView
    now: Callable[[], datetime]
    start: Callable[[Callable[[], Awaitable[None]], str], asyncio.Task[None]]
    on_done: Callable[[], None]
    sealed_before: dict[str, Artifact] = field(default_factory=dict)
    followed: dict[ContainerRun, Followed] = field(default_factory=dict)

    def ensure(self, wanted: Iterable[WantedLog]) -> None:
        """Starts a follower for every wanted log that has none and was not sealed by an earlier process."""
        for log in wanted:
            if log.run in self.followed or (log_name(log) in self.sealed_before and self._is_same(log)):
                continue
            entry = self.followed[log.run] = Followed(log, self._name(log))
            entry.task = self.start(partial(self._follow, entry), f"log {log.run.pod}/{log.run.container}")

    def artifacts(self) -> list[Artifact]:
        """What is sealed."""
        return [log.artifact for log in self.followed.values() if log.artifact]

    def names(self) -> list[str]:
        """Of everything that is or was followed."""
        return [log.name for log in self.followed.values()]

    def has(self, kind: LogKind) -> bool:
        """Whether there is a log of a kind, here or from an earlier process."""
        before = (artifact.source.kind for artifact in self.sealed_before.values() if artifact.source)
        return kind in before or any(log.wanted.kind is kind for log in self.followed.values())

    def is_done(self, kind: LogKind | None = None) -> bool:
        """Whether every log (of a kind) has come to its end and is sealed."""
        return all(log.artifact for log in self.followed.values() if kind is None or log.wanted.kind is kind)

    def is_rest_left(self, kind: LogKind) -> bool:
        """Whether a log of a kind whose container is over has not been read to its end."""
        return any(
            log.artifact is None and log.wanted.kind is kind and self.view.is_finished(log.wanted.run)
            for log in self.followed.values()
        )

    async def seal_rest(self, *, is_cluster_going: bool) -> None:
        """Stops the followers that still run and seals what they have."""
        rest = [log for log in self.followed.values() if log.artifact is None]
        tasks = [log.task for log in rest if log.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for log in rest:
            await self._close(log, is_cluster_going=is_cluster_going)

    async def _close(self, log: Followed, *, is_cluster_going: bool) -> None:
        """One that was not read to its end. A Ray node that lives on after the job has nothing to add; others have."""
        writer = await self._open(log)
        if not log.is_read and (is_cluster_going or log.wanted.kind is LogKind.SUBMITTER):
            detail = "the container still ran when the attempt was closed"
            await writer.gap(Gap(GapReason.DEADLINE, detail, writer.lines, None, self.now()))
            log.is_read = True
        await self._seal(log, writer, "followed until the attempt was closed; the container went on")

    async def _follow(self, entry: Followed) -> None:
        # the same writer again after an error, another one where another process had written meanwhile
        writer = await self._open(entry)
        if not entry.is_read:
            await LogFollower(entry.wanted, writer, logs=self.logs, view=self.view, now=self.now).follow()
            entry.is_read = True
        await self._seal(entry, writer, "followed from its first line to its end")

    async def _open(self, entry: Followed) -> StreamWriter:
        wanted = entry.wanted
        return await self.open_stream(entry.name, ArtifactKind.LOG, LogSource(wanted.kind, run=wanted.run))

    async def _seal(self, entry: Followed, writer: StreamWriter, reason: str) -> None:
        if entry.artifact is not None:
            return
        sealed = await writer.seal()
        source = LogSource(entry.wanted.kind, entry.wanted.run)
        entry.artifact = artifact_of(entry.name, ArtifactKind.LOG, sealed, reason=reason, source=source)
        self.on_done()
        if entry.artifact.completeness is not Completeness.COMPLETE:
            _log.warning("log incomplete", artifact=entry.name, reason=entry.artifact.reason)

    def _is_same(self, log: WantedLog) -> bool:
        """Whether what was sealed under the log's name is of the same pod, not of another one of its name."""
        source = self.sealed_before[log_name(log)].source
        return source is None or source.run is None or source.run.pod_uid == log.run.pod_uid

    def _name(self, log: WantedLog) -> str:
        name = log_name(log)
        is_taken = name in self.sealed_before or any(each.name == name for each in self.followed.values())
        return log_name(log, is_taken=is_taken)
