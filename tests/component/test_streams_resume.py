"""Restarts and kills: nothing that was read for more than a second is lost, nothing comes twice."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archiver.core.model import Gap, GapReason
from archiver.core.resume import SeamState
from archiver.store.filesystem import FilesystemStore
from tests.component.streaming import NAME, NOW, PREFIX, archived, eventually, follow, log, running, text_of
from tests.unit.core.logtext import stamped

steps = st.lists(
    st.tuples(
        st.sampled_from(["read", "flush", "sync", "settle", "restart", "lose-spool", "seal"]), st.integers(0, 60)
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=steps, chunk_bytes=st.integers(20, 400))
def test_whenever_it_restarts_every_line_comes_once(
    tmp_path: Path, plan: list[tuple[str, int]], chunk_bytes: int
) -> None:
    asyncio.run(_check_restarts(Path(mkdtemp(dir=tmp_path)), plan, chunk_bytes))


async def _check_restarts(root: Path, plan: list[tuple[str, int]], chunk_bytes: int) -> None:
    store, spool, written = FilesystemStore(root / "store"), 0, 0
    sessions = _sessions(plan)
    for session in sessions:
        spool += session[0][0] == "lose-spool" if session else 0
        async with running(store, root / f"spool-{spool}") as streams:
            writer = await streams.open(PREFIX, NAME, now=NOW)
            for step, count in session:
                if step == "read":
                    written += count
                    seam = await follow(writer, stamped(log(0, written)), chunk_bytes=chunk_bytes)
                    assert seam.state is SeamState.JOINED
                elif step in ("flush", "sync", "seal"):
                    await getattr(writer, step)()
                elif step == "settle":
                    await writer.flush()
                    await streams.settle(PREFIX)
    async with running(store, root / f"spool-{spool}") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await follow(writer, stamped(log(0, written)), chunk_bytes=chunk_bytes)
        sealed = await writer.seal()
    text = text_of(log(0, written))
    assert await archived(store) == text
    assert (sealed.lines, sealed.sha256, sealed.gaps) == (written, sha256(text).hexdigest(), ())


def _sessions(plan: list[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    """The steps of each process: restarts lie between."""
    sessions: list[list[tuple[str, int]]] = [[]]
    for step in plan:
        if step[0] in ("restart", "lose-spool"):
            sessions.append([])
        sessions[-1].append(step)
    return sessions


async def test_a_broken_seam_is_reported_before_the_new_lines(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path / "store")
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await follow(writer, stamped(log(0, 10)))
        seam = await follow(writer, stamped(log(50, 0)))
        assert seam.is_broken
        await writer.gap(Gap(GapReason.ROTATED, "older text may be missing", 0))
        await follow(writer, stamped(log(50, 5)))
        sealed = await writer.seal()
    assert [gap.at_line for gap in sealed.gaps] == [10]


CHILD = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from archiver.collect.streams import Streams
from archiver.store.filesystem import FilesystemStore
from tests.component.streaming import NAME, PREFIX, block_of, log

async def main() -> None:
    root, store = Path(sys.argv[1]), Path(sys.argv[2])
    streams = Streams(FilesystemStore(store), root / "spool", spool_limit_bytes=1 << 30)
    await streams.start()
    asyncio.create_task(streams.run())
    writer = await streams.open(PREFIX, NAME, now=datetime.now(UTC))
    number = writer.lines
    while True:
        await writer.write_lines(block_of(log(number, 7)))
        number += 7
        print(number, flush=True)
        await asyncio.sleep(0.002)

asyncio.run(main())
"""


def _child(root: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-c", CHILD, str(root), str(root / "store")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parent.parent.parent)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def _read_until(process: "subprocess.Popen[bytes]", number: int) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= number:
            return int(line)
    raise AssertionError("the child ended by itself")


@pytest.mark.parametrize("store_is_up", [True, False])
async def test_a_killed_process_loses_only_what_it_had_just_read(tmp_path: Path, store_is_up: bool) -> None:
    store = FilesystemStore(tmp_path / "store")
    if not store_is_up:
        (tmp_path / "store").write_bytes(b"no folder can be made here")
    floor = 0
    for _ in range(3):
        for process in _child(tmp_path):
            # what was read in the last second may be lost; one second more for a busy machine
            seen = await asyncio.to_thread(_read_until, process, floor + 1)
            loop = asyncio.get_running_loop()
            until, before = loop.time() + 3.0, seen
            while loop.time() < until:
                seen = await asyncio.to_thread(_read_until, process, seen + 1)
                before = seen if loop.time() < until - 2.0 else before
            os.kill(process.pid, signal.SIGKILL)
            floor = before
        async with running(store, tmp_path / "spool") as streams:
            writer = await streams.open(PREFIX, NAME, now=NOW)
            assert writer.lines >= floor
            lines = writer.lines
            await writer.flush()
    if not store_is_up:
        (tmp_path / "store").unlink()
    async with running(store, tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        sealed = await writer.seal()
    assert sealed.lines == lines
    assert await archived(store) == text_of(log(0, lines))


async def test_parts_that_nobody_opens_again_are_put_too(tmp_path: Path) -> None:
    blocked = tmp_path / "store"
    blocked.write_bytes(b"no folder can be made here")
    async with running(FilesystemStore(blocked), tmp_path / "spool") as streams:
        writer = await streams.open(PREFIX, NAME, now=NOW)
        await follow(writer, stamped(log(0, 10)))
        await writer.flush()
        await streams.put_document(PREFIX, "ray/job.json", b"{}")
        await eventually(lambda: streams.last_error is not None)
        assert streams.usage_bytes > 0
    blocked.unlink()
    async with running(FilesystemStore(blocked), tmp_path / "spool") as streams:
        await streams.settle(PREFIX)
        assert await archived(FilesystemStore(blocked)) == text_of(log(0, 10))
        assert await FilesystemStore(blocked).get(PREFIX + "ray/job.json.zst") is not None
