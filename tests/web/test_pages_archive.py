"""Pages over a real index and a real store: what the hand-built views promise holds for what is archived."""

import html
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.manifest import Manifest, to_json
from archiver.core.model import Artifact, ArtifactKind, Completeness
from archiver.index.writes import record
from archiver.read.service import Reader
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import START, key_of, manifest
from tests.fakes.streams import put_sealed
from web.main import create_app

TEXT = b"".join(b"\x1b[31mline %d\x1b[0m \xff<script>\n" % number for number in range(1, 2_501))
LOG = "/jobs/uid-1/attempts/1/logs/logs/driver.log"


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path)


@pytest.fixture
async def client(engine: AsyncEngine, store: FilesystemStore) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=create_app(Reader(engine, store)))
    async with httpx.AsyncClient(transport=transport, base_url="http://archiver") as opened:
        yield opened


@pytest.fixture
async def archived(engine: AsyncEngine, store: FilesystemStore) -> Manifest:
    bare = manifest()
    prefix = key_of(bare).removesuffix("manifest.json")
    log = await put_sealed(store, prefix, "logs/driver.log", [TEXT[:20_000], TEXT[20_000:]])
    lost = Artifact(
        "logs/worker.log", ArtifactKind.LOG, "", 0, 0, 0, "", Completeness.LOST, "the pod was deleted first"
    )
    whole = replace(bare, artifacts=(log, lost))
    await store.put(key_of(whole), to_json(whole))
    await record(engine, whole, key_of(whole))
    return whole


async def test_the_list_and_the_job_are_what_is_archived(client: httpx.AsyncClient, archived: Manifest) -> None:
    page = (await client.get("/")).raise_for_status().text
    assert "1 attempt failed of 1 of all time" in page
    assert "Nothing here in the last 7 days, so this is all that is archived." in page
    assert f'href="{LOG}?line=812#L812"' in page
    job = (await client.get("/jobs/uid-1")).raise_for_status().text
    assert "logs/worker.log: lost. the pod was deleted first" in html.unescape(job)
    assert (await client.get("/prod/ml-a/llama-ft-7b")).headers["location"] == "/jobs/uid-1"


async def test_every_line_of_a_log_is_reached_by_going_on(client: httpx.AsyncClient, archived: Manifest) -> None:
    address, numbers = f"{LOG}?from=1", []
    while True:
        page = (await client.get(address)).raise_for_status().text
        numbers += [int(number) for number in re.findall(r'<li id="L(\d+)"', page)]
        following = re.search(r'href="([^"]+)" data-key="n"|href="([^"]+)" rel="next"', page)
        if following is None:
            break
        address = html.unescape(following[1] or following[2])
    assert numbers == list(range(1, 2_501))


async def test_a_line_of_a_log_is_shown_in_its_colours_and_escaped(
    client: httpx.AsyncClient, archived: Manifest
) -> None:
    page = (await client.get(f"{LOG}?line=1700")).raise_for_status().text
    line = re.search(r'<li id="L1700" class="is-focus">.*?</li>', page)
    assert line
    assert '<span class="f1">line 1700</span> <span class="raw">\\xff</span>&lt;script&gt;' in line[0]


async def test_older_pages_follow_newer_ones_within_a_relative_time(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    for number in range(60):
        each = manifest(f"uid-{number}", name=f"job-{number}", start=START + timedelta(minutes=number))
        await record(engine, each, key_of(each))
    names: list[str] = []
    address = "/?since=2900w"
    while address:
        page = (await client.get(address)).raise_for_status().text
        names += re.findall(r'<a class="name" href="/jobs/uid-(\d+)"', page)
        following = re.search(r'href="([^"]+)" rel="next"', page)
        address = html.unescape(following[1]) if following else ""
    assert [int(name) for name in names] == list(range(59, -1, -1))


async def test_the_csv_has_all_of_a_long_list(client: httpx.AsyncClient, engine: AsyncEngine) -> None:
    for number in range(7):
        each = manifest(f"uid-{number}", start=START + timedelta(minutes=number))
        await record(engine, each, key_of(each))
    lines = (await client.get("/jobs.csv?status=all")).raise_for_status().text.splitlines()
    assert [line.split(",")[1] for line in lines] == ["uid", *(f"uid-{number}" for number in range(6, -1, -1))]


async def test_a_page_of_another_list_is_refused_with_a_sentence(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    answer = await client.get("/?page_token=nonsense")
    assert answer.status_code == 400
    assert "This address cannot be understood" in answer.text


@pytest.mark.parametrize(
    "address", ["/jobs/%00", "/jobs/uid-1/attempts/99999999999999", "/a/b/%00", f"{LOG}x?line=999999999999"]
)
async def test_addresses_that_nothing_can_have_are_not_found(
    client: httpx.AsyncClient, archived: Manifest, address: str
) -> None:
    assert (await client.get(address)).status_code == 404


async def test_health_is_told_from_the_real_archive(client: httpx.AsyncClient, archived: Manifest) -> None:
    page = (await client.get("/health")).raise_for_status().text
    assert "What must work" in page
    assert "broken" not in page
