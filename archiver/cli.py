"""The command line. Parses, opens what a command needs, and prints; what the commands do is elsewhere.

The only module that imports inside functions: `archiver --help` must not wait for every library.
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archiver import __version__
from archiver.errors import ArchiverError, DatabaseUnavailable, UserError

if TYPE_CHECKING:
    from archiver.collect.again import Again
    from archiver.commands import Doors, ReindexReport, ReprocessReport, ReprocessRequest, VerifyReport
    from archiver.read.reprocess import Judge
    from archiver.read.service import Reader
    from archiver.read.views import AttemptView, JobView
    from archiver.runtime import Archive
    from archiver.settings import SettingLine, Settings

USAGE, FAILED = 2, 1
_FOLDER = click.Path(path_type=Path, file_okay=False, resolve_path=True)
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="archiver")
@click.pass_context
def main(context: click.Context) -> None:
    """Keeps the evidence of every RayJob that ends on KubeRay, and says why it died."""
    context.obj = _doors()


def _doors() -> "Doors":
    """The ways into the archive that the reading commands take; nothing is opened yet."""
    from archiver.commands import Doors

    return Doors(
        open_reader=_open_reader,
        verify=_verify,
        reindex=_reindex,
        reprocess=_reprocess,
        setting_lines=_setting_lines,
        report=_report,
    )


@asynccontextmanager
async def _open_archive() -> "AsyncIterator[Archive]":
    from archiver.runtime import open_archive
    from archiver.sandbox.embedded import index_url

    settings = _settings()
    async with index_url(settings) as url, open_archive(settings, url) as archive:
        yield archive


@asynccontextmanager
async def _open_reader() -> "AsyncIterator[Reader]":
    async with _open_archive() as archive:
        yield archive.reader


async def _verify() -> "VerifyReport":
    from archiver.read.verify import verify

    async with _open_archive() as archive:
        return await verify(archive.store, archive.engine, prefix=archive.prefix)


async def _reindex() -> "ReindexReport":
    from archiver.read.reindex import reindex

    async with _open_archive() as archive:
        return await reindex(archive.store, archive.engine, prefix=archive.prefix)


async def _reprocess(request: "ReprocessRequest", ray_address: str | None) -> "ReprocessReport":
    from archiver.read.reprocess import reprocess
    from archiver.runtime import archive_judge

    async with _open_archive() as archive:
        here = await archive_judge(_settings(), archive)
        with _judge(here, ray_address) as judge:
            return await reprocess(archive.store, archive.engine, judge, request, prefix=archive.prefix)


def _judge(here: "Again", ray_address: str | None) -> "AbstractContextManager[Judge]":
    """Who judges: this process, or a Ray cluster. Raises UserError where Ray is not installed."""
    if ray_address is None:
        return nullcontext(here)
    try:
        from archiver.commands.onray import ray_judge
    except ImportError as error:
        raise UserError(
            f"--ray needs Ray, in the version of the cluster: pip install 'rayjob-archiver[ray]' ({error})"
        ) from error
    return ray_judge(here, ray_address)


async def _report(reader: "Reader", view: "JobView", attempt: "AttemptView") -> bytes:
    from archiver.read.views import Scope
    from web.deps import Viewer
    from web.pages.offline import report

    return await report(Viewer(reader, Scope.everything()), view, attempt)


def _setting_lines() -> "list[SettingLine]":
    from archiver.settings import setting_lines

    return setting_lines(_settings())


@main.command()
@click.option("--folder", type=_FOLDER, default=".demo", show_default=True, help="where everything of the demo is kept")
@click.option(
    "--port",
    type=int,
    default=8080,
    show_default=True,
    help="port of the web page; another free one is taken if it is in use",
)
@click.option(
    "--speed", type=float, default=1.0, show_default=True, help="how much faster than recorded the RayJobs die"
)
@click.option(
    "--check", is_flag=True, help="run unattended, compare with what the drivers wrote, print JSON, exit 0 or 1"
)
@click.option("--timeout", type=float, default=300.0, show_default=True, help="seconds that --check waits")
def demo(folder: Path, port: int, speed: float, check: bool, timeout: float) -> None:
    """A sandbox cluster in which RayJobs die, the watcher on it, and the web page. Ctrl-C stops it."""
    from archiver.telemetry import configure_logging

    configure_logging("error" if check else "warning", "auto")
    _run(lambda: _demo(folder, port, speed, timeout if check else None))


async def _demo(folder: Path, port: int, speed: float, check_seconds: float | None) -> int:
    from archiver.sandbox.builtin import load_builtin_recordings
    from archiver.sandbox.demo import check_demo, demo_settings, play_all, running_demo, show_progress
    from web.main import create_app
    from web.serve import WebServer, free_port

    say = _say if check_seconds is None else _say_aside
    settings = demo_settings(folder, free_port("127.0.0.1", port))
    async with running_demo(settings, say, speed=speed) as running:
        if check_seconds is not None:
            play_all(running.server, load_builtin_recordings())
            result = await check_demo(running, say, timeout_seconds=check_seconds)
            click.echo(json.dumps(result, indent=2))
            return 0 if result["ok"] else FAILED
        async with WebServer(create_app(running.archive.reader), settings.host, settings.port) as server:
            recordings = load_builtin_recordings()
            say(
                f"\n  {server.url}\n\n{len(recordings)} RayJobs are dying now; a line is an archived attempt. Ctrl-C stops."
            )
            play_all(running.server, recordings)
            await show_progress(running, say)
    return 0


@main.command()
@click.option("--context", "kube_context", help="kubeconfig context; default: the current one")
@click.option(
    "--namespace", "-n", "namespaces", multiple=True, help="namespace to watch; may be repeated; default: all"
)
@click.option("--port", type=int, help="port of the web page")
def up(kube_context: str | None, namespaces: tuple[str, ...], port: int | None) -> None:
    """Watch a cluster from this machine with embedded Postgres and a local store. Installs nothing in the cluster."""
    settings = _settings(context=kube_context, namespaces=namespaces or None, port=port)
    _run(lambda: _up(settings))


async def _up(settings: "Settings") -> int:
    from archiver.runtime import WatcherStatus, open_archive, watch
    from archiver.sandbox.embedded import index_url
    from archiver.telemetry import Metrics
    from web.main import create_app
    from web.serve import WebServer

    async with (
        index_url(settings) as url,
        open_archive(settings, url) as archive,
        WebServer(create_app(archive.reader), settings.host, settings.port) as server,
    ):
        _say(f"watching; the page is {server.url}; everything is kept in {settings.home_dir}. Ctrl-C stops.")
        await watch(settings, archive, WatcherStatus(Metrics()))
    return 0


@main.command()
def watcher() -> None:
    """Capture only: what the Deployment in the cluster runs. Settings come from ARCHIVER_* variables."""
    settings = _settings()
    _run(lambda: _watcher(settings))


async def _watcher(settings: "Settings") -> int:
    from archiver.runtime import WatcherStatus, open_archive, watch
    from archiver.sandbox.embedded import require_url
    from archiver.telemetry import Metrics
    from web.serve import WebServer
    from web.watcher_probes import create_probe_app

    status = WatcherStatus(Metrics())
    probes = create_probe_app(status.not_ready, status.metrics.render)
    async with (
        open_archive(settings, require_url(settings)) as archive,
        WebServer(probes, settings.probe_host, settings.health_port),
    ):
        await watch(settings, archive, status)
    return 0


@main.command()
@click.option("--port", type=int, help="port of the web page")
@click.option("--host", help="address to listen on")
def web(host: str | None, port: int | None) -> None:
    """The web page and the REST API."""
    settings = _settings(host=host, port=port)
    _run(lambda: _web(settings))


async def _web(settings: "Settings") -> int:
    from archiver.index.revision import check_revision
    from archiver.runtime import open_archive
    from archiver.sandbox.embedded import require_url
    from web.main import create_app
    from web.serve import WebServer

    async with open_archive(settings, require_url(settings)) as archive:
        with suppress(DatabaseUnavailable):  # it may come later, and /readyz says so meanwhile
            await check_revision(archive.engine)
        async with WebServer(create_app(archive.reader), settings.host, settings.port) as server:
            _say(f"serving {server.url}")
            await asyncio.Event().wait()
    return 0


@main.command()
@click.option("--down", "revision", help="go back to a revision instead (for example -1)")
def migrate(revision: str | None) -> None:
    """Bring the database to this version's tables."""
    from archiver.index.migrate import current, downgrade, upgrade
    from archiver.sandbox.embedded import require_url

    settings = _settings()

    def work() -> None:
        url = require_url(settings)
        downgrade(url, revision) if revision else upgrade(url)
        click.echo(f"the database is at revision {current(url) or 'none'}")

    _run_sync(work)


