"""The REST API over a real index and a real store: shapes, paging, logs by range, conditional answers, problems."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.manifest import Manifest, to_json
from archiver.core.model import Artifact, ArtifactKind, Completeness
from archiver.index.engine import Limits, open_engine
from archiver.index.writes import record
from archiver.read.service import Reader
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import START, key_of, manifest
from tests.fakes.streams import put_sealed
from web import urls
from web.describe import document
from web.main import create_app

TEXT = b"".join(b"line %d \xff<script>\n" % number for number in range(1, 301))
ATTEMPT = "/api/v1/jobs/uid-1/attempts/1"
LOG = f"{ATTEMPT}/logs/logs/driver.log"


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
    log = await put_sealed(
        store, key_of(bare).removesuffix("manifest.json"), "logs/driver.log", [TEXT[:2_000], TEXT[2_000:]]
    )
    lost = Artifact(
        "logs/worker 1.log", ArtifactKind.LOG, "", 0, 0, 0, "", Completeness.LOST, "the pod was deleted first"
    )
    whole = replace(bare, artifacts=(log, lost))
    await store.put(key_of(whole), to_json(whole))
    await record(engine, whole, key_of(whole))
    return whole


async def test_lists_jobs_page_by_page(client: httpx.AsyncClient, engine: AsyncEngine) -> None:
    for number in range(5):
        each = manifest(f"uid-{number}", start=START + timedelta(minutes=number))
        await record(engine, each, key_of(each))
    seen: list[str] = []
    token = None
    while True:
        params = {"page_size": 2, "team": "language"} | ({"page_token": token} if token else {})
        page = (await client.get("/api/v1/jobs", params=params)).raise_for_status().json()
        seen += [job["uid"] for job in page["jobs"]]
        token = page["next_page_token"]
        if token is None:
            break
    assert seen == ["uid-4", "uid-3", "uid-2", "uid-1", "uid-0"]
    back = (await client.get("/api/v1/jobs", params={"team": "language", "page_token": page["prev_page_token"]})).json()
    assert [job["uid"] for job in back["jobs"]] == ["uid-4", "uid-3", "uid-2", "uid-1"]


async def test_a_job_in_json_has_all_that_a_page_shows(client: httpx.AsyncClient, archived: Manifest) -> None:
    job = (await client.get("/api/v1/jobs/uid-1")).raise_for_status().json()
    assert job["row"]["cause"]["certainty"] == "sure"
    assert job["row"]["decisive"] == {
        "source": "driver",
        "artifact": "logs/driver.log",
        "line": 812,
        "text": "ModuleNotFoundError: No module named 'flash_attn'",
    }
    (attempt,) = job["attempts"]
    assert attempt["times"]["ended"] == "2026-03-01T12:04:10Z"
    assert attempt["missing"] == ["logs/worker 1.log: lost. the pod was deleted first"]
    named = await client.get("/api/v1/clusters/prod/namespaces/ml-a/jobs/llama-ft-7b")
    assert named.json() == job
    assert (await client.get(ATTEMPT)).json() == attempt
    assert (await client.get(f"{ATTEMPT}/artifacts")).json() == {"artifacts": attempt["artifacts"]}
    assert (await client.get(f"{ATTEMPT}/manifest")).content == to_json(archived)
    assert (await client.get(f"{ATTEMPT}/events")).json()["completeness"] == "lost"
    assert (await client.get(f"{ATTEMPT}/timeline")).json()["entries"][0]["title"] == "created"


async def test_words_that_no_name_can_have_find_nothing(client: httpx.AsyncClient, archived: Manifest) -> None:
    for query in (
        "q=%00",
        "team=a%00b",
        "node=%00",
        "until=0001-01-01T00:00:00%2B14:00",
        "since=9999-12-31T23:00:00-12:00",
    ):
        assert (await client.get(f"/api/v1/jobs?{query}")).raise_for_status().json()["jobs"] == []


async def test_facets_count(client: httpx.AsyncClient, archived: Manifest) -> None:
    found = (await client.get("/api/v1/facets", params={"status": "failed"})).json()
    assert (found["total"], found["failed"], found["gpu_seconds_lost"]) == (1, 1, 2_000.0)


async def test_exports_all_jobs_and_goes_on_where_it_was_cut(client: httpx.AsyncClient, engine: AsyncEngine) -> None:
    for number in range(7):
        each = manifest(f"uid-{number}", start=START + timedelta(minutes=number))
        await record(engine, each, key_of(each))
    whole = await client.get("/api/v1/jobs.ndjson", params={"status": "failed"})
    assert whole.headers["content-type"].startswith("application/x-ndjson")
    rows = [json.loads(line) for line in whole.text.splitlines()]
    assert [row["uid"] for row in rows] == [f"uid-{number}" for number in range(6, -1, -1)]
    rest = await client.get("/api/v1/jobs.ndjson", params={"status": "failed", "cursor": rows[3]["cursor"]})
    assert [json.loads(line)["uid"] for line in rest.text.splitlines()] == ["uid-2", "uid-1", "uid-0"]
    assert (await client.get("/api/v1/jobs.ndjson", params={"status": "none"})).text == ""
    assert (await client.get("/api/v1/jobs.ndjson", params={"cursor": rows[3]["cursor"]})).status_code == 400


@pytest.mark.parametrize(
    ("params", "numbers"),
    [
        ({}, list(range(1, 301))),
        ({"lines": "11-13"}, [11, 12, 13]),
        ({"around": 300, "context": 2}, [298, 299, 300]),
        ({"tail": 2}, [299, 300]),
        ({"time": "2026-03-01T12:04:00Z", "limit": 2}, [240, 241]),
        ({"lines": "900-901"}, []),
    ],
)
async def test_a_log_by_lines(
    client: httpx.AsyncClient, archived: Manifest, params: dict[str, Any], numbers: list[int]
) -> None:
    window = (await client.get(LOG, params=params, headers={"accept": "application/json"})).raise_for_status().json()
    assert [line["number"] for line in window["lines"]] == numbers
    assert window["total_lines"] == 300
    if 11 in numbers:
        line = window["lines"][numbers.index(11)]
        assert line["text"] == "line 11 \ufffd<script>"
        assert line["time"] == "2026-03-01T12:00:11.000000011Z"
    plain = await client.get(LOG, params=params, headers={"accept": "text/plain"})
    assert plain.content == b"".join(TEXT.splitlines(keepends=True)[number - 1] for number in numbers)
    assert plain.headers["content-type"] == "text/plain; charset=utf-8"
    assert plain.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", [LOG, f"{LOG}/raw"])
async def test_a_log_by_bytes(client: httpx.AsyncClient, archived: Manifest, path: str) -> None:
    part = await client.get(path, headers={"range": "bytes=1990-2009"})
    assert (part.status_code, part.content) == (206, TEXT[1990:2010])
    assert part.headers["content-range"] == f"bytes 1990-2009/{len(TEXT)}"
    assert part.headers["content-length"] == "20"
    end = await client.get(path, headers={"range": "bytes=-5"})
    assert (end.status_code, end.content) == (206, TEXT[-5:])
    beyond = await client.get(path, headers={"range": f"bytes={len(TEXT)}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{len(TEXT)}")
    assert beyond.json()["type"] == "urn:rayjob-archiver:problem:range-not-satisfiable"


async def test_the_whole_log_with_its_checksum_as_etag(client: httpx.AsyncClient, archived: Manifest) -> None:
    whole = await client.get(f"{LOG}/raw", params={"download": "true"})
    assert (whole.status_code, whole.content) == (200, TEXT)
    assert whole.headers["etag"] == f'"{archived.artifacts[0].sha256}"'
    assert whole.headers["content-disposition"] == "attachment; filename*=UTF-8''driver.log"
    again = await client.get(f"{LOG}/raw", headers={"if-none-match": whole.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    same = await client.get(f"{LOG}/raw", headers={"range": "bytes=0-1", "if-range": whole.headers["etag"]})
    assert same.status_code == 206
    other = await client.get(f"{LOG}/raw", headers={"range": "bytes=0-1", "if-range": '"another"'})
    assert (other.status_code, other.content) == (200, TEXT)
    several = await client.get(f"{LOG}/raw", headers={"range": "bytes=0-1,5-6"})
    assert (several.status_code, several.content) == (200, TEXT)


async def test_a_lost_log_says_why(client: httpx.AsyncClient, archived: Manifest) -> None:
    window = (await client.get(f"{ATTEMPT}/logs/logs/worker%201.log")).raise_for_status().json()
    assert (window["lines"], window["artifact"]["reason"]) == ([], "the pod was deleted first")
    raw = await client.get(f"{ATTEMPT}/logs/logs/worker%201.log/raw")
    assert (raw.status_code, raw.content) == (200, b"")


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/jobs/uid-1", ATTEMPT, f"{ATTEMPT}/manifest", LOG])
async def test_equal_answers_need_not_travel_twice(client: httpx.AsyncClient, archived: Manifest, path: str) -> None:
    first = await client.get(path)
    again = await client.get(path, headers={"if-none-match": f'"x", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])


@pytest.mark.parametrize(
    ("path", "status", "kind", "told"),
    [
        ("/api/v1/jobs/none", 404, "not-found", "no RayJob"),
        ("/api/v1/jobs/uid-1/attempts/9", 404, "not-found", "no attempt"),
        (f"{ATTEMPT}/logs/none.log", 404, "not-found", "no log"),
        ("/api/v1/clusters/a/namespaces/b/jobs/c", 404, "not-found", "no RayJob"),
        ("/api/v1/nothing/here", 404, "not-found", "no route"),
        ("/api/v1/jobs?page_token=abc", 400, "bad-request", "page token"),
        ("/api/v1/jobs?teams=x", 422, "invalid-parameter", "teams"),
        ("/api/v1/jobs?page_size=0", 422, "invalid-parameter", "page_size"),
        ("/api/v1/jobs?since=1772366400", 422, "invalid-parameter", "since"),
        ("/api/v1/jobs?since=yesterday", 422, "invalid-parameter", "since"),
        ("/api/v1/jobs?since=2026-01-01T00:00:00", 422, "invalid-parameter", "since"),
        ("/api/v1/jobs/uid-1/attempts/0", 422, "invalid-parameter", "number"),
        (f"{LOG}?lines=5-1", 422, "invalid-parameter", "query"),
        (f"{LOG}?lines=1-2&tail=3", 422, "invalid-parameter", "query"),
        (f"{LOG}?tail=99999", 422, "invalid-parameter", "tail"),
    ],
)
async def test_errors_are_problems_of_a_stable_type(
    client: httpx.AsyncClient, archived: Manifest, path: str, status: int, kind: str, told: str
) -> None:
    trace = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    answer = await client.get(path, headers={"traceparent": trace})
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, problem["status"]) == (status, status)
    assert problem["type"] == f"urn:rayjob-archiver:problem:{kind}"
    assert told in problem["detail"]
    assert problem["trace_id"] == "0123456789abcdef0123456789abcdef"
    assert bool(problem["errors"]) == (status == 422)


async def test_a_wrong_method_names_the_right_one(client: httpx.AsyncClient) -> None:
    answer = await client.post("/api/v1/jobs")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert answer.json()["type"] == "urn:rayjob-archiver:problem:method-not-allowed"


async def test_a_database_that_is_away_is_said_to_be(store: FilesystemStore) -> None:
    engine = open_engine("postgresql://nobody@127.0.0.1:1/none", Limits(connect_seconds=2))
    transport = httpx.ASGITransport(app=create_app(Reader(engine, store)))
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://archiver") as client:
            answer = await client.get("/api/v1/jobs")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert answer.json()["type"] == "urn:rayjob-archiver:problem:unavailable"
            ready = await client.get("/readyz")
            assert ready.status_code == 503
            assert [check["is_ok"] for check in ready.json()["checks"]] == [False, True]
            assert (await client.get("/livez")).text == "ok\n"
    finally:
        await engine.dispose()


async def test_damaged_evidence_is_said_to_be(
    client: httpx.AsyncClient, archived: Manifest, store: FilesystemStore
) -> None:
    await store.put(archived.artifacts[0].key, b"x" * 200)
    answer = await client.get(LOG)
    assert answer.status_code == 500
    assert answer.json()["type"] == "urn:rayjob-archiver:problem:damaged-evidence"


async def test_probes_answer(client: httpx.AsyncClient) -> None:
    assert (await client.get("/livez")).text == "ok\n"
    ready = (await client.get("/readyz")).raise_for_status().json()
    assert [(check["name"], check["is_ok"]) for check in ready["checks"]] == [("index", True), ("bucket", True)]
    assert (await client.get("/version")).json()["api"] == "v1"


async def test_every_answer_may_load_nothing_and_be_framed_nowhere(client: httpx.AsyncClient) -> None:
    for path in ("/api/v1/jobs", "/api/v1/none", "/livez", "/api/v1/openapi.json"):
        headers = (await client.get(path)).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


async def test_pages_are_served_beside_the_api(client: httpx.AsyncClient, archived: Manifest) -> None:
    page = await client.get("/jobs/uid-1")
    assert page.status_code == 200
    assert "text/html" in page.headers["content-type"]
    assert (await client.get("/static/tokens.css")).status_code == 200


def test_the_checked_in_openapi_document_is_current() -> None:
    checked_in = Path(__file__).parents[2] / "docs" / "openapi.json"
    assert checked_in.read_text() == document(), "run: python -m web.describe > docs/openapi.json"


def test_paths_are_built_as_they_are_routed() -> None:
    assert urls.raw_log("a/b", 2, "logs/x y.log") == "/api/v1/jobs/a%2Fb/attempts/2/logs/logs/x%20y.log/raw"


@pytest.mark.parametrize("moment", ["0", "1700000000", "-1.6e-202", "1e5", "2026-13-45T00:00:00Z", "2026-03-01"])
async def test_a_number_is_no_moment(client: httpx.AsyncClient, moment: str) -> None:
    answer = await client.get("/api/v1/jobs", params={"since": moment})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"].startswith("application/problem+json")
