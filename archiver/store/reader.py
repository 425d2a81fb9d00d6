"""Reads archived logs: any window by line, byte or time, sealed or not sealed yet. Writes nothing, holds one window.

A window of a known log is one look at the object's head and one range read; the index of a log that is opened for the
first time is one or two reads more. A log that is not sealed is read from its parts.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import TypeVar

from archiver.core import keys
from archiver.core.frames import FrameTable
from archiver.core.lines import UNKNOWN, Block
from archiver.core.segments import Codec, Footer
from archiver.errors import DataError
from archiver.ports import ObjectInfo, ObjectStore
from archiver.store.parts import Part, read_footer, read_frames

CACHE_ENTRIES = 512
WINDOW_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its newline. ``time`` in nanoseconds, 0 where it is unknown. ``is_cut``: the window ended in it."""

    number: int
    text: bytes
    time: int
    is_cut: bool = False


class LogIndex:
    """Where everything of one log lies. ``parts`` is one sealed object, or the parts in the order of the source."""

    def __init__(self, parts: list[Part], *, is_sealed: bool) -> None:
        self.parts = parts
        self.is_sealed = is_sealed
        self.frames = [(part, number) for part in range(len(parts)) for number in range(len(parts[part].table))]
        tables = [part.table for part in parts]
        self._raw = list(accumulate(_column(tables, "raw_bytes"), initial=0))
        self._newlines = list(accumulate(_column(tables, "newlines"), initial=0))
        self._open_ends = list(_column(tables, "open_end"))
        self._first_times = list(_column(tables, "first_time"))

    @property
    def raw_bytes(self) -> int:
        """Bytes of the text."""
        return self._raw[-1]

    @property
    def lines(self) -> int:
        """Lines of the text, an unfinished last one included."""
        written = [part.footer for part in self.parts if part.footer.raw_bytes]
        return self._newlines[-1] + (1 if written and not written[-1].ends_line else 0)

    @property
    def footer(self) -> Footer | None:
        """The newest word on the stream: its state has gaps, masked secrets and times."""
        return max((part.footer for part in self.parts), key=lambda each: each.state.next_sequence, default=None)

    def frames_of_lines(self, first: int, count: int, limit_bytes: int) -> tuple[int, int]:
        """The frames in which the lines lie: the first and, not included, the last."""
        start = self._frame_of_line(first)
        end = bisect_left(self._newlines, first + count, lo=start)
        most = bisect_left(self._raw, self._raw[start] + limit_bytes, lo=start) + 1
        return start, max(start + 1, min(end, most, len(self.frames)))

    def frames_of_bytes(self, start: int, length: int) -> tuple[int, int]:
        """The same for bytes of the text."""
        first = bisect_right(self._raw, start, hi=len(self.frames)) - 1
        return first, min(len(self.frames), bisect_left(self._raw, start + length, lo=first + 1))

    def frame_of_time(self, time: int) -> int:
        """The last frame that begins before a time. Times of a log rise, nearly."""
        return max(0, bisect_left(self._first_times, time) - 1)

    def line_before(self, frame: int) -> int:
        """The number of the line that the frame's first byte belongs to."""
        return self._newlines[frame]

    def byte_before(self, frame: int) -> int:
        """The offset of the frame's first byte in the text."""
        return self._raw[frame]

    def _frame_of_line(self, line: int) -> int:
        # line n begins after newline n: in the frame that has it, or with the next one where it is the last byte
        frame = bisect_left(self._newlines, line, hi=len(self.frames) - 1)
        begins_here = self._newlines[frame] == line and (frame == 0 or not self._open_ends[frame - 1])
        return frame if begins_here or frame == 0 or self._newlines[frame] < line else frame - 1


