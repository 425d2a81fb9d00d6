"""The page of a RayJob over a real index and a real store: beside other runs, as a bundle, and closed to other teams."""

import html
import io
import json
import re
import zipfile
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.manifest import Manifest, to_json
from archiver.core.model import Artifact, ArtifactKind, Attribution, Completeness
from archiver.index.writes import record
from archiver.read.runs import Place
from archiver.read.service import Reader
from archiver.read.views import Scope
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import START, key_of, manifest, verdict
from tests.fakes.streams import put_sealed
from web.deps import Viewer, viewer
from web.main import create_app

TEXT = b"".join(b"\x1b[31mline %d\x1b[0m <script>\n" % number for number in range(1, 901))
PAGE = "/jobs/uid-1/attempts/1"
API = f"/api/v1{PAGE}"
ELSEWHERE = Scope(frozenset({("prod", "another-team")}))


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path)


@pytest.fixture
def reader(engine: AsyncEngine, store: FilesystemStore) -> Reader:
    return Reader(engine, store)


def client_of(reader: Reader, scope: Scope) -> httpx.AsyncClient:
    app = create_app(reader)
    app.dependency_overrides[viewer] = lambda: Viewer(reader, scope)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://archiver")


@pytest.fixture
async def client(reader: Reader) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(reader, Scope.everything()) as opened:
        yield opened


class Shelf:
    """Puts attempts into the archive, with a driver log where there is a text."""

    def __init__(self, engine: AsyncEngine, store: FilesystemStore) -> None:
        self.engine, self.store = engine, store

    async def put(self, bare: Manifest, text: bytes = b"", *more: Artifact) -> Manifest:
        prefix = key_of(bare).removesuffix("manifest.json")
        logs = [await put_sealed(self.store, prefix, "logs/driver.log", [text])] if text else []
        whole = replace(bare, artifacts=(*logs, *more))
        await self.store.put(key_of(whole), to_json(whole))
        await record(self.engine, whole, key_of(whole))
        return whole


@pytest.fixture
def shelf(engine: AsyncEngine, store: FilesystemStore) -> Shelf:
    return Shelf(engine, store)


LOST = Artifact("logs/w:1?.log", ArtifactKind.LOG, "", 0, 0, 0, "", Completeness.LOST, "the pod was deleted first")


def spec(revision: str) -> dict[str, Any]:
    env = [{"name": "MODEL_REV", "value": revision}, {"name": "API_PASSWORD", "value": f"secret-{revision}"}]
    container = {"name": "ray-head", "env": env}
    return {
        "entrypoint": "python train.py",
        "rayClusterSpec": {"headGroupSpec": {"template": {"spec": {"containers": [container]}}}},
    }


@pytest.fixture
async def archived(shelf: Shelf) -> Manifest:
    good = manifest("uid-0", start=START - timedelta(days=2), ended_as="succeeded", verdict=None, spec=spec("1"))
    await shelf.put(good, TEXT.replace(b"line 700", b"all is well"))
    failed = manifest(spec=spec("2"), images={"head": "sha256:cd34"})
    return await shelf.put(failed, TEXT, LOST)


async def page(client: httpx.AsyncClient, address: str) -> str:
    return html.unescape((await client.get(address)).raise_for_status().text)


async def test_the_page_says_what_changed_since_the_last_good_run(
    client: httpx.AsyncClient, archived: Manifest
) -> None:
    said = await page(client, PAGE)
    assert "Changed since the last good run: image digest · env MODEL_REV ·" in said
    assert 'last good run: <a href="/jobs/uid-0/attempts/1">' in said
    assert "(2026-02-27)" in said


async def test_a_cited_line_opens_in_place_and_leads_into_the_log(
    client: httpx.AsyncClient, archived: Manifest
) -> None:
    said = (await client.get(PAGE)).text
    row = re.search(r'<a class="place mono" href="([^"]+)">driver:812</a>.*?</details>', said, re.DOTALL)
    assert row
    assert row[1] == f"{PAGE}/logs/logs/driver.log?line=812#L812"
    assert re.findall(r'aria-label="line (\d+)"', row[0]) == [str(number) for number in range(807, 818)]
    assert "&lt;script&gt;" in row[0]


async def test_the_page_names_the_cause_its_group_and_what_follows(
    client: httpx.AsyncClient, shelf: Shelf, archived: Manifest
) -> None:
    await shelf.put(manifest("uid-2", start=START - timedelta(hours=30)))
    said = await page(client, PAGE)
    assert 'href="/causes/missing-module"' in said
    assert "missing-module</code>" in said
    assert re.search(r"jobDeploymentStatus Failed</code>\s*<span class=\"quiet\">follows from it", said)
    assert "sure (0.97)" in said


