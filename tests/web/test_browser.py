"""Pages in a real Chromium: nothing goes wrong, nobody is shut out, and every view is kept as a picture."""

import pytest
from playwright.async_api import Browser, expect

from tests.web.browser import ARTIFACTS, visit

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

JOB = "/jobs/uid-llama-ft-7b"
LOG = f"{JOB}/attempts/3/logs/logs/driver.log"
PAGES = {
    "failures": "/",
    "all": "/?status=all&team=language&namespace=ml-a",
    "nothing": "/?team=nobody",
    "job": JOB,
    "job-attempt-1": f"{JOB}/attempts/1",
    "job-without-verdict": "/jobs/uid-hostile-team",
    "job-running": "/jobs/uid-ranker-train",
    "job-lost": "/jobs/uid-gone-too-fast",
    "log-beginning": f"{LOG}?from=1&times=1",
    "log-line": f"{LOG}?line=1812&wrap=1#L1812",
    "log-nothing": f"{JOB}/attempts/3/logs/logs/worker-gpu-0.log",
    "health": "/health",
    "not-found": "/jobs/none",
}
# the log's two thousand rows are judged once; the picture of its end is of the same rows
_WHOLE = {"job", "job-without-verdict", "job-running", "job-lost", "health"}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", PAGES)
async def test_a_page_is_whole_in_both_themes_at_both_widths(
    browser: Browser, site: str, name: str, width: int, theme: str
) -> None:
    async with visit(browser, width=width, theme=theme) as visited:
        await visited.page.goto(site + PAGES[name])
        ARTIFACTS.mkdir(exist_ok=True)
        picture = ARTIFACTS / f"{name}-{width}-{theme}.png"
        await visited.page.screenshot(path=picture, full_page=name in _WHOLE)
        expected = ["Failed to load resource: the server responded with a status of 404 (Not Found)"]
        assert visited.wrong == (expected if name == "not-found" else [])
        assert await visited.overflow() <= 0
        assert await visited.axe() == []


