"""Pages and API of groups, causes, teams, nodes and failures over a real index: what they say, and where they lead."""

import asyncio
import html
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import yaml
from click.testing import CliRunner, Result
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.commands import Doors
from archiver.commands.exits import NOT_FOUND
from archiver.commands.reports import groups_command
from archiver.core.manifest import Manifest, to_json
from archiver.core.model import Attribution, Completeness, ResourceUse
from archiver.diagnosis import Evidence, diagnose, load_ruleset
from archiver.index.engine import open_engine
from archiver.index.writes import record
from archiver.read.people import Answer
from archiver.read.service import Reader
from archiver.read.views import Scope
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import key_of, manifest, verdict
from tests.fakes.streams import put_sealed
from web.main import create_app

EVERYTHING = Scope.everything()
NOW = datetime.now(UTC)
MEMORY = verdict("gpu-oom", "memory", title="GPU memory exhausted", fingerprint={"key": "oom", "used": ["leaf"]})


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


async def put(engine: AsyncEngine, *manifests: Manifest) -> None:
    for each in manifests:
        await record(engine, each, key_of(each))


@pytest.fixture
async def archived(engine: AsyncEngine) -> None:
    vision = Attribution("vision", "label:team")
    await put(
        engine,
        manifest("a", name="one", start=NOW - timedelta(hours=2)),
        manifest("b", name="two", start=NOW - timedelta(hours=3), team=vision, namespace="ml-v"),
        manifest("c", name="three", start=NOW - timedelta(hours=5), team=vision, verdict=MEMORY),
        manifest("d", name="four", start=NOW - timedelta(hours=5), ended_as="succeeded", verdict=None),
        manifest("e", name="old", start=NOW - timedelta(days=12), completeness=Completeness.PARTIAL),
    )


async def words(client: httpx.AsyncClient, address: str) -> str:
    page = (await client.get(address)).raise_for_status().text
    visible = re.sub(r"<(script|style|head|title)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", visible)).split())


async def test_failures_open_on_the_last_day_and_say_so(client: httpx.AsyncClient, archived: None) -> None:
    said = await words(client, "/")
    assert "3 attempts failed of 4 in the last 24 hours" in said
    assert "1.7 GPU-hours lost · 1 kind never seen before" in said.replace("lost 1", "lost · 1")
    assert "old" not in re.findall(r'class="name"[^>]*>(\w+)<', (await client.get("/")).text)


