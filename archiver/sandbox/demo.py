"""``archiver demo``: a sandbox cluster in which RayJobs die, the real watcher on it, and the page that shows them.

Nothing is written into the index but by the watcher. Everything is in one folder, and a second run goes on with it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archiver.core.manifest import ManifestState
from archiver.index.migrate import upgrade
from archiver.kube.access import PlainAccess
from archiver.read.service import Reader
from archiver.read.views import AttemptView, JobFilter, PageRequest, Scope
from archiver.runtime import Archive, WatcherStatus, open_archive, watch
from archiver.sandbox.check import Finding, check_playback
from archiver.sandbox.postgres import EmbeddedPostgres
from archiver.sandbox.recording import Recording
from archiver.sandbox.server import PlayedTruth, SandboxServer
from archiver.settings import Settings
from archiver.telemetry import Metrics

Say = Callable[[str], None]
_LOOK_SECONDS = 0.5
_APART_SECONDS = 1.5
_SETTLE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Demo:
    """A running demo."""

    archive: Archive
    server: SandboxServer
    status: WatcherStatus


def demo_settings(folder: Path, port: int) -> Settings:
    """The embedded defaults in one folder; nothing of the caller's own settings."""
    return Settings(home=folder, cluster="demo", port=port, settle_seconds=_SETTLE_SECONDS)


@asynccontextmanager
async def running_demo(settings: Settings, say: Say, *, speed: float) -> AsyncIterator[Demo]:
    """Postgres, store, sandbox cluster and watcher, started in that order and stopped in the reverse one."""
    folder = settings.home_dir
    async with AsyncExitStack() as stack:
        postgres = EmbeddedPostgres(folder / "postgres")
        say("starting the embedded Postgres …")
        stack.callback(postgres.stop)
        await asyncio.to_thread(postgres.start)
        url = await asyncio.to_thread(postgres.create_database, "archiver")
        await asyncio.to_thread(upgrade, url)
        archive = await stack.enter_async_context(open_archive(settings, url))
        server = await stack.enter_async_context(SandboxServer(speed=speed))
        say("starting the sandbox cluster and the watcher …")
        status = WatcherStatus(Metrics())
        access = PlainAccess(server.url, server.token, where="the sandbox")
        watcher = asyncio.create_task(watch(settings, archive, status, access=access), name="watcher")
        stack.push_async_callback(_stop, watcher)
        await _first(status.is_watching.wait(), watcher)
        yield Demo(archive, server, status)


def play_all(server: SandboxServer, recordings: list[Recording], *, apart_seconds: float = _APART_SECONDS) -> None:
    """Starts every recording, a little apart. A run is told from the last one's by its uid; names stay."""
    for number, recording in enumerate(recordings):
        server.play(recording, at=number * apart_seconds)


async def show_progress(demo: Demo, say: Say) -> None:
    """Says each archived attempt once, for ever."""
    said: set[tuple[str, int]] = set()
    while True:
        for played in demo.server.truths():
            for attempt in await archived_attempts(demo.archive.reader, played.uid):
                if (played.uid, attempt.number) not in said:
                    said.add((played.uid, attempt.number))
                    say(f"  {describe(played, attempt)}")
        await asyncio.sleep(_LOOK_SECONDS)


async def archived_attempts(reader: Reader, uid: str) -> list[AttemptView]:
    """The attempts of a RayJob that are archived for good."""
    job = await reader.job(Scope.everything(), uid)
    return [attempt for attempt in (job.attempts if job else ()) if attempt.state is ManifestState.FINAL]


def describe(played: PlayedTruth, attempt: AttemptView) -> str:
    """One line for a person."""
    margin = ""
    if attempt.margin_seconds is not None:
        word = "before" if attempt.margin_seconds >= 0 else "after"
        margin = f", safe {abs(attempt.margin_seconds):.1f} s {word} the cluster was deleted"
    cause = f", {attempt.verdict.brief.title}" if attempt.verdict else ""
    what = f"{attempt.outcome.ended_as}{cause}, {attempt.completeness}{margin}"
    return f"{played.namespace}/{played.rayjob} attempt {attempt.number}: {what}"


async def check_demo(demo: Demo, say: Say, *, timeout_seconds: float) -> dict[str, Any]:
    """Waits until every playback is archived and compares each with what its driver wrote."""
    findings: list[Finding] = []
    try:
        async with asyncio.timeout(timeout_seconds):
            for played in demo.server.truths():
                findings += await _checked(demo, played)
                say(f"  checked {played.namespace}/{played.rayjob}")
    except TimeoutError:
        waiting = [
            f"{p.namespace}/{p.rayjob}" for p in demo.server.truths() if not any(f.uid == p.uid for f in findings)
        ]
        findings.append(Finding("", "", 0, False, f"not archived within {timeout_seconds:g} s: {', '.join(waiting)}"))
    return summary(findings, len(demo.server.truths()))


async def _checked(demo: Demo, played: PlayedTruth) -> list[Finding]:
    await played.playback.wait()
    attempts = await archived_attempts(demo.archive.reader, played.uid)
    while len(attempts) < len(played.truth.attempts):
        await asyncio.sleep(_LOOK_SECONDS)
        attempts = await archived_attempts(demo.archive.reader, played.uid)
    return [await check_playback(demo.archive.store, played, attempt) for attempt in attempts]


def summary(findings: list[Finding], runs: int) -> dict[str, Any]:
    """The JSON that ``archiver demo --check`` prints."""
    bad = [finding for finding in findings if not finding.is_right]
    return {
        "ok": not bad and bool(findings),
        "runs": runs,
        "attempts": len(findings),
        "attempts_wrong": len(bad),
        "driver_bytes": sum(finding.driver_bytes for finding in findings),
        "causes_right": sum(finding.is_cause_right for finding in findings),
        "wrong": [{"run": finding.run, "what": finding.what} for finding in bad],
    }


async def count_jobs(reader: Reader) -> int:
    """RayJobs on the first page of the archive."""
    page = await reader.jobs(Scope.everything(), PageRequest(filter=JobFilter(), size=1000))
    return len(page.rows)


async def _first(ready: Coroutine[Any, Any, Any], watcher: "asyncio.Task[None]") -> None:
    """Waits until ready; a watcher that ends before that has an error to raise."""
    waiting = asyncio.create_task(ready, name="watcher is ready")
    await asyncio.wait((waiting, watcher), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if watcher.done():
        await watcher


async def _stop(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
