"""Searching over REST, on a real index and a real store: grep in one log, tail, search over many."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.manifest import Manifest, to_json
from archiver.index.writes import record
from archiver.read.service import Reader
from archiver.read.views import Scope
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import key_of, manifest
from tests.fakes.streams import put_sealed
from web.deps import Viewer, viewer
from web.main import create_app

TEXT = b"".join(b"line %d \xff<script>\n" % number for number in range(1, 301))
LOG = "/api/v1/jobs/uid-1/attempts/1/logs/logs/driver.log"


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path)


@pytest.fixture
async def client(engine: AsyncEngine, store: FilesystemStore) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=create_app(Reader(engine, store)))
    async with httpx.AsyncClient(transport=transport, base_url="http://archiver") as opened:
        yield opened


async def archive(engine: AsyncEngine, store: FilesystemStore, uid: str, text: bytes, **more: str) -> Manifest:
    bare = manifest(uid, **more)  # type: ignore[arg-type]
    half = len(text) // 2
    log = await put_sealed(
        store, key_of(bare).removesuffix("manifest.json"), "logs/driver.log", [text[:half], text[half:]]
    )
    whole = replace(bare, artifacts=(log,))
    await store.put(key_of(whole), to_json(whole))
    await record(engine, whole, key_of(whole))
    return whole


@pytest.fixture
async def archived(engine: AsyncEngine, store: FilesystemStore) -> Manifest:
    return await archive(engine, store, "uid-1", TEXT)


@pytest.mark.usefixtures("archived")
async def test_grep_counts_all_and_lists_some_with_their_neighbours(client: httpx.AsyncClient) -> None:
    found = (await client.get(f"{LOG}/grep", params={"q": "LINE 7", "limit": 2, "context": 1})).json()
    assert (found["count"], found["is_complete"], found["next_line"]) == (11, True, 71)
    first, second = found["matches"]
    assert (first["line"]["number"], first["marks"]) == (7, [[0, 6]])
    assert [line["number"] for line in first["before"] + first["after"]] == [6, 8]
    assert first["line"]["time"].startswith("2026-03-01T12:00:07")
    assert second["line"]["number"] == 70
    rest = (await client.get(f"{LOG}/grep", params={"q": "LINE 7", "from": 71})).json()
    assert [match["line"]["number"] for match in rest["matches"]] == list(range(71, 80))
    assert (rest["count"], rest["next_line"]) == (9, None)


@pytest.mark.usefixtures("archived")
async def test_grep_takes_regular_expressions_and_minds_capitals_when_asked(client: httpx.AsyncClient) -> None:
    async def count(**params: str) -> int:
        return int((await client.get(f"{LOG}/grep", params=params)).raise_for_status().json()["count"])

    assert await count(q=r"line \d{2} ", regex="true") == 90
    assert await count(q=r"line \d{2} ") == 0
    assert await count(q="LINE 30", case="true") == 0
    assert await count(q="line 30", case="true") == 2


@pytest.mark.usefixtures("archived")
@pytest.mark.parametrize(("pattern", "status"), [("(", 400), ("(?=x)", 400), ("a\nb", 422), ("x" * 501, 422)])
async def test_a_pattern_that_is_none_is_a_problem_in_words(
    client: httpx.AsyncClient, pattern: str, status: int
) -> None:
    answer = await client.get(f"{LOG}/grep", params={"q": pattern, "regex": "true"})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.usefixtures("archived")
async def test_a_viewer_of_another_team_finds_nothing(engine: AsyncEngine, store: FilesystemStore) -> None:
    app = create_app(Reader(engine, store))
    theirs = Viewer(app.state.reader, Scope(frozenset({("prod", "somebody-else")})))
    app.dependency_overrides[viewer] = lambda: theirs
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://archiver") as client:
        for path in (f"{LOG}/grep?q=line", f"{LOG}/tail"):
            assert (await client.get(path)).status_code == 404
        found = (await client.get("/api/v1/search", params={"q": "line"})).text
        assert "line" not in found
