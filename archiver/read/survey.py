"""Where a pattern is found in a whole log, learnt bit by bit and kept: for the strip beside a log, counts and jumps."""

import asyncio
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from contextlib import aclosing

from archiver.core.search import Pattern
from archiver.read.found import CELLS, Cell, Marks
from archiver.read.scan import Allowance, Budget, Scans, Step
from archiver.read.text import LogText

MOST_LINES = 20_000
_KEPT = 256


class Survey:
    """One pattern in one log as it is now. Goes on where it stopped; two who ask at once share the work."""

    def __init__(self, text: LogText, pattern: Pattern) -> None:
        self._text = text
        self._pattern = pattern
        self._lock = asyncio.Lock()
        self._counts = array("q", [0] * CELLS)
        self._firsts = array("q", [0] * CELLS)
        self._lines = array("q")
        self.count = self.to_line = self._scanned_bytes = 0

    async def advance(self, scans: Scans, budget: Budget) -> None:
        """Searches further, as long as the budget lasts."""
        async with self._lock:
            if self.to_line >= self._text.total_lines:
                return
            allowance = Allowance(budget)
            async with aclosing(scans.forward(self._text, self._pattern, self.to_line + 1)) as steps:
                async for step in steps:
                    self._take(step)
                    if not allowance.take(step.text_bytes):
                        return

    def marks(self) -> Marks:
        """What is known."""
        cells = tuple(
            Cell(place, self._counts[place], self._firsts[place]) for place in range(CELLS) if self._counts[place]
        )
        total = self._text.total_lines
        scanned = min(self._scanned_bytes, self._text.total_bytes)
        return Marks(self._pattern, self.count, self.to_line, total, scanned, self._text.total_bytes, cells)

    def neighbour(self, line: int, *, is_backward: bool) -> tuple[int | None, bool]:
        """The nearest known hit on one side of a line, and whether there can be no nearer one or other one."""
        known_to = self.to_line if self.count <= MOST_LINES else (self._lines[-1] if self._lines else 0)
        if is_backward:
            place = bisect_left(self._lines, line)
            is_known = line <= known_to + 1
            return (self._lines[place - 1] if place and is_known else None), is_known
        place = bisect_right(self._lines, line)
        if place < len(self._lines):
            return self._lines[place], True
        return None, known_to >= self._text.total_lines

    def _take(self, step: Step) -> None:
        total = self._text.total_lines
        for hit in step.hits:
            place = (hit.number - 1) * CELLS // total
            self._counts[place] += 1
            self._firsts[place] = self._firsts[place] or hit.number
        room = MOST_LINES - len(self._lines)
        self._lines.extend(hit.number for hit in step.hits[:room])
        self.count += len(step.hits)
        self.to_line = step.to_line
        self._scanned_bytes += step.text_bytes


class Surveys:
    """The surveys of late, of all logs."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int, str, Pattern], Survey] = OrderedDict()

    def of(self, log: tuple[str, str], text: LogText, pattern: Pattern) -> Survey:
        """``log`` is its attempt's place in the bucket and its name; one that has grown begins anew."""
        key = (log[0], text.total_bytes, log[1], pattern)
        survey = self._kept.setdefault(key, Survey(text, pattern))
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return survey
