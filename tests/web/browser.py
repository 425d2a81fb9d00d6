"""A real Chromium for tests of pages: found or complained about, started without any service of its own."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Request, async_playwright

ARTIFACTS = Path(__file__).parents[2] / "test-artifacts"
_AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
_FLAGS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync"
    " --no-first-run"
)


def executable() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        found = shutil.which(name)
        if found:
            return found
    pytest.fail("no Chromium on this machine: install the package chromium (apt-get install chromium)")


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    path = executable()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=_FLAGS.split())
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Visit:
    """One page in its own browser context, with everything that went wrong in it."""

    page: Page
    wrong: list[str] = field(default_factory=list)

    async def axe(self) -> list[str]:
        """What axe-core finds, one sentence a violation; evaluated from outside, so that the page's policy stands."""
        await self.page.evaluate(_AXE)
        found = await self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [_sentence(violation) for violation in found["violations"]]

    async def overflow(self) -> int:
        """Pixels that the page is wider than its window."""
        return int(
            await self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        )


def _sentence(violation: dict[str, Any]) -> str:
    places = [str(node["target"]) + " " + node.get("failureSummary", "")[:300] for node in violation["nodes"][:3]]
    return f"{violation['id']}: {violation['help']} at {places}"


def _note_failed(visited: Visit, request: Request) -> None:
    """What the browser gives up because the page moves on has not failed."""
    if request.failure != "net::ERR_ABORTED":
        visited.wrong.append(f"{request.url} failed: {request.failure}")


@asynccontextmanager
async def visit(
    browser: Browser, *, width: int = 1440, theme: str = "light", script: bool = True
) -> AsyncIterator[Visit]:
    height = 900 if width > 700 else 844
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
        java_script_enabled=script,
        permissions=["clipboard-read", "clipboard-write"],
    )
    context.set_default_timeout(15_000)
    visited = Visit(await context.new_page())
    visited.page.on("console", lambda message: visited.wrong.append(message.text) if message.type != "log" else None)
    visited.page.on("pageerror", lambda error: visited.wrong.append(str(error)))
    visited.page.on("requestfailed", lambda request: _note_failed(visited, request))
    try:
        yield visited
    finally:
        await context.close()
