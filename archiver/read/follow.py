"""Following a log as it grows: what all who watch the same log share, and the lines behind a place, each once.

There is no task of its own: who waits looks again after a while, and one look serves all who wait for it. What was
read for one is kept for the others until the log has grown. A slow viewer asks for less often, and holds up nobody.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from archiver.core.model import Gap
from archiver.errors import ArchiverError
from archiver.ports import ObjectStore
from archiver.read import logs
from archiver.read.text import LogText
from archiver.read.views import ArtifactView, LogLine

LOOK_SECONDS = 0.5
QUIET_SECONDS = 10.0
STEP_LINES = 1_000
OPEN_BYTES = 16 * 1024
_KEPT_WINDOWS = 4

Look = Callable[[], Awaitable[tuple[ArtifactView, LogText] | None]]


@dataclass(frozen=True, slots=True)
class TailPart:
    """Lines that became complete, with the gaps among them. ``open_line`` is what stands behind them without an end yet.

    A part with nothing in it says that the log is still watched. ``is_last``: it will not grow any more.
    """

    artifact: ArtifactView
    lines: tuple[LogLine, ...] = ()
    gaps: tuple[Gap, ...] = ()
    open_line: LogLine | None = None
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """A log at one moment. ``whole_lines`` have their end, or never get one."""

    artifact: ArtifactView
    text: LogText
    whole_lines: int


class Watched:
    """One log that somebody follows. ``look`` finds it anew."""

    def __init__(self, store: ObjectStore, look: Look, *, look_seconds: float) -> None:
        self._store = store
        self._look = look
        self._look_seconds = look_seconds
        self._looking = asyncio.Lock()
        self._reading = asyncio.Lock()
        self._looked_at = float("-inf")
        self._state: State | None = None
        self._windows: dict[tuple[int, int], tuple[LogLine, ...]] = {}
        self.looks = self.reads = 0

    async def state(self) -> State | None:
        """The log as it was a moment ago. What only passes by (a store that does not answer) changes nothing."""
        async with self._looking:
            if time.monotonic() - self._looked_at >= self._look_seconds:
                await self._refresh()
                self._looked_at = time.monotonic()
            return self._state

    async def lines(self, state: State, first: int, last: int) -> tuple[LogLine, ...]:
        """Lines, read once for all who want the same."""
        async with self._reading:
            known = self._windows.get((first, last))
            if known is None:
                known, _ = await logs.read_lines(self._store, state.text, logs.Plan(first, last))
                self.reads += 1
                self._windows[(first, last)] = known
                while len(self._windows) > _KEPT_WINDOWS:
                    self._windows.pop(next(iter(self._windows)))
            return known

    async def _refresh(self) -> None:
        self.looks += 1
        try:
            found = await self._look()
        except ArchiverError as error:
            if not error.retryable or self._state is None:
                raise
            return
        if found is None:
            return
        artifact, text = found
        whole = text.newlines if artifact.live else text.total_lines
        if self._state is None or (text.total_bytes, artifact.live) != _size(self._state):
            self._windows.clear()
            self._state = State(artifact, text, whole)


class Followers:
    """The logs that are followed now, by where they lie."""

    def __init__(self, store: ObjectStore, *, look_seconds: float = LOOK_SECONDS) -> None:
        self._store = store
        self._look_seconds = look_seconds
        self._watched: WeakValueDictionary[tuple[str, str], Watched] = WeakValueDictionary()

    async def follow(
        self, log: tuple[str, str], look: Look, after: int | None
    ) -> AsyncGenerator[TailPart, None] | None:
        """What stands behind line ``after`` (None: the last STEP_LINES) and what comes. None: there is no such log."""
        watched = self._watched.get(log) or Watched(self._store, look, look_seconds=self._look_seconds)
        self._watched[log] = watched
        state = await watched.state()
        if state is None:
            return None
        start = max(0, state.whole_lines - STEP_LINES) if after is None else after
        return self._parts(watched, state, start)

    async def _parts(self, watched: Watched, state: State, after: int) -> AsyncGenerator[TailPart, None]:
        told_open, quiet_since = b"", time.monotonic()
        while True:
            while after < state.whole_lines:
                lines = await self._lines(watched, state, after + 1, min(state.whole_lines, after + STEP_LINES))
                if not lines:
                    break
                yield TailPart(state.artifact, lines, _gaps(state.artifact, after, lines[-1].number))
                after, told_open, quiet_since = lines[-1].number, b"", time.monotonic()
            if not state.artifact.live and after >= state.whole_lines:
                yield TailPart(state.artifact, is_last=True)
                return
            opened = await self._open_line(watched, state)
            if opened is not None and opened.data != told_open:
                yield TailPart(state.artifact, open_line=opened)
                told_open, quiet_since = opened.data, time.monotonic()
            elif time.monotonic() - quiet_since >= QUIET_SECONDS:
                yield TailPart(state.artifact)
                quiet_since = time.monotonic()
            await asyncio.sleep(self._look_seconds)
            state = await watched.state() or state

    async def _lines(self, watched: Watched, state: State, first: int, last: int) -> tuple[LogLine, ...]:
        """None where the log is being sealed at this moment, or the store is away: the next look knows more."""
        try:
            return await watched.lines(state, first, last)
        except ArchiverError as error:
            if not error.retryable:
                raise
            return ()

    async def _open_line(self, watched: Watched, state: State) -> LogLine | None:
        if state.text.total_lines == state.whole_lines:
            return None
        found = await self._lines(watched, state, state.text.total_lines, state.text.total_lines)
        if not found or len(found[0].data) <= OPEN_BYTES:
            return found[0] if found else None
        line = found[0]
        return LogLine(line.number, line.offset_bytes, line.data[-OPEN_BYTES:], line.time_ns, cut=True)


def _size(state: State) -> tuple[int, bool]:
    return state.text.total_bytes, state.artifact.live


def _gaps(artifact: ArtifactView, after: int, last: int) -> tuple[Gap, ...]:
    """Holes among these lines and right before them; one that the last part had at its end is not told again."""
    return tuple(gap for gap in artifact.gaps if after < gap.at_line <= last or (gap.at_line == after == 0))
