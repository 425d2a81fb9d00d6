"""The page of a RayJob in a real Chromium: it follows a running job, opens lines in place, and leaves as one file."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from playwright.async_api import Browser, expect

from tests.web import samples
from tests.web.browser import ARTIFACTS, visit
from tests.web.sample_reader import SampleReader
from tests.web.serving import application, serving
from web.deps import Viewer
from web.pages.offline import report

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

JOB = "/jobs/uid-llama-ft-7b"
RUNNING = "/jobs/uid-ranker-train"
PAGES = {
    "job-difference": f"{JOB}/attempts/3/difference",
    "job-timeline-part": f"{JOB}/attempts/3?from={samples.STARTED.isoformat().replace('+00:00', 'Z')}&timeline=all",
}


@pytest.fixture(scope="module")
def reader() -> SampleReader:
    return SampleReader()


@pytest.fixture(scope="module")
def site(reader: SampleReader) -> Iterator[str]:
    with serving(application(reader)) as address:
        yield address


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", PAGES)
async def test_a_page_is_whole_in_both_themes_at_both_widths(
    browser: Browser, site: str, name: str, width: int, theme: str
) -> None:
    async with visit(browser, width=width, theme=theme) as visited:
        await visited.page.goto(site + PAGES[name])
        ARTIFACTS.mkdir(exist_ok=True)
        await visited.page.screenshot(path=ARTIFACTS / f"{name}-{width}-{theme}.png", full_page=True)
        assert visited.wrong == []
        assert await visited.overflow() <= 0
        assert await visited.axe() == []


@pytest.mark.parametrize("width", [1440, 390])
async def test_the_answer_is_in_the_first_screenful(browser: Browser, site: str, width: int) -> None:
    async with visit(browser, width=width) as visited:
        await visited.page.goto(site + JOB)
        for words in (samples.VERDICT.summary, "sure (0.97)", "ModuleNotFoundError: No module named 'flash_attn'"):
            await expect(visited.page.locator(".why").get_by_text(words).first).to_be_in_viewport()


async def test_lines_around_open_in_place_by_keyboard(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        await visited.page.goto(site + JOB)
        await visited.page.locator(".cited summary").first.focus()
        await visited.page.keyboard.press("Enter")
        await expect(visited.page.locator(".excerpt .is-decisive")).to_be_visible()
        await expect(visited.page.locator(".excerpt li")).to_have_count(7)  # it is the last line but one
        assert await visited.axe() == []


async def test_the_timeline_is_zoomed_by_links_without_script(browser: Browser, site: str) -> None:
    async with visit(browser, script=False) as visited:
        await visited.page.goto(site + JOB)
        await visited.page.click(".zooms >> text=last quarter")
        await expect(visited.page.locator(".timeline tbody tr").first).to_be_visible()
        assert "from=" in visited.page.url
        await visited.page.click(".zooms >> text=whole")
        assert visited.page.url == f"{site}{JOB}/attempts/3#timeline"


async def test_the_page_of_a_running_job_follows_it_and_keeps_what_is_open(
    browser: Browser, site: str, reader: SampleReader
) -> None:
    before = reader.rows
    async with visit(browser) as visited:
        await visited.page.clock.install()
        await visited.page.goto(site + RUNNING)
        await visited.page.locator("#timeline + .chart").wait_for()
        await visited.page.locator("summary", has_text="as table").click()
        try:
            reader.rows = tuple(
                replace(row, status="failed") if row.uid == "uid-ranker-train" else row for row in before
            )
            await visited.page.clock.fast_forward(6_000)
            await expect(visited.page.locator("h1")).to_contain_text("failed")
            await expect(visited.page.locator("[data-live]")).to_have_count(0)
            await expect(visited.page.locator(".timeline tbody tr").first).to_be_visible()
            assert await visited.page.title() == "✕ ranker-train failed · RayJob Archiver"
        finally:
            reader.rows = before


async def test_without_script_a_running_page_offers_to_look_again(browser: Browser, site: str) -> None:
    async with visit(browser, script=False) as visited:
        await visited.page.goto(site + RUNNING)
        await visited.page.click("text=refresh")
        await expect(visited.page.locator("h1")).to_contain_text("is running")


async def test_the_report_of_a_bundle_opens_from_a_folder(
    browser: Browser, reader: SampleReader, tmp_path: Path
) -> None:
    view = samples.job_view(samples.MAIN)
    body = await report(Viewer(cast(Any, reader), cast(Any, None)), view, view.newest)
    (tmp_path / "report.html").write_bytes(body)
    async with visit(browser, script=False) as visited:
        requested: list[str] = []
        visited.page.on("request", lambda request: requested.append(request.url))
        await visited.page.goto((tmp_path / "report.html").as_uri())
        await expect(visited.page.locator(".why .sentence")).to_have_text(samples.VERDICT.summary)
        await visited.page.screenshot(path=ARTIFACTS / "report-1440.png", full_page=True)
        assert requested == [(tmp_path / "report.html").as_uri()]
        assert await visited.page.locator("img, script, form").count() == 0
        links = await visited.page.locator("a").evaluate_all("all => all.map(each => each.getAttribute('href'))")
        assert set(links) <= {f"./{artifact.name}" for artifact in view.newest.artifacts}
