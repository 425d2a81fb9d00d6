"""Groups, causes, teams, nodes and the chart in a real Chromium, over a real index: whole, for everybody, without script."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from archiver.core.manifest import Manifest, to_json
from archiver.core.model import Attribution
from archiver.core.people import GroupState
from archiver.index.engine import open_engine
from archiver.index.writes import record
from archiver.read.people import Choice
from archiver.read.service import Reader
from archiver.read.views import Scope
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import key_of, manifest, verdict
from tests.web.browser import ARTIFACTS, visit
from web.main import create_app
from web.serve import WebServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

NOW = datetime.now(UTC)
PAGES = {
    "chart": "/",
    "chart-week": "/?since=7d&team=vision&order=cost",
    "groups": "/groups?state=all",
    "group": "/groups/oom",
    "causes": "/causes",
    "cause": "/causes/missing-module",
    "teams": "/teams",
    "nodes": "/nodes",
}
_HOSTILE = "<img src=x onerror=alert(1)>"


def told() -> Iterator[Manifest]:
    """A few days of failures: one old kind, one new, one node that is broken, one hostile name."""
    memory = verdict("gpu-oom", "memory", title="GPU memory exhausted", fingerprint="oom")
    broken = verdict("gpu-memory-ecc", "accelerator", title=_HOSTILE, fingerprint="ecc")
    vision = Attribution("vision", "label:team")
    for number in range(12):
        yield manifest(f"a-{number}", name=f"train-{number}", start=NOW - timedelta(hours=1 + 5 * number))
        yield manifest(f"b-{number}", start=NOW - timedelta(hours=2 + number), verdict=memory, team=vision)
    for number in range(6):
        start = NOW - timedelta(hours=3 + number)
        yield manifest(f"c-{number}", name=f"job-{number}", start=start, verdict=broken, nodes=("bad",))
    yield manifest("d", start=NOW - timedelta(hours=4), verdict=broken, nodes=("node-1",))
    yield manifest("e", start=NOW - timedelta(days=11), team=Attribution(_HOSTILE, "label:team"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    async with AsyncExitStack() as stack:
        engine, store = open_engine(database_url), FilesystemStore(Path(tmp_path_factory.mktemp("store")))
        stack.push_async_callback(engine.dispose)
        for each in told():
            await store.put(key_of(each), to_json(each))
            await record(engine, each, key_of(each))
        reader = Reader(engine, store)
        muted = Choice("Ada", GroupState.MUTED, "known; see the runbook")
        await reader.people.decide(Scope.everything(), "oom", muted, now=NOW)
        server = await stack.enter_async_context(WebServer(create_app(reader), "127.0.0.1", 0))
        yield f"http://127.0.0.1:{server.port}"


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


async def test_a_bar_narrows_the_list_by_keyboard_alone(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        await visited.page.goto(site)
        bar = visited.page.locator(".bars svg a").first
        failures = int(re.findall(r": (\d+) failure", await bar.get_attribute("aria-label") or "")[0])
        await bar.focus()
        await visited.page.keyboard.press("Enter")
        await visited.page.wait_for_url("**since=**until=**")
        await expect(visited.page.locator(".runs > li")).to_have_count(failures)
        await visited.page.click(".chip")
        await visited.page.wait_for_url("**since=all**")


async def test_the_way_from_the_list_to_a_group_and_what_becomes_of_it_needs_no_script(
    browser: Browser, site: str
) -> None:
    async with visit(browser, script=False) as visited:
        await visited.page.goto(f"{site}/?cause=missing-module")
        await visited.page.click(".run .why .ref >> nth=0")
        await visited.page.wait_for_url("**/groups/abc")
        await visited.page.fill("#decide-who", "Ben")
        await visited.page.fill("#decide-note", "in the image since today")
        await visited.page.click("text=It is resolved")
        await expect(visited.page.locator("main")).to_contain_text("Ben called it resolved")
        await expect(visited.page.locator(".said")).to_contain_text("in the image since today")
        assert visited.wrong == []


async def test_hostile_words_do_nothing_on_any_page(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        for address in (*PAGES.values(), "/groups/ecc", "/teams?since=all", "/?since=all"):
            await visited.page.goto(site + address)
            assert await visited.page.locator("img, script:not([src])").count() == 0
        assert visited.wrong == []


async def test_nothing_moves_while_a_page_loads(browser: Browser, site: str) -> None:
    async with visit(browser, width=390) as visited:
        for address in PAGES.values():
            await visited.page.goto(site + address)
            shift = await visited.page.evaluate(
                """() => new Promise((resolve) => {
                    let sum = 0;
                    new PerformanceObserver((list) => { for (const entry of list.getEntries()) sum += entry.value; })
                        .observe({type: "layout-shift", buffered: true});
                    requestAnimationFrame(() => requestAnimationFrame(() => resolve(sum)));
                })"""
            )
            assert shift == 0
