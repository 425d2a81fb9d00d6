"""The Postgres from a wheel: starts on any folder that a run left, however that run ended, and leaves nothing running."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from archiver.errors import UserError
from archiver.sandbox.postgres import EmbeddedPostgres, embedded_postgres


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not below pytest's own folder, which other runs of pytest shut for the account that Postgres runs as."""
    with TemporaryDirectory(prefix="archiver-embedded-") as path:
        yield Path(path)


def query(server: EmbeddedPostgres, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.url().replace("+psycopg", ""), autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 20
    while is_running(pid):
        assert time.monotonic() < deadline, f"{pid} still runs"
        time.sleep(0.02)


def test_keeps_its_rows_over_a_stop_and_leaves_nothing_running(folder: Path) -> None:
    server = EmbeddedPostgres(folder)
    server.start()
    pid = server.pid
    query(server, "create table t as select 42 as answer")
    server.stop()
    server.stop()
    assert pid is not None
    assert not is_running(pid)
    assert list((folder / "socket").iterdir()) == []
    server.start()
    assert query(server, "select answer from t") == [(42,)]
    server.stop()


def test_starts_again_after_its_server_was_killed(folder: Path) -> None:
    server = EmbeddedPostgres(folder)
    server.start()
    query(server, "create table t as select 42 as answer")
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    server.stop()
    server.start()
    assert query(server, "select answer from t") == [(42,)]
    server.stop()


@pytest.mark.parametrize("server_too", [False, True])
def test_starts_again_after_the_whole_process_was_killed(folder: Path, server_too: bool) -> None:
    """kill -9 of the archiver leaves its Postgres running on the folder, or leaves its pid file behind."""
    script = (
        "import sys, time; from pathlib import Path; from archiver.sandbox.postgres import EmbeddedPostgres\n"
        "server = EmbeddedPostgres(Path(sys.argv[1])); server.start(); print(server.pid, flush=True); time.sleep(300)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        left = int(process.stdout.readline())
        process.kill()
    assert is_running(left)
    if server_too:
        os.kill(left, signal.SIGKILL)
        wait_until_gone(left)
    server = EmbeddedPostgres(folder)
    server.start()
    assert query(server, "select 1") == [(1,)]
    assert not is_running(left)
    server.stop()


def test_a_pid_file_that_names_another_process_is_not_believed(folder: Path) -> None:
    server = EmbeddedPostgres(folder)
    server.start()
    server.stop()
    pid_file = folder / "data" / "postmaster.pid"
    pid_file.write_text(f"{os.getppid()}\n{folder}/data\n1\n5432\n\n\n")
    server.start()
    assert query(server, "select 1") == [(1,)]
    server.stop()
    assert is_running(os.getppid())


def test_a_folder_in_use_is_refused_in_words(folder: Path) -> None:
    server = EmbeddedPostgres(folder)
    server.start()
    try:
        with pytest.raises(UserError, match="in use by another archiver"):
            EmbeddedPostgres(folder).start()
        assert query(server, "select 1") == [(1,)]
    finally:
        server.stop()


def test_a_path_too_long_for_a_socket_is_no_obstacle(folder: Path) -> None:
    deep = folder / ("d" * 60) / ("e" * 60)
    server = EmbeddedPostgres(deep)
    server.start()
    assert query(server, "select 1") == [(1,)]
    outside = Path(server.url().partition("host=")[2].partition("&")[0])
    assert outside.exists()
    server.stop()
    assert not outside.exists()


def test_a_cluster_that_was_never_finished_is_made_anew(folder: Path) -> None:
    for name in ("data", "data.new"):
        (folder / name).mkdir()
        (folder / name / "half").write_text("x")
    server = EmbeddedPostgres(folder)
    server.start()
    assert query(server, "select 1") == [(1,)]
    server.stop()


async def test_a_cancelled_start_leaves_no_server(folder: Path) -> None:
    async def run() -> None:
        async with embedded_postgres(folder):
            raise AssertionError("cancelled before it was up")

    task = asyncio.create_task(run())
    async with asyncio.timeout(20):
        while not (folder / "lock").exists():  # noqa: ASYNC110 - another thread makes it
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    again = EmbeddedPostgres(folder)
    again.start()
    again.stop()


async def test_a_block_has_a_server_and_ends_it(folder: Path) -> None:
    async with embedded_postgres(folder, throwaway=True) as server:
        assert query(server, "select 1") == [(1,)]
        pid = server.pid
    assert pid is not None
    assert not is_running(pid)
