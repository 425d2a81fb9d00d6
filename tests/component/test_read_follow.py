"""Following a log that grows: every line once, whoever comes and goes; what many watch is read once."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.model import Gap, GapReason
from archiver.index.writes import record
from archiver.read.assemble import artifact_view
from archiver.read.follow import Followers, TailPart
from archiver.read.service import Reader
from archiver.read.text import LogText, TextOpener, TextPlace
from archiver.read.views import ArtifactView, Scope
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import key_of, manifest
from tests.fakes.streams import artifact, put_parts, put_sealed

NAME = "logs/driver.log"
PREFIX = "v1/prod/ml-a/2026-03-01/llama-ft-7b/uid-1/attempt-001/"
QUICK = 0.01


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path)


class Growing:
    """A log whose parts a test writes; a look opens it as the read side does."""

    def __init__(self, store: FilesystemStore) -> None:
        self.store = store
        self.pieces: list[bytes] = []
        self.looks = 0
        self.is_sealed = False
        self._opener = TextOpener(store)
        self.gaps: tuple[Gap, ...] = ()

    async def write(self, *pieces: bytes) -> None:
        self.pieces += pieces
        await put_parts(self.store, PREFIX, NAME, self.pieces, gaps=self.gaps)

    async def seal(self) -> None:
        await put_sealed(self.store, PREFIX, NAME, self.pieces)
        self.is_sealed = True

    async def look(self) -> tuple[ArtifactView, LogText] | None:
        self.looks += 1
        text = await self._opener.open(TextPlace(PREFIX, NAME, None))
        return None if text is None else (view_of(text), text)

    async def follow(self, followers: Followers, after: int | None = 0) -> AsyncGenerator[TailPart, None]:
        found = await followers.follow((PREFIX, NAME), self.look, after)
        assert found is not None
        return found


def view_of(text: LogText) -> ArtifactView:
    known = artifact(PREFIX, NAME, b"", gaps=text.gaps)
    return artifact_view(replace(known, raw_bytes=text.total_bytes, lines=text.total_lines), live=text.is_live)


async def lines_until_last(parts: AsyncGenerator[TailPart, None]) -> list[tuple[int, bytes]]:
    return [(line.number, line.data) async for part in parts for line in part.lines]


async def test_every_line_comes_once_and_the_last_without_an_end_when_the_log_is_sealed(store: FilesystemStore) -> None:
    log, followers = Growing(store), Followers(store, look_seconds=QUICK)
    await log.write(b"a\nb")
    parts = await log.follow(followers)
    assert [line.data for line in (await anext(parts)).lines] == [b"a"]
    opened = (await anext(parts)).open_line
    assert opened is not None
    assert (opened.number, opened.data) == (2, b"b")
    await log.write(b"b\nc\nd")
    assert [line.data for line in (await anext(parts)).lines] == [b"bb", b"c"]
    await log.seal()
    assert (4, b"d") in await lines_until_last(parts)


async def test_whoever_was_cut_off_anywhere_goes_on_without_loss_or_doubling(store: FilesystemStore) -> None:
    log, followers = Growing(store), Followers(store, look_seconds=QUICK)
    seen: list[int] = []
    for round_ in range(5):
        await log.write(b"".join(b"line %d\n" % (round_ * 700 + n) for n in range(1, 701)))
        parts = await log.follow(followers, after=seen[-1] if seen else 0)
        part = await anext(parts)
        seen += [line.number for line in part.lines]
        await parts.aclose()
    await log.seal()
    seen += [number for number, _ in await lines_until_last(await log.follow(followers, after=seen[-1]))]
    assert seen == list(range(1, 3501))


async def test_many_who_watch_one_log_share_its_looks_and_reads(store: FilesystemStore) -> None:
    log, followers = Growing(store), Followers(store, look_seconds=QUICK)
    await log.write(b"one\n")
    viewers = [await log.follow(followers) for _ in range(50)]
    assert log.looks == 1
    firsts = await asyncio.gather(*(anext(parts) for parts in viewers))
    assert {part.lines[0].data for part in firsts} == {b"one"}
    assert len({id(part.lines) for part in firsts}) == 1
    await log.write(b"two\n")
    seconds = await asyncio.gather(*(anext(parts) for parts in viewers))
    assert len({id(part.lines) for part in seconds}) == 1
    for parts in viewers:
        await parts.aclose()


async def test_without_a_place_the_last_thousand_lines_come_first(store: FilesystemStore) -> None:
    log, followers = Growing(store), Followers(store, look_seconds=QUICK)
    await log.write(b"x\n" * 2500)
    await log.seal()
    found = await lines_until_last(await log.follow(followers, after=None))
    assert [number for number, _ in found] == list(range(1501, 2501))


async def test_a_gap_is_told_where_it_is_and_once(store: FilesystemStore) -> None:
    log, followers = Growing(store), Followers(store, look_seconds=QUICK)
    log.gaps = (Gap(GapReason.ARCHIVER_DOWN, "", 1),)
    await log.write(b"a\n")
    parts = await log.follow(followers)
    assert [gap.at_line for gap in (await anext(parts)).gaps] == [1]
    await log.write(b"b\n")
    assert (await anext(parts)).gaps == ()
    await parts.aclose()


async def test_nobody_follows_what_he_may_not_see(engine: AsyncEngine, store: FilesystemStore) -> None:
    bare = manifest()
    log = await put_sealed(store, key_of(bare).removesuffix("manifest.json"), NAME, [b"a\n"])
    written = manifest(artifacts=[log])
    await record(engine, written, key_of(written))
    reader = Reader(engine, store)
    mine = await reader.log_tail(Scope.everything(), "uid-1", 1, NAME)
    assert mine is not None
    assert await lines_until_last(mine) == [(1, b"a")]
    stranger = Scope(frozenset({("prod", "somebody-else")}))
    assert await reader.log_tail(stranger, "uid-1", 1, NAME) is None