async def test_how_often_it_failed_so_counts_attempts_and_jobs_of_the_last_days(reader: Reader, shelf: Shelf) -> None:
    for number, hours in enumerate((0, 5, 30, 24 * 40)):
        await shelf.put(manifest(f"uid-{number}", start=START - timedelta(hours=hours)))
    await shelf.put(manifest("uid-0", 2, start=START))
    found = await reader.runs.same_failures(Scope.everything(), "abc", now=START + timedelta(hours=1))
    assert found is not None
    assert (found.count, found.jobs, found.is_capped) == (4, 3, False)
    assert await reader.runs.same_failures(ELSEWHERE, "abc", now=START) is None


@pytest.mark.parametrize(
    ("good", "is_found"),
    [
        ({"name": "etl-29000001"}, True),
        ({"name": "etl-29000001", "team": Attribution("vision", "label:team")}, False),
        ({"name": "etl-29000001", "namespace": "ml-b"}, False),
        ({"name": "etl-29000001", "ended_as": "failed"}, False),
        ({"name": "etl-29000001", "start": START + timedelta(days=1)}, False),
        ({"name": "etl-other-29000001"}, False),
    ],
)
async def test_a_generated_name_finds_the_last_good_run_of_its_stem(
    reader: Reader, shelf: Shelf, good: dict[str, Any], is_found: bool
) -> None:
    await shelf.put(manifest("uid-good", **{"start": START - timedelta(days=1), "ended_as": "succeeded", **good}))
    await shelf.put(manifest("uid-1", name="etl-29000002"))
    view = await reader.job(Scope.everything(), "uid-1")
    assert view is not None
    found = await reader.runs.last_good(Scope.everything(), view.row)
    assert (found.uid if found else None) == ("uid-good" if is_found else None)


async def test_the_difference_shows_both_sides_masked_and_where_the_logs_part(
    client: httpx.AsyncClient, archived: Manifest
) -> None:
    said = await page(client, f"{PAGE}/difference")
    assert "<del>1</del>" in said
    assert "<ins>2</ins>" in said
    assert "secret-" not in said
    assert f'href="{PAGE}/logs/logs/driver.log?line=700#L700">this :700</a><code>line 700 <script></code>' in said
    answer = (await client.get(f"{API}/difference", params={"with": "uid-0/1"})).raise_for_status().json()
    assert {change["name"] for change in answer["changes"]} == {"image digest of head", "env MODEL_REV"}
    assert (answer["log"]["before"]["text"], answer["other"]["is_last_good"]) == ("all is well <script>", True)


async def test_attempts_are_compared_with_each_other(client: httpx.AsyncClient, shelf: Shelf) -> None:
    await shelf.put(manifest(), TEXT)
    await shelf.put(manifest(number=2, nodes=("node-9",)), TEXT)
    said = await page(client, "/jobs/uid-1/attempts/2/difference?with=1")
    assert "node-1, node-2" in said
    assert "Both logs say the same, but for times, ids and numbers." in said
    assert "other nodes" in await page(client, "/jobs/uid-1")


@pytest.mark.parametrize(
    ("wanted", "status"), [("9", 404), ("uid-9/1", 404), ("x", 400), ("/1", 400), ("0", 400), ("last-good", 200)]
)
async def test_a_comparison_with_nothing_says_so(
    client: httpx.AsyncClient, archived: Manifest, wanted: str, status: int
) -> None:
    assert (await client.get(f"{PAGE}/difference", params={"with": wanted})).status_code == status


async def test_without_any_other_run_there_is_nothing_to_compare(client: httpx.AsyncClient, shelf: Shelf) -> None:
    await shelf.put(manifest())
    assert "no other run of this job to compare with" in await page(client, f"{PAGE}/difference")
    assert (await client.get(f"{API}/difference")).status_code == 404


def unpacked(body: bytes) -> dict[str, bytes]:
    archive = zipfile.ZipFile(io.BytesIO(body))
    assert archive.testzip() is None
    return {name: archive.read(name) for name in archive.namelist()}


async def test_a_bundle_has_everything_under_names_that_every_system_holds(
    client: httpx.AsyncClient, archived: Manifest
) -> None:
    answer = (await client.get(f"{API}/bundle")).raise_for_status()
    found = unpacked(answer.content)
    assert list(found) == ["manifest.json", "report.html", "verdict.json", "logs/driver.log", "bundle.json"]
    assert answer.headers["content-disposition"].endswith("llama-ft-7b-attempt-1.zip")
    assert found["manifest.json"] == to_json(archived)
    assert found["logs/driver.log"] == TEXT
    table = json.loads(found["bundle.json"])
    assert table["files"]["logs/driver.log"]["sha256"] == sha256(TEXT).hexdigest()
    lost = table["files"]["logs/w:1?.log"]
    assert (lost["path"], lost["completeness"], lost["reason"]) == (None, "lost", "the pod was deleted first")


