"""A running RayJob's log in a real Chromium: the driver writes in the sandbox, the watcher archives, the page grows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect

from archiver.read.views import ArtifactView, Scope
from tests.component.operating import Operated
from tests.component.watching import Rig, rig, until
from tests.web.browser import chromium, visit
from web.main import create_app
from web.serve import WebServer

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
EVERYTHING = Scope.everything()


@pytest.fixture
async def watched(tmp_path: Path, database_url: str) -> AsyncIterator[Rig]:
    async with rig(tmp_path, database_url) as made:
        yield made


async def running(watched: Rig, text: bytes) -> tuple[Operated, str]:
    """A RayJob whose driver has written something, and the path of its log."""
    job = Operated(watched.server).create()
    job.begin()
    await job.start_head()
    job.write(job.head_run, b"ray started\n")
    job.status(deployment="Running")
    job.record("RUNNING")
    job.drive(text)
    await watched.until_stored(job.uid, "attempt-001/.parts/logs/driver")

    async def driver() -> ArtifactView | None:
        attempt = await watched.archive.reader.attempt(EVERYTHING, job.uid, 1)
        found = attempt.artifacts if attempt else ()
        return next((each for each in found if each.name.startswith("logs/driver")), None)

    artifact = await until(driver)
    return job, f"/jobs/{job.uid}/attempts/1/logs/{artifact.name}"


@asynccontextmanager
async def site(watched: Rig, port: int = 0) -> AsyncIterator[str]:
    async with WebServer(create_app(watched.archive.reader), "127.0.0.1", port) as server:
        yield server.url.replace("localhost", "127.0.0.1")


async def end(job: Operated, watched: Rig) -> None:
    job.record("FAILED", message="exit 1", driver_exit_code=1)
    job.end(message="exit 1")
    job.delete_cluster()
    job.kill_pods()
    await watched.archived(job.uid)


async def test_a_line_that_the_driver_writes_appears_without_a_reload_and_the_end_is_said(watched: Rig) -> None:
    job, path = await running(watched, b"first\n")
    async with site(watched) as url, chromium() as browser, visit(browser) as visited:
        await visited.page.goto(url + path)
        await visited.page.evaluate("window.isTheSamePage = true")
        await expect(visited.page.locator("#L1")).to_contain_text("first")
        job.drive(b"second <b>\x1b[31mred\x1b[0m\n")
        await expect(visited.page.locator("#L2")).to_contain_text("second <b>red", timeout=60_000)
        await expect(visited.page.locator("#L2 .f1")).to_have_text("red")
        job.drive(b"third\n")
        await expect(visited.page.locator("#L3")).to_contain_text("third", timeout=60_000)
        await end(job, watched)
        await expect(visited.page.locator("#live")).to_contain_text("The log has ended and is archived", timeout=60_000)
        await expect(visited.page.locator(".log li[id]")).to_have_count(3)
        assert await visited.page.evaluate("window.isTheSamePage")
        assert await visited.axe() == []
        assert [each for each in visited.wrong if "/tail?" not in each] == []


async def test_a_cut_connection_goes_on_without_loss_or_doubling(watched: Rig) -> None:
    job, path = await running(watched, b"line 1\n")
    async with chromium() as browser, visit(browser) as visited:
        async with site(watched) as url:
            await visited.page.goto(url + path)
            job.drive(b"line 2\n")
            await expect(visited.page.locator("#L2")).to_contain_text("line 2", timeout=60_000)
        job.drive(b"line 3\nline 4\n")
        async with site(watched, port=int(url.rpartition(":")[2])):
            await expect(visited.page.locator("#L4")).to_contain_text("line 4", timeout=60_000)
            job.drive(b"line 5\n")
            await expect(visited.page.locator("#L5")).to_contain_text("line 5", timeout=60_000)
            shown = await visited.page.locator(".log li[id] .n").all_text_contents()
            assert shown == ["1", "2", "3", "4", "5"]


async def test_the_api_streams_lines_and_goes_on_behind_the_last_event(watched: Rig) -> None:
    job, path = await running(watched, b"one\ntwo\n")
    async with site(watched) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        tail = f"/api/v1{path}/tail"
        async with client.stream("GET", tail) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            first = await anext(chunk async for chunk in answer.aiter_text() if "event: lines" in chunk)
        assert "id: 2\n" in first
        job.drive(b"three\n")
        await watched.until_read(job.uid, "attempt-001/.parts/logs/driver", len(b"one\ntwo\nthree\n"))
        await end(job, watched)
        rest = (await client.get(tail, headers={"Last-Event-ID": "2"})).text
        assert [text for text in ("one", "two", "three") if f'"{text}"' in rest] == ["three"]
        assert "event: end" in rest
        assert (await client.get(tail, headers={"Last-Event-ID": "x"})).status_code == 400