class LogReader:
    """Reads by artifact key. Everything answers None where there is neither an object nor a part."""

    def __init__(self, store: ObjectStore, codec: Codec) -> None:
        self._store = store
        self._codec = codec
        self._sealed: OrderedDict[tuple[str, str], LogIndex] = OrderedDict()
        self._parts: OrderedDict[str, Part] = OrderedDict()

    async def read_index(self, key: str) -> LogIndex | None:
        """The log's index, from memory where the object has not changed."""
        info = await self._store.head(key)
        return await self._sealed_index(info) if info else await self._open_index(key)

    async def read_lines(
        self, key: str, first: int, count: int, *, limit_bytes: int = WINDOW_BYTES
    ) -> list[Line] | None:
        """Lines from number ``first`` (from 0) on; fewer where the log ends or ``limit_bytes`` are reached."""
        index = await self.read_index(key)
        if index is None:
            return None
        if first >= index.lines or count <= 0 or not index.frames:
            return []
        frame, end = index.frames_of_lines(first, count, limit_bytes)
        window = _LineWindow(first, count, limit_bytes, index.line_before(frame))
        async for block in self._blocks(index, frame, end):
            window.add(block)
        return window.finish(index.lines)

    async def read_bytes(self, key: str, start: int, length: int) -> bytes | None:
        """Text from byte ``start`` on, at most ``length``; less at the end."""
        index = await self.read_index(key)
        if index is None:
            return None
        if start >= index.raw_bytes or length <= 0:
            return b""
        frame, end = index.frames_of_bytes(start, length)
        pieces = [block.text async for block in self._blocks(index, frame, end)]
        skipped = start - index.byte_before(frame)
        return b"".join(pieces)[skipped : skipped + length]

    async def line_at(self, key: str, time: int) -> int | None:
        """The number of the first line that is not older than a time; the number of lines where all are older."""
        index = await self.read_index(key)
        if index is None or not index.frames:
            return None if index is None else 0
        frame = index.frame_of_time(time)
        for number in range(frame, len(index.frames)):
            async for block in self._blocks(index, number, number + 1):
                found = next((at for at, each in enumerate(block.times) if each != UNKNOWN and each >= time), None)
                if found is not None:
                    return index.line_before(number) + found
        return index.lines

    async def iter_raw(self, key: str) -> AsyncIterator[bytes]:
        """The whole text, frame by frame. Nothing where there is no such log. Raises DataError where it is broken."""
        index = await self.read_index(key)
        if index is not None:
            async for block in self._blocks(index, 0, len(index.frames)):
                yield block.text

    async def _blocks(self, index: LogIndex, first: int, end: int) -> AsyncIterator[Block]:
        """Frames in order, a run of them by one read where they lie in one object."""
        for part, run in groupby(index.frames[first:end], key=itemgetter(0)):
            numbers = [number for _, number in run]
            frames = read_frames(self._store, index.parts[part], self._codec, first=numbers[0], end=numbers[-1] + 1)
            async for block in frames:
                yield block

    async def _sealed_index(self, info: ObjectInfo) -> LogIndex:
        known = self._sealed.get((info.key, info.etag))
        if known is None:
            found = await read_footer(self._store, info.key, self._codec)
            if found is None:
                raise DataError(f"{info.key} vanished while it was read")
            known = LogIndex([Part(info.key, info.size_bytes, *found)], is_sealed=True)
            _remember(self._sealed, (info.key, info.etag), known)
        return known

    async def _open_index(self, key: str) -> LogIndex | None:
        prefix = keys.parts_prefix_of(key)
        if prefix is None:
            return None
        infos = [info async for info in self._store.list(prefix) if keys.part_sequence(info.key) is not None]
        parts = [await self._part(info) for info in infos]
        parts.sort(key=lambda part: (part.footer.source.start, part.footer.sequence))
        return LogIndex(parts, is_sealed=False) if parts else None

    async def _part(self, info: ObjectInfo) -> Part:
        part = self._parts.get(info.key)
        if part is None or part.size_bytes != info.size_bytes:
            found = await read_footer(self._store, info.key, self._codec)
            if found is None:
                raise DataError(f"{info.key} vanished while it was read: it is being sealed, read again")
            part = Part(info.key, info.size_bytes, *found)
            _remember(self._parts, info.key, part)
        return part


class _LineWindow:
    """Gathers lines from frames. ``number`` is the line that the first byte added belongs to."""

    def __init__(self, first: int, count: int, limit_bytes: int, number: int) -> None:
        self._first, self._end, self._room = first, first + count, limit_bytes
        self._number = number
        self._lines: list[Line] = []
        self._pieces: list[bytes] = []  # of the line that is not complete yet
        self._time = UNKNOWN
        self._is_cut = False

    def add(self, block: Block) -> None:
        """A frame's text and times."""
        pieces = block.text.split(b"\n")
        rest = pieces.pop()
        for piece, time in zip(pieces, block.times, strict=False):
            self._take(piece, time)
            self._close()
            if self._number >= self._end:
                return
        if rest:
            self._take(rest, block.times[-1])

    def finish(self, lines: int) -> list[Line]:
        """The window; its last line is cut where the frames that were read end before it does."""
        if self._pieces:
            self._is_cut = self._is_cut or self._number + 1 < lines
            self._close()
        return self._lines

    def _take(self, piece: bytes, time: int) -> None:
        if not self._first <= self._number < self._end or (self._room <= 0 and not self._pieces):
            return
        self._time = self._time if self._pieces else time
        self._is_cut = self._is_cut or len(piece) > self._room
        self._pieces.append(piece[: max(0, self._room)])
        self._room -= len(piece)

    def _close(self) -> None:
        if self._pieces:
            self._lines.append(Line(self._number, b"".join(self._pieces), self._time, self._is_cut))
        self._pieces, self._is_cut = [], False
        self._number += 1


def _column(tables: list[FrameTable], name: str) -> Iterator[int]:
    return chain.from_iterable(table.column(name) for table in tables)


K = TypeVar("K")
V = TypeVar("V")


def _remember(cache: OrderedDict[K, V], key: K, value: V) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > CACHE_ENTRIES:
        cache.popitem(last=False)