async def test_the_same_evidence_gives_the_same_bundle_and_need_not_travel_twice(
    client: httpx.AsyncClient, archived: Manifest
) -> None:
    first, second = [await client.get(f"{API}/bundle") for _ in range(2)]
    assert first.content == second.content
    known = await client.get(f"{API}/bundle", headers={"if-none-match": first.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")


async def test_the_report_of_a_bundle_needs_no_server(client: httpx.AsyncClient, archived: Manifest) -> None:
    report = unpacked((await client.get(f"{API}/bundle")).content)["report.html"].decode()
    targets = re.findall(r'\b(?:href|src|action)="([^"]*)"', report)
    assert set(targets) == {"./logs/driver.log"}
    assert "<script" not in report
    assert "url(" not in report
    assert "The driver stopped at its first import." in report
    assert "the pod was deleted first" in report


async def test_a_damaged_log_spoils_no_bundle(
    client: httpx.AsyncClient, store: FilesystemStore, archived: Manifest
) -> None:
    body = await store.get(archived.artifacts[0].key)
    assert body
    await store.put(archived.artifacts[0].key, b"\x00" * 40 + body[40:])
    files = json.loads(unpacked((await client.get(f"{API}/bundle")).content)["bundle.json"])["files"]
    assert "damaged" in files["logs/driver.log"]["reason"]


async def test_verdicts_of_every_ruleset_are_listed_the_one_that_counts_first(
    client: httpx.AsyncClient, store: FilesystemStore, archived: Manifest
) -> None:
    prefix = key_of(archived).removesuffix("manifest.json")
    for ruleset, body in (
        ("13", json.dumps(verdict("gpu-oom", ruleset="13")).encode()),
        ("12", b"{"),
        ("14", b'{"ruleset": "14"}'),
    ):
        await store.put(f"{prefix}verdicts/{ruleset}.json", body)
    found = (await client.get(f"{API}/verdicts")).raise_for_status()
    assert [(each["ruleset"], each["cause"]) for each in found.json()["verdicts"]] == [
        ("14", "missing-module"),
        ("13", "gpu-oom"),
    ]
    again = await client.get(f"{API}/verdicts", headers={"if-none-match": found.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize("address", ["", "/verdicts", "/timeline", "/events", "/difference", "/bundle", "/manifest"])
async def test_nobody_of_another_team_reads_anything(
    reader: Reader, client: httpx.AsyncClient, archived: Manifest, address: str
) -> None:
    assert (await client.get(f"{API}{address}")).status_code == 200
    async with client_of(reader, ELSEWHERE) as stranger:
        answer = await stranger.get(f"{API}{address}")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
        assert (await stranger.get(f"{PAGE}{address}")).status_code == 404
        for name in ("/prod/ml-a/llama-ft-7b", "/prod/ml-a/llama-ft-7b/1"):
            assert (await stranger.get(name)).status_code == 404


async def test_another_teams_run_is_neither_the_last_good_one_nor_compared_with(reader: Reader, shelf: Shelf) -> None:
    await shelf.put(
        manifest("uid-theirs", namespace="ml-b", ended_as="succeeded", start=START - timedelta(days=1)), TEXT
    )
    await shelf.put(manifest(), TEXT)
    ours = Scope(frozenset({("prod", "ml-a")}))
    assert await reader.runs.describe(ours, Place("uid-theirs", 1)) is None
    async with client_of(reader, ours) as opened:
        assert (await opened.get(f"{API}/difference", params={"with": "uid-theirs/1"})).status_code == 404


async def test_short_addresses_lead_to_the_job_and_to_its_attempt(
    client: httpx.AsyncClient, archived: Manifest
) -> None:
    assert (await client.get("/prod/ml-a/llama-ft-7b")).headers["location"] == "/jobs/uid-1"
    assert (await client.get("/prod/ml-a/llama-ft-7b/1")).headers["location"] == PAGE
    assert (await client.get("/prod/ml-a/llama-ft-7b/2")).status_code == 404


@pytest.mark.parametrize(
    "address", ["/", PAGE, f"{API}/verdicts", f"{API}/bundle", f"{API}/logs/logs/driver.log/raw", "/jobs/none"]
)
async def test_a_head_has_the_headers_of_a_get_and_no_body(
    client: httpx.AsyncClient, archived: Manifest, address: str
) -> None:
    asked, got = await client.head(address), await client.get(address)
    assert (asked.status_code, asked.content) == (got.status_code, b"")
    assert asked.headers["content-type"] == got.headers["content-type"]
    assert asked.headers.get("etag") == got.headers.get("etag")
    assert "content-security-policy" in asked.headers
