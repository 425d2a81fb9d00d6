"""What every object store keeps to, held against each one that there is: a folder, and S3 servers over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from archiver.errors import DataError, StoreConflict
from archiver.ports import ObjectStore
from archiver.store.filesystem import FilesystemStore
from archiver.store.plan import UPLOAD_BYTES
from archiver.store.s3 import S3Store
from tests.fakes.store.servers import S3Server, kinds, running

PAGE_KEYS = 5


@pytest.fixture(scope="module", params=["filesystem", *kinds()])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server | None]:
    """A running server; None for the folder."""
    if request.param == "filesystem":
        yield None
    else:
        with running(request.param, tmp_path_factory.mktemp("s3")) as started:
            yield started


@pytest.fixture
async def store(server: S3Server | None, tmp_path: Path) -> AsyncIterator[ObjectStore]:
    if server is None:
        yield FilesystemStore(tmp_path / "store", page_keys=PAGE_KEYS)
        return
    options = await asyncio.to_thread(server.options, page_keys=PAGE_KEYS)
    async with S3Store(options) as opened:
        yield opened


async def keys(store: ObjectStore, prefix: str, **arguments: str) -> list[str]:
    return [info.key async for info in store.list(prefix, **arguments)]


async def test_an_object_comes_back_as_it_was(store: ObjectStore) -> None:
    body = bytes(range(256)) * 10
    info = await store.put("a/b c+d/x%20.zst", body)
    assert info.size_bytes == len(body)
    assert await store.get("a/b c+d/x%20.zst") == body
    head = await store.head("a/b c+d/x%20.zst")
    assert head is not None
    assert (head.key, head.size_bytes, head.etag) == ("a/b c+d/x%20.zst", len(body), info.etag)
    assert head.modified is not None
    assert head.modified.tzinfo is not None


async def test_what_is_not_there_is_none(store: ObjectStore) -> None:
    assert await store.get("nothing/here") is None
    assert await store.get("nothing/here", start=-10) is None
    assert await store.head("nothing/here") is None
    assert await keys(store, "nothing/") == []
    await store.put("nothing/here/below", b"x")
    assert await store.get("nothing/here/below/this") is None


@pytest.mark.parametrize(
    ("start", "length", "wanted"),
    [
        (0, None, b"0123456789"),
        (3, None, b"3456789"),
        (3, 4, b"3456"),
        (8, 100, b"89"),
        (-3, None, b"789"),
        (-3, 2, b"78"),
        (-100, None, b"0123456789"),
        (10, None, b""),
        (50, 5, b""),
        (2, 0, b""),
    ],
)
async def test_ranges_are_cut_at_the_end(store: ObjectStore, start: int, length: int | None, wanted: bytes) -> None:
    await store.put("r", b"0123456789")
    assert await store.get("r", start=start, length=length) == wanted


async def test_an_empty_object_is_an_object(store: ObjectStore) -> None:
    await store.put("empty", b"")
    assert await store.get("empty") == b""
    assert await store.get("empty", start=-8) == b""


async def test_a_second_writer_is_refused_where_the_first_one_counts(store: ObjectStore) -> None:
    await store.put("once", b"first", if_absent=True)
    with pytest.raises(StoreConflict):
        await store.put("once", b"second", if_absent=True)
    assert await store.get("once") == b"first"
    await store.put("once", b"third")
    assert await store.get("once") == b"third"


async def test_of_many_writers_at_once_one_wins(store: ObjectStore) -> None:
    bodies = [b"writer %d" % number for number in range(8)]
    done = await asyncio.gather(*(store.put("race", body, if_absent=True) for body in bodies), return_exceptions=True)
    winners = [body for body, result in zip(bodies, done, strict=True) if not isinstance(result, BaseException)]
    assert all(isinstance(result, StoreConflict) for result in done if isinstance(result, BaseException))
    assert [await store.get("race")] == winners


async def test_lists_come_in_key_order_below_the_prefix(store: ObjectStore) -> None:
    names = ["p/a", "p/a.b", "p/a/1", "p/a/2/x", "p/a0", "p/b", "q"]
    for name in [name for name in names if name != "p/a"]:
        await store.put(name, name.encode())
    assert await keys(store, "p/") == sorted(name for name in names if name.startswith("p/") and name != "p/a")
    assert await keys(store, "p/a") == ["p/a.b", "p/a/1", "p/a/2/x", "p/a0"]
    assert await keys(store, "p/a/") == ["p/a/1", "p/a/2/x"]
    assert await keys(store, "p/", after="p/a/1") == ["p/a/2/x", "p/a0", "p/b"]
    assert await keys(store, "p/", after="p/a/9") == ["p/a0", "p/b"]
    assert await keys(store, "") == ["p/a.b", "p/a/1", "p/a/2/x", "p/a0", "p/b", "q"]
    assert [info.size_bytes async for info in store.list("q")] == [1]


async def test_a_list_goes_over_many_pages(store: ObjectStore) -> None:
    names = [f"many/{number // 4}/{number:05d}" for number in range(3 * PAGE_KEYS + 1)]
    await asyncio.gather(*(store.put(name, b"x") for name in names))
    assert await keys(store, "many/") == names
    assert await keys(store, "many/", after=names[PAGE_KEYS]) == names[PAGE_KEYS + 1 :]


async def test_composing_joins_objects_in_order(store: ObjectStore) -> None:
    for number in range(30):
        await store.put(f"parts/{number:02d}", b"%02d" % number)
    sources = [f"parts/{number:02d}" for number in range(30)]
    info = await store.compose(sources, "whole", tail=b"!")
    wanted = b"".join(b"%02d" % number for number in range(30)) + b"!"
    assert (info.size_bytes, await store.get("whole")) == (len(wanted), wanted)
    await store.compose([], "alone", tail=b"tail")
    assert await store.get("alone") == b"tail"
    await store.compose([], "none")
    assert await store.get("none") == b""


async def test_composing_goes_beyond_one_upload(store: ObjectStore) -> None:
    big, small = bytes(range(256)) * (9 * 4096), b"small" * 1000
    await store.put("big", big)
    await store.put("small", small)
    await store.compose(["small", "big", "small", "big", "small"], "joined", tail=b"end")
    wanted = small + big + small + big + small + b"end"
    head = await store.head("joined")
    assert head is not None
    assert head.size_bytes == len(wanted)
    assert await store.get("joined") == wanted


async def test_an_object_may_be_composed_onto_itself(store: ObjectStore) -> None:
    body = bytes(range(256)) * (6 * 4096)
    await store.put("self", body)
    await store.put("more", b"more")
    await store.compose(["self", "more"], "self", tail=b".")
    assert await store.get("self") == body + b"more."


async def test_composing_what_is_not_there_is_an_error_and_changes_nothing(store: ObjectStore) -> None:
    await store.put("there", b"1")
    await store.put("target", b"before")
    with pytest.raises(DataError):
        await store.compose(["there", "missing"], "target")
    assert await store.get("target") == b"before"


async def test_a_large_body_is_one_object(store: ObjectStore) -> None:
    body = b"0123456789abcdef" * (UPLOAD_BYTES // 16) + b"rest"
    assert (await store.put("large", body, if_absent=True)).size_bytes == len(body)
    assert await store.get("large", start=UPLOAD_BYTES - 2, length=8) == b"efrest"
    with pytest.raises(StoreConflict):
        await store.put("large", body, if_absent=True)


async def test_deleting_is_quiet_about_what_is_not_there(store: ObjectStore) -> None:
    for name in ("d/1", "d/2", "d/e/3"):
        await store.put(name, b"x")
    await store.delete(["d/1", "d/e/3", "d/never"])
    assert await keys(store, "d/") == ["d/2"]
    await store.delete([])
    await store.put("d/1", b"again")
    assert await store.get("d/1") == b"again"
