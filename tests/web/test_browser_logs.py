"""The log viewer in a real Chromium: finding, jumping, folding, merging, times; each also without script."""

import pytest
from playwright.async_api import Browser, expect

from tests.web.browser import ARTIFACTS, chromium, visit

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

LOG = "/jobs/uid-llama-ft-7b/attempts/3/logs/logs/driver.log"
PAGES = {
    "log-search": f"{LOG}?line=126&q=loss%3D2.8&times=1#L126",
    "log-folded": f"{LOG}?line=1812#L1812",
    "log-merged": f"{LOG}?line=1800&with=logs/head-ray-head.log&times=1#L1800",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", PAGES)
async def test_a_view_of_a_log_is_whole_in_both_themes_at_both_widths(
    browser: Browser, site: str, name: str, width: int, theme: str
) -> None:
    async with visit(browser, width=width, theme=theme) as visited:
        await visited.page.goto(site + PAGES[name])
        ARTIFACTS.mkdir(exist_ok=True)
        await visited.page.screenshot(path=ARTIFACTS / f"{name}-{width}-{theme}.png")
        assert visited.wrong == []
        assert await visited.overflow() <= 0
        assert await visited.axe() == []


@pytest.mark.parametrize("script", [True, False])
async def test_a_text_is_found_in_the_whole_log_and_jumped_to(browser: Browser, site: str, script: bool) -> None:
    async with visit(browser, script=script) as visited:
        await visited.page.goto(site + LOG)
        await visited.page.fill("#find", "STEP=77")
        await visited.page.press("#find", "Enter")
        await visited.page.wait_for_url(f"{site}{LOG}?line=78&q=STEP%3D77#L78")
        await expect(visited.page.locator("#matches-at")).to_have_text("11 matches")
        await expect(visited.page.locator("#L78 mark")).to_have_text("step=77")
        await expect(visited.page.locator("#L78")).to_be_in_viewport()
        await visited.page.click("text=next match")
        await expect(visited.page.locator("#L770.is-focus, #L770.is-selected")).to_be_in_viewport()
        await visited.page.click("text=previous >> nth=1")
        await expect(visited.page.locator("#L78.is-focus, #L78.is-selected")).to_be_in_viewport()
        assert visited.wrong == []


async def test_keys_find_jump_and_fold(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        await visited.page.goto(f"{site}{LOG}?from=1")
        await visited.page.keyboard.press("/")
        await visited.page.keyboard.type("step=99")
        await visited.page.keyboard.press("Enter")
        await visited.page.wait_for_url("**line=100&q=**")
        await visited.page.keyboard.press("n")
        await visited.page.wait_for_url("**line=990&q=**")
        await visited.page.keyboard.press("N")
        await visited.page.wait_for_url("**line=100&q=**")
        await visited.page.keyboard.press("e")
        await visited.page.wait_for_url("**line=1805&q=**")
        await visited.page.keyboard.press("e")
        await visited.page.wait_for_url("**line=1812&q=**")
        await visited.page.keyboard.press("E")
        await visited.page.wait_for_url("**line=1805&q=**")
        await visited.page.keyboard.press("f")
        await visited.page.wait_for_url("**unfolded=1**")
        await expect(visited.page.locator(".fold")).to_have_count(0)
        assert visited.wrong == []


@pytest.mark.parametrize("script", [True, False])
async def test_quiet_runs_are_folded_and_open_in_place(browser: Browser, site: str, script: bool) -> None:
    async with visit(browser, script=script) as visited:
        await visited.page.goto(f"{site}{LOG}?line=1812#L1812")
        fold = visited.page.locator(".fold summary")
        await expect(fold).to_have_text("468 lines")
        await expect(visited.page.locator("#L1500")).to_be_hidden()
        await fold.click()
        await expect(visited.page.locator("#L1500")).to_be_visible()


async def test_an_address_of_a_folded_line_opens_its_fold(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        await visited.page.goto(f"{site}{LOG}?line=1812#L1500-L1502")
        await expect(visited.page.locator("#L1500")).to_be_in_viewport()
        await expect(visited.page.locator("li.is-selected")).to_have_count(3)


async def test_a_progress_bar_opens_to_its_earlier_states(browser: Browser, site: str) -> None:
    async with visit(browser, script=False) as visited:
        await visited.page.goto(f"{site}{LOG}?from=1")
        states = visited.page.locator("#L3 .states")
        await expect(states.locator("li").first).to_be_hidden()
        await states.locator("summary").click()
        await expect(states.locator("li")).to_have_count(20)
        await expect(states.locator("li").first).to_be_visible()


async def test_logs_are_read_together_by_time(browser: Browser, site: str) -> None:
    async with visit(browser, script=False) as visited:
        await visited.page.goto(f"{site}{LOG}?line=1800")
        await visited.page.click("text=read together with other logs")
        await visited.page.check("input[value='logs/head-ray-head.log']")
        await visited.page.click(".sources button")
        await visited.page.wait_for_url("**with=logs%2Fhead-ray-head.log**")
        assert await visited.page.locator(".from-1 .src").first.text_content() == "head-ray-head"
        own, other = (visited.page.locator(f".log li.{css} .n") for css in ("is-focus", "from-1"))
        assert await own.count() == 1
        assert await other.count() > 100
        assert "/logs/logs/head-ray-head.log?line=" in (await other.first.get_attribute("href") or "")


async def test_times_are_the_readers_own_with_utc_in_the_title(site: str) -> None:
    async with chromium() as started:
        context = await started.new_context(timezone_id="Asia/Kolkata")
        page = await context.new_page()
        await page.goto(f"{site}{LOG}?from=1&times=1")
        shown, utc = (
            await page.locator("#L1 time").text_content(),
            await page.locator("#L1 time").get_attribute("title"),
        )
        assert shown
        assert utc
        minutes = [int(text[:2]) * 60 + int(text[3:5]) for text in (shown, utc[11:])]
        assert (minutes[0] - minutes[1]) % 1440 == 330
        assert shown[6:] == utc[17:23]
        await context.close()


async def test_the_strip_shows_errors_and_matches_and_leads_to_them(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        await visited.page.goto(f"{site}{LOG}?line=126&q=step%3D77#L126")
        assert await visited.page.locator("#strip rect.error").count() == 2
        assert await visited.page.locator("#strip rect.match").count() == 11
        await visited.page.locator("#strip a:has(rect.error)").first.click(force=True)
        await visited.page.wait_for_url("**line=1805**")


async def test_what_cannot_be_searched_for_is_said_in_words(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        answer = await visited.page.goto(f"{site}{LOG}?q=%28&regex=1")
        assert answer is not None
        assert answer.status == 400
        await expect(visited.page.locator("main")).to_contain_text("no regular expression")
        await visited.page.goto(f"{site}{LOG}?q=nowhere&seek=first-match")
        await expect(visited.page.locator(".notice")).to_have_text("There is no match.")
