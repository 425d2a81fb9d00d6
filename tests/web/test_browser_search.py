"""Searching many logs in a real Chromium: what it will read, results as they come, cancel, and all of it without script."""

import pytest
from playwright.async_api import Browser, expect

from tests.web.browser import ARTIFACTS, Visit, visit

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
PAGES = {"search": "/search", "search-found": "/search?q=Error&team=language", "search-nothing": "/search?q=nowhere"}


def wrong(visited: Visit) -> list[str]:
    """What went wrong; that a page has closed its stream is no failure."""
    return [each for each in visited.wrong if "/stream?" not in each and "/tail?" not in each]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", PAGES)
async def test_the_search_page_is_whole_in_both_themes_at_both_widths(
    browser: Browser, site: str, name: str, width: int, theme: str
) -> None:
    async with visit(browser, width=width, theme=theme) as visited:
        await visited.page.goto(site + PAGES[name])
        ARTIFACTS.mkdir(exist_ok=True)
        await visited.page.screenshot(path=ARTIFACTS / f"{name}-{width}-{theme}.png")
        assert await visited.overflow() <= 0
        assert await visited.axe() == []
        assert wrong(visited) == []


async def test_a_search_says_what_it_reads_and_leads_to_the_line(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        await visited.page.goto(f"{site}/search")
        await expect(visited.page.locator("main")).to_contain_text("1.2 GiB in")
        await visited.page.fill("input[name=q] >> nth=-1", "modulenotfound")
        await visited.page.keyboard.press("Enter")
        await expect(visited.page.locator(".found-log").first).to_contain_text("No module named 'flash_attn'")
        await expect(visited.page.locator(".found-log mark").first).to_have_text("ModuleNotFound")
        await visited.page.click(".found-log li a >> nth=0")
        await visited.page.wait_for_url("**/logs/logs/driver.log?line=1812&q=modulenotfound**")
        await expect(visited.page.locator("#L1812")).to_be_in_viewport()
        assert wrong(visited) == []


async def test_the_rest_of_the_results_comes_by_itself(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        await visited.page.goto(f"{site}/search?q=ModuleNotFound")
        await expect(visited.page.locator(".found-log")).to_have_count(2, timeout=60_000)
        await expect(visited.page.locator("#progress")).to_contain_text("found", timeout=60_000)
        await expect(visited.page.locator("#cancel")).to_be_hidden()


async def test_without_script_a_search_goes_on_by_a_link(browser: Browser, site: str) -> None:
    async with visit(browser, script=False) as visited:
        await visited.page.goto(f"{site}/search?q=ModuleNotFound&since=7d")
        first = await visited.page.locator(".found-log h2 a").first.text_content()
        await visited.page.click("text=Go on")
        await visited.page.wait_for_url("**page_token=1**")
        assert await visited.page.locator(".found-log h2 a").first.text_content() != first
        await visited.page.click("text=Go on")
        await expect(visited.page.locator("#progress")).to_contain_text("That is all")


async def test_hostile_lines_stay_text(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        await visited.page.goto(f"{site}/search?q=%3Cscript%3E")
        await expect(visited.page.locator(".found-log mark").first).to_have_text("<script>")
        assert await visited.page.locator("img, script:not([src])").count() == 0
        assert wrong(visited) == []
