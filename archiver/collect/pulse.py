"""Wakes whoever waits when something about an attempt has changed. No queue: a beat says "look again", nothing more."""

import asyncio
from contextlib import suppress


class Pulse:
    """Any number of tasks wait for the next beat or their own deadline."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def beat(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, timeout_seconds: float) -> None:
        """Returns at the next beat, or after the timeout."""
        event = self._event
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await event.wait()
