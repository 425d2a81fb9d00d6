"""Searching the logs of many RayJobs: what is found, where it stops, how it goes on, and who may search what."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.search import Pattern
from archiver.errors import UserError
from archiver.index.writes import record
from archiver.read.scan import Budget
from archiver.read.search import SearchBounds, SearchEnd, SearchHits, SearchRequest
from archiver.read.service import Reader
from archiver.read.views import JobFilter, Scope
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import START, key_of, manifest
from tests.fakes.streams import put_sealed

EVERYTHING = Scope.everything()
NEEDLE = Pattern("needle")


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path)


@pytest.fixture
def reader(engine: AsyncEngine, store: FilesystemStore) -> Reader:
    return Reader(engine, store)


async def archive(engine: AsyncEngine, store: FilesystemStore, age: int, *logs: bytes) -> None:
    """RayJob uid-``age`` with logs; a greater age is older."""
    bare = manifest(f"uid-{age}", start=START - timedelta(minutes=age))
    place = key_of(bare).removesuffix("manifest.json")
    artifacts = [await put_sealed(store, place, f"logs/{number}.log", [text]) for number, text in enumerate(logs)]
    whole = replace(bare, artifacts=tuple(artifacts))
    await record(engine, whole, key_of(whole))


def hay(count: int, *needles: int) -> bytes:
    return b"".join(b"needle %d\n" % n if n in needles else b"hay %d\n" % n for n in range(1, count + 1))


async def search(
    reader: Reader, request: SearchRequest, scope: Scope = EVERYTHING
) -> tuple[list[tuple[str, str, int]], SearchEnd]:
    found, end = [], None
    async for event in reader.search(scope, request):
        if isinstance(event, SearchHits):
            found += [(event.job.uid, event.artifact, match.line.number) for match in event.matches]
        if isinstance(event, SearchEnd):
            end = event
    assert end is not None
    return found, end


async def test_finds_lines_in_all_logs_newest_job_first(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader
) -> None:
    await archive(engine, store, 1, hay(50, 7), hay(30, 1, 30))
    await archive(engine, store, 2, hay(50))
    await archive(engine, store, 0, hay(50, 9))
    found, end = await search(reader, SearchRequest(NEEDLE))
    assert found == [
        ("uid-0", "logs/0.log", 9),
        ("uid-1", "logs/0.log", 7),
        ("uid-1", "logs/1.log", 1),
        ("uid-1", "logs/1.log", 30),
    ]
    assert end.next_token is None
    assert (end.progress.logs, end.progress.hits) == (4, 4)
    assert end.progress.scanned_bytes == sum(len(hay(*each)) for each in ((50, 7), (30, 1, 30), (50,), (50, 9)))


async def test_says_beforehand_what_it_will_read(engine: AsyncEngine, store: FilesystemStore, reader: Reader) -> None:
    await archive(engine, store, 1, hay(50), hay(30))
    await archive(engine, store, 2, hay(20))
    size = await reader.search_size(EVERYTHING, JobFilter())
    assert (size.jobs, size.logs, size.raw_bytes) == (2, 3, len(hay(50) + hay(30) + hay(20)))
    assert (await reader.search_size(EVERYTHING, JobFilter(teams=("nobody",)))).logs == 0


@pytest.mark.parametrize("bounds", [SearchBounds(hits=1), SearchBounds(Budget(60, 1)), SearchBounds(Budget(0.0))])
async def test_goes_on_where_it_stopped_until_all_is_found_once(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader, bounds: SearchBounds
) -> None:
    for age in range(3):
        await archive(engine, store, age, hay(40, 5), hay(40, 6))
    found: list[tuple[str, str, int]] = []
    request = SearchRequest(NEEDLE, bounds=bounds)
    for _ in range(20):
        some, end = await search(reader, request)
        found += some
        if end.next_token is None:
            break
        request = replace(request, token=end.next_token)
    assert found == [(f"uid-{age}", f"logs/{log}.log", 5 + log) for age in range(3) for log in range(2)]


async def test_goes_on_in_the_middle_of_a_log(engine: AsyncEngine, store: FilesystemStore, reader: Reader) -> None:
    await archive(engine, store, 0, hay(100, 3, 5, 7, 90, 91))
    first, end = await search(reader, SearchRequest(NEEDLE, bounds=SearchBounds(hits=2)))
    then, end = await search(reader, SearchRequest(NEEDLE, token=end.next_token))
    assert [line for _, _, line in first + then] == [3, 5, 7, 90, 91]
    assert end.next_token is None


async def test_of_one_log_only_some_lines_are_told_and_that_there_are_more(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader
) -> None:
    await archive(engine, store, 0, hay(100, *range(1, 101)), hay(9, 9))
    events = [
        event async for event in reader.search(EVERYTHING, SearchRequest(NEEDLE, bounds=SearchBounds(hits_a_log=5)))
    ]
    hits = [event for event in events if isinstance(event, SearchHits)]
    assert [(len(event.matches), event.has_more) for event in hits] == [(5, True), (1, False)]


async def test_a_search_that_nobody_waits_for_reads_no_further(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader
) -> None:
    for age in range(5):
        await archive(engine, store, age, hay(10, 1))
    events = reader.search(EVERYTHING, SearchRequest(NEEDLE))
    first = await anext(events)
    await events.aclose()
    assert isinstance(first, SearchHits)
    assert [event async for event in events] == []


async def test_nobody_searches_what_he_may_not_see(engine: AsyncEngine, store: FilesystemStore, reader: Reader) -> None:
    await archive(engine, store, 0, hay(10, 1))
    stranger = Scope(frozenset({("prod", "somebody-else")}))
    found, end = await search(reader, SearchRequest(NEEDLE), stranger)
    assert (found, end.progress.scanned_bytes) == ([], 0)
    assert (await reader.search_size(stranger, JobFilter())).logs == 0
    _, own = await search(reader, SearchRequest(NEEDLE, bounds=SearchBounds(hits=1)))
    stolen = SearchRequest(NEEDLE, token=own.next_token)
    assert (await search(reader, stolen, stranger))[0] == []


async def test_a_token_of_another_search_is_refused(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader
) -> None:
    await archive(engine, store, 0, hay(10, 1), hay(10, 1))
    _, end = await search(reader, SearchRequest(NEEDLE, bounds=SearchBounds(hits=1)))
    with pytest.raises(UserError):
        await search(reader, SearchRequest(Pattern("other"), token=end.next_token))
    with pytest.raises(UserError):
        await search(reader, SearchRequest(NEEDLE, token="x"))


async def test_a_log_that_cannot_be_read_is_counted_and_passed(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader
) -> None:
    await archive(engine, store, 0, hay(10, 1), hay(10, 2))
    [key] = [info.key async for info in store.list("v1/") if info.key.endswith("0.log.zst")]
    await store.put(key, b"no frames here" * 20)
    found, end = await search(reader, SearchRequest(NEEDLE))
    assert [line for _, _, line in found] == [2]
    assert end.progress.unreadable == 1