@main.group()
def bucket() -> None:
    """One-off administration of the bucket."""


@bucket.command("init")
def bucket_init() -> None:
    """Create the bucket of ARCHIVER_STORE where it does not exist, and check that it can be written to."""
    from archiver.runtime import prepare_bucket

    settings = _settings()
    _run_sync(lambda: click.echo(prepare_bucket(settings)))


@main.command()
@click.option("--rayjob", required=True, metavar="NS/NAME", help="the RayJob to record")
@click.option("--output", "-o", type=_FILE, required=True, help="file to write")
@click.option("--seconds", type=float, default=3600.0, show_default=True, help="record at most so long")
@click.option("--context", "kube_context", help="kubeconfig context; default: the current one")
def record(rayjob: str, output: Path, seconds: float, kube_context: str | None) -> None:
    """Record a live RayJob until it is gone, secrets masked, to attach to a bug report."""
    namespace, slash, name = rayjob.partition("/")
    if not slash or not name:
        raise click.UsageError("write --rayjob NAMESPACE/NAME")
    settings = _settings(context=kube_context)
    _run(lambda: _record(settings, namespace, name, output, seconds))


async def _record(settings: "Settings", namespace: str, name: str, output: Path, seconds: float) -> int:
    from archiver.kube.access import find_access
    from archiver.kube.transport import Transport
    from archiver.sandbox.recorder import record as record_rayjob

    access = find_access(str(settings.kubeconfig) if settings.kubeconfig else None, settings.context)
    async with Transport(access) as transport:
        await record_rayjob(transport, namespace, name, output, until_gone_seconds=seconds)
    _say(f"written: {output}")
    return 0


