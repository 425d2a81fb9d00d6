"""What the browser tests share: one Chromium and one site with the sample failures, for each file."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.web.browser import chromium
from tests.web.sample_reader import SampleReader
from tests.web.serving import application, serving


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of the pages, with what `samples.py` has archived. A file may serve its own instead."""
    with serving(application(SampleReader())) as address:
        yield address


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started
