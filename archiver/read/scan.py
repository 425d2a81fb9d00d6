"""Walks through a log, however long, and gives the lines that match: step by step, forwards or back, a few at a time.

One ``Scans`` for all requests: it has few lanes, and a scan takes one for each step anew, so that many scans share the
cores evenly and everything else keeps some. A scan that nobody waits for any more ends with its step.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from archiver.core.search import Hit, LineSearch, Pattern, matcher
from archiver.ports import ObjectStore
from archiver.read.text import LogText
from archiver.store.codec import ZstdCodec
from archiver.store.parts import Run

STEP_BYTES = 1024 * 1024  # stored; four to ten times as much text
_BACK_FRAMES = 16


@dataclass(frozen=True, slots=True)
class Step:
    """What one step found. All lines up to ``to_line`` have been searched; ``text_bytes`` were read for it."""

    hits: tuple[Hit, ...]
    to_line: int
    text_bytes: int


@dataclass(frozen=True, slots=True)
class Budget:
    """Where a scan stops to ask whether it shall go on. It always makes one step."""

    seconds: float
    text_bytes: int = 1 << 62


class Allowance:
    """A budget on its way to the end."""

    def __init__(self, budget: Budget) -> None:
        self._until = time.monotonic() + budget.seconds
        self._left = budget.text_bytes

    def take(self, text_bytes: int) -> bool:
        """Whether there is something left after these bytes."""
        self._left -= text_bytes
        return self._left > 0 and time.monotonic() < self._until


class Scans:
    """Searches through texts in the background. ``lanes`` steps run at a time."""

    def __init__(self, store: ObjectStore, lanes: int | None = None) -> None:
        self._store = store
        self._lanes = asyncio.Semaphore(lanes or max(1, (os.cpu_count() or 2) // 2))

    async def forward(
        self, text: LogText, pattern: Pattern, first: int = 1, last: int | None = None
    ) -> AsyncGenerator[Step, None]:
        """The lines ``first`` to ``last`` (inclusive), in order. Raises UserError for a pattern that is none."""
        wanted = await asyncio.to_thread(matcher, pattern)
        last = min(text.total_lines, last or text.total_lines)
        if last < first or not text.count:
            return
        start = text.frame_of_line(first)
        search = LineSearch(wanted, line=text.newline_starts[start] + 1, offset=text.raw_starts[start])
        end, codec = text.frame_to_line(last), ZstdCodec()
        async with aclosing(text.runs(self._store, start, end, most_bytes=STEP_BYTES)) as runs:
            async for number, run in runs:
                is_last = number + len(run.frames) > end
                async with self._lanes:
                    hits = await asyncio.to_thread(_search, search, run, codec, is_last=is_last)
                kept = tuple(hit for hit in hits if first <= hit.number <= last)
                done = last if is_last else min(last, search.line - 1)
                yield Step(kept, max(first - 1, done), sum(frame.raw_bytes for frame in run.frames))

    async def backward(self, text: LogText, pattern: Pattern, before: int) -> AsyncGenerator[Step, None]:
        """The lines before ``before``, in stretches from there to the beginning; ``to_line`` is a stretch's first."""
        before = min(before, text.total_lines + 1)
        while before > 1:
            frame = max(0, text.frame_of_line(before) - _BACK_FRAMES)
            first = min(before - 1, text.newline_starts[frame] + 1) if frame else 1
            hits: list[Hit] = []
            text_bytes = 0
            async with aclosing(self.forward(text, pattern, first, before - 1)) as steps:
                async for step in steps:
                    hits.extend(step.hits)
                    text_bytes += step.text_bytes
            yield Step(tuple(reversed(hits)), first, text_bytes)
            before = first


def _search(search: LineSearch, run: Run, codec: ZstdCodec, *, is_last: bool) -> list[Hit]:
    hits = [hit for text in run.texts(codec) for hit in search.feed(text)]
    return hits + search.flush() if is_last else hits
