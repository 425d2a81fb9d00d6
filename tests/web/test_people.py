"""What people say over the pages: kept in the bucket and the index, shown, safe from other sites and other teams."""

import html
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.manifest import Manifest, to_json
from archiver.core.people import GroupState
from archiver.index.writes import record
from archiver.read.groups import GroupRequest
from archiver.read.people import Answer, Choice
from archiver.read.reindex import reindex
from archiver.read.service import Reader
from archiver.read.views import Scope
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import key_of, manifest, verdict
from web.main import create_app

EVERYTHING = Scope.everything()
OURS = {"sec-fetch-site": "same-origin"}
FORM = "/jobs/uid-1/attempts/1/feedback"
STATE = "/groups/abc/state"


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path)


@pytest.fixture
def reader(engine: AsyncEngine, store: FilesystemStore) -> Reader:
    return Reader(engine, store)


@pytest.fixture
async def client(reader: Reader) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=create_app(reader))
    async with httpx.AsyncClient(transport=transport, base_url="http://archiver") as opened:
        yield opened


async def put(engine: AsyncEngine, store: FilesystemStore, *manifests: Manifest) -> None:
    for each in manifests:
        await store.put(key_of(each), to_json(each))
        await record(engine, each, key_of(each))


@pytest.fixture
async def archived(engine: AsyncEngine, store: FilesystemStore) -> None:
    await put(engine, store, manifest(), manifest("uid-2", namespace="ml-b", name="other"))


async def test_an_answer_is_kept_in_the_bucket_and_shown(
    client: httpx.AsyncClient, store: FilesystemStore, archived: None
) -> None:
    sent = {"who": "Ada", "right": "no", "should_be": "gpu-oom", "note": "I looked <b>twice</b>"}
    answer = await client.post(FORM, data=sent, headers=OURS)
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs/uid-1/attempts/1")
    keys = [info.key async for info in store.list("v1/") if "/feedback/" in info.key]
    body = json.loads(await store.get(keys[0]) or b"")
    assert (body["who"], body["cause"], body["should_be"], body["is_right"]) == (
        "Ada",
        "missing-module",
        "gpu-oom",
        False,
    )
    listed = (await client.get("/api/v1/jobs/uid-1/attempts/1/feedback")).raise_for_status().json()["feedback"]
    assert [(each["who"], each["note"]) for each in listed] == [("Ada", "I looked <b>twice</b>")]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://elsewhere"},
        {"origin": "null"},
    ],
)
@pytest.mark.parametrize("address", [FORM, STATE])
async def test_a_form_of_another_site_is_refused(
    client: httpx.AsyncClient, reader: Reader, archived: None, headers: dict[str, str], address: str
) -> None:
    answer = await client.post(address, data={"who": "x", "right": "yes", "state": "muted"}, headers=headers)
    assert answer.status_code == 403
    assert await reader.people.feedback(EVERYTHING, "uid-1", 1) == ()


async def test_an_origin_of_ours_will_do_where_a_browser_says_no_more(
    client: httpx.AsyncClient, archived: None
) -> None:
    sent = {"who": "Ada", "right": "yes"}
    assert (await client.post(FORM, data=sent, headers={"origin": "http://archiver"})).status_code == 303


async def test_a_secret_in_a_note_is_masked_before_it_is_kept(
    client: httpx.AsyncClient, store: FilesystemStore, archived: None
) -> None:
    await client.post(FORM, data={"who": "Ada", "right": "yes", "note": "AKIAIOSFODNN7EXAMPLE"}, headers=OURS)
    bodies = [await store.get(info.key) or b"" async for info in store.list("v1/") if "/feedback/" in info.key]
    assert len(bodies) == 1
    assert b"AKIAIOSFODNN7EXAMPLE" not in bodies[0]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        ({"who": "x" * 101, "right": "yes"}, 400),
        ({"right": "yes", "note": "n" * 2_001}, 400),
        ({"note": "n" * 40_000}, 413),
    ],
)
async def test_what_is_too_long_is_refused_with_a_reason(
    client: httpx.AsyncClient, archived: None, data: dict[str, str], status: int
) -> None:
    assert (await client.post(FORM, data=data, headers=OURS)).status_code == status


async def test_nobody_speaks_of_what_is_not_archived(client: httpx.AsyncClient, archived: None) -> None:
    sent = {"who": "Ada", "right": "yes", "state": "muted"}
    for address in ("/jobs/uid-9/attempts/1/feedback", "/jobs/uid-1/attempts/7/feedback", "/groups/none/state"):
        assert (await client.post(address, data=sent, headers=OURS)).status_code == 404


async def test_a_group_is_muted_by_name_and_says_so(client: httpx.AsyncClient, reader: Reader, archived: None) -> None:
    sent = {"who": "Ada", "state": "muted", "note": "known, see the runbook"}
    answer = await client.post(STATE, data=sent, headers=OURS)
    assert (answer.status_code, answer.headers["location"]) == (303, "/groups/abc")
    (row,) = (await reader.groups.page(EVERYTHING, GroupRequest(), now=datetime.now(UTC))).rows
    assert row.state == "muted"
    assert row.decision
    assert (row.decision.who, row.decision.note) == ("Ada", "known, see the runbook")
    assert (await client.post(STATE, data={"state": "gone"}, headers=OURS)).status_code == 400


