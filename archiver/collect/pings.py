"""Asks what the watcher stands on, every few seconds, whether it answers: so that readiness says so before a write fails.

Each is asked by itself, so that one that hangs hides no other. Nothing is ended and nothing is retried here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from archiver.errors import ArchiverError

EVERY_SECONDS = 2.0
ANSWER_SECONDS = 3.0
Ask = Callable[[], Awaitable[object]]


class Pings:
    """``asks`` by what is asked, as a sentence's subject (``the object store``). ``run`` asks for ever."""

    def __init__(self, asks: Mapping[str, Ask]) -> None:
        self._asks = dict(asks)
        self._failing: dict[str, str] = {}

    async def run(self) -> None:
        """Never returns by itself."""
        async with asyncio.TaskGroup() as group:
            for subject, ask in self._asks.items():
                group.create_task(self._keep_asking(subject, ask), name=f"ping {subject}")

    def is_failing(self, subject: str) -> bool:
        """Whether it did not answer when last asked."""
        return subject in self._failing

    def problems(self) -> list[str]:
        """A sentence for each that did not answer."""
        return [f"{subject} does not answer: {why}" for subject, why in sorted(self._failing.items())]

    async def _keep_asking(self, subject: str, ask: Ask) -> None:
        while True:
            why = await _failure(ask)
            if why is None:
                self._failing.pop(subject, None)
            else:
                self._failing[subject] = why
            await asyncio.sleep(EVERY_SECONDS)


async def _failure(ask: Ask) -> str | None:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await ask()
    except TimeoutError:
        return f"no answer within {ANSWER_SECONDS:g} s"
    except ArchiverError as error:
        return str(error)
    return None
