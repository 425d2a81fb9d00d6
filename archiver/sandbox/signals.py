"""A broadcast without lost wake-ups: take the ticket, look at the state, then wait for the ticket."""

import asyncio


class Signal:
    """Wakes everybody who waits. Not a queue: who looks late sees the state as it is by then."""

    def __init__(self) -> None:
        self._ticket = asyncio.Event()

    def ticket(self) -> asyncio.Event:
        return self._ticket

    def fire(self) -> None:
        fired, self._ticket = self._ticket, asyncio.Event()
        fired.set()


async def wait_for(ticket: asyncio.Event, seconds: float | None) -> bool:
    """False when the time ran out first."""
    try:
        async with asyncio.timeout(seconds):
            await ticket.wait()
    except TimeoutError:
        return False
    return True