async def test_a_resolved_group_that_fails_again_came_back(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader, archived: None
) -> None:
    now = datetime.now(UTC)
    await reader.people.decide(EVERYTHING, "abc", Choice("Ada", GroupState.RESOLVED), now=now - timedelta(hours=1))
    assert await _state(reader, now) == "resolved"
    await put(engine, store, manifest("uid-3", start=now - timedelta(minutes=30)))
    assert await _state(reader, now) == "came-back"


async def test_a_muted_group_speaks_again_when_it_has_doubled(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader
) -> None:
    now = datetime.now(UTC)
    many = [manifest(f"uid-{n}", start=now - timedelta(hours=1)) for n in range(20)]
    await put(engine, store, *many[:6])
    decided = await reader.people.decide(EVERYTHING, "abc", Choice("Ada", GroupState.MUTED), now=now)
    assert decided
    assert decided.weekly == 6
    await put(engine, store, *many[6:11])
    assert await _state(reader, now) == "muted"
    await put(engine, store, many[11])
    assert await _state(reader, now) == "grown"


async def _state(reader: Reader, now: datetime) -> str:
    (row,) = (await reader.groups.page(EVERYTHING, GroupRequest(), now=now)).rows
    return row.state


async def test_what_people_said_survives_a_rebuild_from_the_bucket_alone(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader, archived: None
) -> None:
    now = datetime.now(UTC)
    said = await reader.people.answer(EVERYTHING, ("uid-1", 1), Answer("Ada", is_right=True), now=now)
    decided = await reader.people.decide(EVERYTHING, "abc", Choice("Ben", GroupState.MUTED), now=now)
    async with engine.begin() as connection:
        await connection.execute(text("TRUNCATE rayjobs, attempts, artifacts, feedback, group_decisions, group_days"))
        await connection.execute(text("TRUNCATE attempt_days"))
    report = await reindex(store, engine)
    assert report.manifests == 2
    assert await reader.people.feedback(EVERYTHING, "uid-1", 1) == (said,)
    view = await reader.groups.group(EVERYTHING, "abc", now=now)
    assert view
    assert view.history == (decided,)
    assert (view.row.attempts, view.row.state) == (2, "muted")


async def test_a_rebuild_forgets_what_is_no_longer_in_the_bucket(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader, archived: None
) -> None:
    now = datetime.now(UTC)
    await reader.people.answer(EVERYTHING, ("uid-1", 1), Answer("Ada", is_right=True), now=now)
    await store.delete([info.key async for info in store.list("v1/") if "/feedback/" in info.key])
    await reindex(store, engine)
    assert await reader.people.feedback(EVERYTHING, "uid-1", 1) == ()


async def test_nobody_reads_or_says_anything_of_another_teams_evidence(reader: Reader, archived: None) -> None:
    now = datetime.now(UTC)
    a, b = (Scope(frozenset({("prod", namespace)})) for namespace in ("ml-a", "ml-b"))
    assert await reader.people.answer(b, ("uid-1", 1), Answer("Eve", is_right=False), now=now) is None
    await reader.people.answer(a, ("uid-1", 1), Answer("Ada", is_right=True, note="ours"), now=now)
    assert await reader.people.feedback(b, "uid-1", 1) == ()
    assert (await reader.people.all_feedback(b, cursor=None, size=10)).said == ()
    await reader.people.decide(a, "abc", Choice("Ada", GroupState.MUTED, "quotes ml-a"), now=now)
    seen_by_b = await reader.groups.group(b, "abc", now=now)
    assert seen_by_b
    assert (seen_by_b.row.decision, seen_by_b.history, seen_by_b.row.state) == (None, (), "open")
    assert [job.name for job in seen_by_b.jobs] == ["prod/ml-b/other"]
    seen_by_a = await reader.groups.group(a, "abc", now=now)
    assert seen_by_a
    assert [decision.note for decision in seen_by_a.history] == ["quotes ml-a"]
    nobody = Scope(frozenset({("prod", "ml-c")}))
    assert await reader.groups.group(nobody, "abc", now=now) is None
    assert await reader.people.decide(nobody, "abc", Choice("Eve", GroupState.MUTED), now=now) is None


async def test_hostile_words_stay_words(client: httpx.AsyncClient, engine: AsyncEngine, store: FilesystemStore) -> None:
    odd = verdict(title="<script>alert(1)</script>", evidence=[{"source": "d", "line": 1, "text": "<img src=x>"}])
    await put(engine, store, replace(manifest(), verdict=odd))
    hostile = {"who": "<script>alert(2)</script>", "state": "muted", "note": "<script>alert(3)</script>"}
    await client.post(STATE, data=hostile, headers=OURS)
    for address in ("/groups?state=all&since=all", "/groups/abc"):
        page = (await client.get(address)).raise_for_status().text
        assert not re.search(r"<script>alert|<img src=x", page)
        assert "<script>alert(1)</script>" in html.unescape(page)