async def test_everything_that_can_be_focused_shows_it(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        for address in ("/", JOB, f"{LOG}?from=1"):
            await visited.page.goto(site + address)
            unseen = []
            for _ in range(40):
                await visited.page.keyboard.press("Tab")
                unseen += await visited.page.evaluate(
                    """() => {
                        const at = document.activeElement;
                        if (at === document.body) return [];
                        const around = at.closest(".run") ?? at;
                        const seen = [at, around].some((each) => getComputedStyle(each).outlineStyle !== "none");
                        return seen ? [] : [at.outerHTML.slice(0, 120)];
                    }"""
                )
            assert unseen == []


async def test_a_click_on_a_line_number_is_the_address_of_the_line(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        await visited.page.goto(f"{site}{LOG}?from=1&wrap=1")
        await visited.page.click("#L12 .n")
        assert visited.page.url == f"{site}{LOG}?line=12&wrap=1#L12"
        await visited.page.click("#L15 .n", modifiers=["Shift"])
        assert visited.page.url == f"{site}{LOG}?line=12&wrap=1#L12-L15"
        await visited.page.reload()
        assert await visited.page.locator("li.is-selected").count() == 4


async def test_an_anchor_outside_the_loaded_part_loads_its_part(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        await visited.page.goto(f"{site}{LOG}#L5-L9")
        await visited.page.wait_for_url(f"{site}{LOG}?line=5#L5-L9")
        await expect(visited.page.locator("li.is-selected")).to_have_count(5)
        await expect(visited.page.locator("#L5")).to_be_in_viewport()


async def test_copied_text_has_no_line_numbers(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        await visited.page.goto(f"{site}{LOG}?from=1&times=1")
        await visited.page.focus(".log")
        await visited.page.evaluate(
            """() => {
                const range = document.createRange();
                range.setStart(document.getElementById("L8"), 0);
                range.setEndAfter(document.getElementById("L10").lastChild);
                getSelection().removeAllRanges();
                getSelection().addRange(range);
            }"""
        )
        await visited.page.keyboard.press("Control+c")
        copied = await visited.page.evaluate("navigator.clipboard.readText()")
        assert [line.split(" ")[0] for line in copied.strip().splitlines()] == ["step=7", "step=8", "step=9"]


async def test_keys_move_through_a_log(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        await visited.page.goto(f"{site}{LOG}?line=700#L700")
        for key in "jjk":
            await visited.page.keyboard.press(key)
        assert visited.page.url.endswith("#L701")
        await visited.page.keyboard.press("w")
        await visited.page.wait_for_url("**wrap=1**")
        await visited.page.keyboard.press("G")
        await visited.page.wait_for_url(f"{site}{LOG}?wrap=1")
        await visited.page.keyboard.press("?")
        await expect(visited.page.locator("dialog.keys")).to_be_visible()
        assert await visited.axe() == []


async def test_a_log_opens_where_it_ends(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        await visited.page.goto(site + LOG)
        await expect(visited.page.locator("#L1813")).to_be_in_viewport()


async def test_a_chosen_theme_stands_before_the_first_paint_of_the_next_page(browser: Browser, site: str) -> None:
    async with visit(browser, theme="light") as visited:
        await visited.page.goto(site)
        await visited.page.click("[data-theme-switch]")
        dark = await visited.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        await visited.page.add_init_script(
            """addEventListener("readystatechange", () => {
                if (!document.body) return;
                window.firstGround ??= getComputedStyle(document.documentElement).backgroundColor;
            }, true)"""
        )
        await visited.page.goto(site + JOB)
        assert await visited.page.evaluate("window.firstGround") == dark == "rgb(20, 22, 26)"
        await visited.page.click("[data-theme-switch]")
        assert await visited.page.evaluate("document.documentElement.dataset.theme") == "light"


async def test_a_command_can_be_copied(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        await visited.page.goto(site + JOB)
        await visited.page.click(".commands button >> nth=0")
        copied = await visited.page.evaluate("navigator.clipboard.readText()")
        assert copied == "archiver show uid-llama-ft-7b --attempt 3"


async def test_slash_goes_to_the_search(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        await visited.page.goto(site)
        await visited.page.keyboard.press("/")
        await visited.page.keyboard.type("llama")
        await visited.page.keyboard.press("Enter")
        await visited.page.wait_for_url(f"{site}/?q=llama&status=all&since=all")
        await expect(visited.page.locator(".runs > li")).to_have_count(1)


async def test_the_way_from_the_list_to_the_line_needs_no_script(browser: Browser, site: str) -> None:
    async with visit(browser, script=False) as visited:
        await visited.page.goto(site)
        await expect(visited.page.locator(".facets a").first).to_be_visible()
        await expect(visited.page.locator("[data-theme-switch]")).to_be_hidden()
        await visited.page.click(".run .name >> nth=0")
        await visited.page.wait_for_url(f"**{JOB}")
        await visited.page.click(".cited .place >> nth=0")
        await visited.page.wait_for_url(f"**{LOG}?line=1812#L1812")
        await expect(visited.page.locator("#L1812")).to_be_in_viewport()
        await visited.page.fill("#to-line", "3")
        await visited.page.click("text=Go")
        await expect(visited.page.locator("#L3.is-focus")).to_be_visible()
        assert visited.wrong == []


async def test_hostile_text_does_nothing(browser: Browser, site: str) -> None:
    async with visit(browser) as visited:
        dialogs: list[str] = []
        visited.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        for address in (f"{LOG}?from=1", "/jobs/uid-hostile-team", "/?team=%3Cscript%3Ealert(1)%3C/script%3E"):
            await visited.page.goto(site + address)
            assert await visited.page.locator("img, script:not([src])").count() == 0
        assert dialogs == []
        assert visited.wrong == []


async def test_nothing_moves_while_a_page_loads(browser: Browser, site: str) -> None:
    async with visit(browser, width=390) as visited:
        for address in ("/", JOB, f"{LOG}?from=1"):
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