async def test_an_empty_day_gives_the_week_and_an_empty_week_everything(
    client: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    await put(engine, manifest("x", start=NOW - timedelta(days=40)))
    assert "Nothing here in the last 7 days, so this is all that is archived." in await words(client, "/")
    await put(engine, manifest("y", start=NOW - timedelta(days=3)))
    assert "Nothing here in the last 24 hours, so these are the last 7 days." in await words(client, "/")
    await put(engine, manifest("z", start=NOW - timedelta(hours=3)))
    assert "Nothing here" not in await words(client, "/")


async def test_only_kinds_that_nobody_saw_before_are_marked_new(client: httpx.AsyncClient, archived: None) -> None:
    page = (await client.get("/")).text
    rows = re.findall(r'(<span class="new"[^>]*>new</span> )?<a class="name" href="/jobs/(\w)"', page)
    assert [(uid, bool(mark)) for mark, uid in rows] == [("a", False), ("b", False), ("c", True)]


async def test_a_bar_of_the_chart_leads_to_its_hour(client: httpx.AsyncClient, archived: None) -> None:
    page = (await client.get("/")).text
    bars = re.findall(r'<a href="([^"]+)" aria-label="([^"]+): (\d+) failures?', page)
    assert sum(int(count) for _, _, count in bars) == 3
    narrowed = await words(client, html.unescape(bars[0][0]))
    assert f"{bars[0][2]} attempt" in narrowed
    assert "from " in narrowed
    assert "as table" in narrowed


async def test_a_facet_says_what_another_choice_would_give(client: httpx.AsyncClient, archived: None) -> None:
    said = await words(client, "/?since=24h&team=vision")
    assert re.search(r"Team vision 2 language 1", said)
    assert "2 attempts failed of 2" in said


async def test_a_list_is_sorted_by_cost_through_all_its_pages(client: httpx.AsyncClient, engine: AsyncEngine) -> None:
    hours = [5, 1, 9, 3, 7, 3]
    for number, cost in enumerate(hours):
        use = ResourceUse(gpu_seconds=cost * 3_600.0)
        await put(engine, manifest(f"u{number}", start=NOW - timedelta(hours=1 + number), resources=use))
    listed: list[float] = []
    token: str | None = ""
    while token is not None:
        asked = {"order": "cost", "page_size": "2"} | ({"page_token": token} if token else {})
        page = (await client.get("/api/v1/jobs", params=asked)).raise_for_status().json()
        listed += [job["gpu_seconds"] / 3_600 for job in page["jobs"]]
        token = page["next_page_token"]
    assert listed == sorted(hours, reverse=True)
    first = re.findall(r'class="name" href="/jobs/(\w+)"', (await client.get("/?order=cost")).text)
    assert first == ["u2", "u4", "u0", "u5", "u3", "u1"]
    assert (await client.get("/?order=luck")).status_code == 400


async def test_exports_are_the_same_list_with_its_time_written_out(client: httpx.AsyncClient, archived: None) -> None:
    page = (await client.get("/?since=24h&team=vision")).text
    addresses = {
        label: html.unescape(href) for href, label in re.findall(r'<a href="([^"]+)">(CSV|JSON|NDJSON)<', page)
    }
    assert set(addresses) == {"CSV", "JSON", "NDJSON"}
    listed = (await client.get(addresses["JSON"])).raise_for_status().json()["jobs"]
    lines = (await client.get(addresses["NDJSON"])).raise_for_status().text.splitlines()
    rows = (await client.get(addresses["CSV"])).raise_for_status().text.splitlines()
    assert [job["uid"] for job in listed] == [json.loads(line)["uid"] for line in lines] == ["b", "c"]
    assert [row.split(",")[1] for row in rows] == ["uid", "b", "c"]


async def test_a_group_is_one_failure_over_jobs_and_teams(client: httpx.AsyncClient, archived: None) -> None:
    said = await words(client, "/groups")
    assert said.index("Python module missing") < said.index("GPU memory exhausted")
    assert "2 attempts" in said
    assert "3 attempts" in await words(client, "/groups?since=30d")
    one = await words(client, "/groups/abc")
    for told in (
        "3 attempts failed like this",
        "Jobs 3",
        "Teams 2",
        "prod/ml-v/two",
        "Open: nobody has decided anything",
    ):
        assert told in one


async def test_a_group_says_when_it_came_with_a_new_image(client: httpx.AsyncClient, engine: AsyncEngine) -> None:
    await put(engine, manifest("old", start=NOW - timedelta(days=20)))
    assert "new image" not in await words(client, "/groups/abc")
    await put(engine, manifest("new", start=NOW - timedelta(days=1), images={"head": "sha256:cd34"}))
    assert "In the last week it failed with sha256:cd34 for the first time." in await words(client, "/groups/abc")


async def test_groups_are_paged_to_their_end_in_every_order(client: httpx.AsyncClient, engine: AsyncEngine) -> None:
    for number in range(7):
        told = verdict(fingerprint=f"f-{number}")
        for again in range(1 + number % 3):
            at = NOW - timedelta(hours=1 + number)
            await put(engine, manifest(f"{number}-{again}", start=at, verdict=told))
    for order in ("newest", "most", "cost"):
        names: list[str] = []
        token: str | None = ""
        while token is not None:
            asked = {"page_size": "2", "order": order} | ({"page_token": token} if token else {})
            page = (await client.get("/api/v1/groups", params=asked)).raise_for_status().json()
            names += [group["fingerprint"] for group in page["groups"]]
            token = page["next_page_token"]
        assert sorted(names) == [f"f-{n}" for n in range(7)]
        lines = (
            (await client.get("/api/v1/groups.ndjson", params={"order": order})).raise_for_status().text.splitlines()
        )
        assert [json.loads(line)["fingerprint"] for line in lines] == names
    first = (await client.get("/api/v1/groups", params={"page_size": "2"})).json()["next_page_token"]
    other = await client.get("/api/v1/groups", params={"page_size": "2", "order": "cost", "page_token": first})
    assert (other.status_code, other.headers["content-type"]) == (400, "application/problem+json")


async def test_causes_are_a_tree_with_what_they_cost(client: httpx.AsyncClient, archived: None) -> None:
    said = await words(client, "/causes")
    assert said.index("environment 3 failures") < said.index("memory 1 failure")
    assert "None seen of:" in said
    one = await words(client, "/causes/gpu-oom")
    for told in ("GPU memory exhausted", "What to do", "How it is told from its neighbours", "three"):
        assert told in one
    assert (await client.get("/causes/none-such")).status_code == 404
    listed = (await client.get("/api/v1/causes")).raise_for_status().json()["causes"]
    assert [(each["cause"], each["failed"]) for each in listed][:2] == [("missing-module", 3), ("gpu-oom", 1)]
    assert len(listed) >= 68


async def test_teams_say_what_each_lost(client: httpx.AsyncClient, archived: None) -> None:
    said = await words(client, "/teams")
    assert re.search(r"language .*? 2 1\.1", said)
    assert re.search(r"vision .*? 2 1\.1", said)


async def test_a_node_that_chance_does_not_explain_is_named(client: httpx.AsyncClient, engine: AsyncEngine) -> None:
    hardware = verdict("gpu-memory-ecc", "accelerator")
    for number in range(40):
        node, told = ("bad", hardware) if number < 5 else (f"n-{number % 9}", verdict())
        each = manifest(f"u-{number}", name=f"j-{number}", start=NOW - timedelta(hours=1), nodes=(node,), verdict=told)
        await put(engine, each)
    await put(engine, manifest("other", start=NOW - timedelta(hours=1), nodes=("n-1",), verdict=hardware))
    said = await words(client, "/nodes")
    assert "1 node fails more than chance allows: bad." in said
    assert "5 of 5 attempts on it failed as on broken hardware, in 5 jobs" in said


@pytest.mark.parametrize("address", ["/groups", "/causes", "/teams", "/nodes"])
async def test_an_empty_archive_has_pages_that_say_so(client: httpx.AsyncClient, address: str) -> None:
    said = await words(client, address)
    assert re.search(r"No group here|Nothing archived|No attempt ended|No attempt of the last", said)


@pytest.mark.parametrize(
    "address",
    ["/groups?state=gone", "/groups?order=random", "/nodes?days=0", "/causes?since=noon", "/groups?page_token=x"],
)
async def test_an_address_that_makes_no_sense_gets_a_sentence(client: httpx.AsyncClient, address: str) -> None:
    answer = await client.get(address)
    assert answer.status_code == 400
    assert "This address cannot be understood" in answer.text


READS = (
    "/api/v1/jobs",
    "/api/v1/facets",
    "/api/v1/stats",
    "/api/v1/groups",
    "/api/v1/groups/abc",
    "/api/v1/causes",
    "/api/v1/causes/gpu-oom",
    "/api/v1/teams",
    "/api/v1/jobs/a/attempts/1/feedback",
    "/api/v1/jobs/a/attempts/1/case",
)


@pytest.mark.parametrize("address", READS)
async def test_every_read_answers_head_and_does_not_repeat_itself(
    client: httpx.AsyncClient, archived: None, address: str
) -> None:
    params = {} if "/groups" not in address else None
    whole = (await client.get(address, params=params)).raise_for_status()
    head = await client.head(address)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]
    again = await client.get(address, headers={"If-None-Match": whole.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_head_of_a_page_and_of_a_long_export_has_no_body(client: httpx.AsyncClient, archived: None) -> None:
    for address in ("/", "/jobs.csv", "/api/v1/jobs.ndjson", "/groups"):
        answer = await client.head(address)
        assert (answer.status_code, answer.content) == (200, b"")
    assert (await client.head("/jobs/none")).status_code == 404


async def test_feedback_is_exported_and_goes_on_behind_its_cursor(
    client: httpx.AsyncClient, reader: Reader, archived: None
) -> None:
    for number in range(3):
        await reader.people.answer(EVERYTHING, ("a", 1), Answer(f"p{number}", is_right=True), now=NOW)
    lines = [json.loads(line) for line in (await client.get("/api/v1/feedback.ndjson")).text.splitlines()]
    assert sorted(line["who"] for line in lines) == ["p0", "p1", "p2"]
    rest = (await client.get("/api/v1/feedback.ndjson", params={"cursor": lines[0]["cursor"]})).text.splitlines()
    assert [json.loads(line)["who"] for line in rest] == [line["who"] for line in lines[1:]]
    assert (await client.get("/api/v1/feedback.ndjson", params={"cursor": lines[-1]["cursor"]})).text == ""


async def test_the_api_takes_a_word_and_a_decision(client: httpx.AsyncClient, archived: None) -> None:
    said = await client.post("/api/v1/jobs/a/attempts/1/feedback", json={"who": "Ada", "is_right": False})
    assert (said.status_code, said.json()["who"]) == (201, "Ada")
    decided = await client.post("/api/v1/groups/abc/decisions", json={"who": "Ada", "state": "muted"})
    assert (decided.status_code, decided.json()["state"]) == (201, "muted")
    foreign = {"sec-fetch-site": "cross-site"}
    refused = await client.post("/api/v1/groups/abc/decisions", json={"who": "E", "state": "muted"}, headers=foreign)
    assert (refused.status_code, refused.headers["content-type"]) == (403, "application/problem+json")


async def test_a_case_file_of_an_attempt_is_judged_like_the_attempt(
    client: httpx.AsyncClient, engine: AsyncEngine, store: FilesystemStore, reader: Reader
) -> None:
    bare = manifest()
    prefix = key_of(bare).removesuffix("manifest.json")
    text = b"starting\n" * 900 + b"ModuleNotFoundError: No module named 'flash_attn'\n"
    log = await put_sealed(store, prefix, "logs/driver.log", [text])
    cited = verdict(
        evidence=[{"source": "driver", "line": 901, "text": "ModuleNotFoundError: No module named 'flash_attn'"}]
    )
    whole = replace(bare, artifacts=(log,), verdict=cited)
    await store.put(key_of(whole), to_json(whole))
    await record(engine, whole, key_of(whole))
    await reader.people.answer(EVERYTHING, ("uid-1", 1), Answer("Ada", is_right=True, note="seen"), now=NOW)
    case = yaml.safe_load((await client.get("/api/v1/jobs/uid-1/attempts/1/case")).raise_for_status().text)
    assert case["expected"]["cause"] == "missing-module"
    assert case["expected"]["root_lines"] == ["ModuleNotFoundError: No module named 'flash_attn'"]
    assert case["expected"]["explanation"] == "seen"
    assert diagnose(Evidence.from_case(case), load_ruleset()).to_json()["cause"] == "missing-module"


async def test_groups_are_listed_and_shown_in_a_terminal(
    database_url: str, store: FilesystemStore, archived: None
) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Reader]:
        engine = open_engine(database_url)
        try:
            yield Reader(engine, store)
        finally:
            await engine.dispose()

    def call(*words: str) -> Result:
        doors = Doors(opened, None, None, None, None, None)  # type: ignore[arg-type]
        return CliRunner().invoke(groups_command, list(words), obj=doors)

    listed, one, none = [await asyncio.to_thread(call, *asked) for asked in ((), ("abc",), ("none",))]
    assert listed.stdout.splitlines()[1].split()[:3] == ["abc", "open", "2"]
    assert "prod/ml-a/one (1)" in one.stdout
    assert (listed.exit_code, one.exit_code, none.exit_code) == (0, 0, NOT_FOUND)
