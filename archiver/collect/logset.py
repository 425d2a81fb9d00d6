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
from archiver.core.model import Artifact, ArtifactKind, Completeness, ContainerRun, LogKind, LogSource
from archiver.core.pods import WantedLog
from archiver.ports import PodLogs

Open = Callable[[str, ArtifactKind, LogSource | None], Awaitable[StreamWriter]]
_log = structlog.get_logger()


def log_name(wanted: WantedLog) -> str:
    """The artifact's name."""
    run = wanted.run
    return f"logs/{wanted.kind}-{run.pod}.{run.container}.{run.restart}.log"


def source_of(name: str) -> LogSource | None:
    """What a log's name says of its source, where nothing else is left of it."""
    stem = name.removeprefix("logs/")
    if stem.startswith("driver"):
        return LogSource(LogKind.DRIVER)
    kind = stem.split("-", 1)[0]
    return LogSource(LogKind(kind)) if kind in set(LogKind) else None


@dataclass(slots=True)
class Followed:
    """One log. ``artifact`` is there once it is sealed."""

    wanted: WantedLog
    task: asyncio.Task[None] | None = None
    artifact: Artifact | None = None
    writer: StreamWriter | None = None


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
            if log.run in self.followed or log_name(log) in self.sealed_before:
                continue
            self.followed[log.run] = Followed(log)
            work = partial(self._follow, self.followed[log.run])
            self.followed[log.run].task = self.start(work, f"log {log.run.pod}/{log.run.container}")

    def artifacts(self) -> list[Artifact]:
        """What is sealed."""
        return [log.artifact for log in self.followed.values() if log.artifact]

    def is_done(self, kind: LogKind | None = None) -> bool:
        """Whether every log (of a kind) has come to its end and is sealed."""
        return all(log.artifact for log in self.followed.values() if kind is None or log.wanted.kind is kind)

    async def seal_rest(self, reason: str) -> None:
        """Stops the followers that still run and seals what they have. Their containers live on: nothing is missing yet."""
        rest = [log for log in self.followed.values() if log.artifact is None]
        tasks = [log.task for log in rest if log.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for log in rest:
            await self._seal(log, reason)

    async def _follow(self, entry: Followed) -> None:
        wanted = entry.wanted
        # the same writer again after an error, another one where another process had written meanwhile
        entry.writer = await self.open_stream(
            log_name(wanted), ArtifactKind.LOG, LogSource(wanted.kind, run=wanted.run)
        )
        await LogFollower(wanted, entry.writer, logs=self.logs, view=self.view, now=self.now).follow()
        await self._seal(entry, "followed from its first line to its end")

    async def _seal(self, entry: Followed, reason: str) -> None:
        if entry.writer is None or entry.artifact is not None:
            return
        sealed = await entry.writer.seal()
        artifact = artifact_of(
            log_name(entry.wanted),
            ArtifactKind.LOG,
            sealed,
            reason=reason,
            source=LogSource(entry.wanted.kind, entry.wanted.run),
        )
        entry.artifact = artifact
        self.on_done()
        if artifact.completeness is not Completeness.COMPLETE:
            _log.warning("log incomplete", artifact=artifact.name, reason=artifact.reason)