# -- how commands run


def _settings(**options: object) -> "Settings":
    from archiver.settings import load_settings
    from archiver.telemetry import configure_logging

    try:
        settings = load_settings(None, **options)
    except UserError as error:
        raise _failure(error) from error
    configure_logging(settings.log_level, settings.log_format)
    return settings


def _run(work: Callable[[], Coroutine[Any, Any, int]]) -> None:
    """Runs until done, Ctrl-C or SIGTERM; errors of ours are one sentence."""
    try:
        code = asyncio.run(_until_stopped(work))
    except ArchiverError as error:
        raise _failure(error) from error
    except BaseExceptionGroup as group:
        ours, others = group.split(ArchiverError)
        if ours is None or others is not None:
            raise
        raise _failure(_first(ours)) from group
    sys.exit(code)


async def _until_stopped(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """The first signal cancels the work, which flushes and closes; that is a good end."""
    task = asyncio.create_task(work(), name="main")
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    waiting = asyncio.create_task(stopped.wait(), name="signal")
    await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.wait((task,))
    return 0 if task.cancelled() else task.result()


def _first(group: BaseExceptionGroup[ArchiverError]) -> ArchiverError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, ArchiverError) else ArchiverError(str(error))


def _run_sync(work: Callable[[], object]) -> None:
    try:
        work()
    except ArchiverError as error:
        raise _failure(error) from error


class _UsersMistake(click.ClickException):
    exit_code = USAGE


def _failure(error: ArchiverError) -> click.ClickException:
    return _UsersMistake(str(error)) if isinstance(error, UserError) else click.ClickException(str(error))


def _say(text: str) -> None:
    click.echo(text)


def _say_aside(text: str) -> None:
    click.echo(text, err=True)


def _add_reading_commands() -> None:
    from archiver.commands import COMMANDS

    for command in COMMANDS:
        main.add_command(command)


_add_reading_commands()


if __name__ == "__main__":
    main()
