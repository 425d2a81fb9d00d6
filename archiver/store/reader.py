"""Finds archived logs and where everything of one lies, sealed or not sealed yet; reads bytes. Writes nothing.

Bytes of a known log are one look at the object's head and one range read; the index of a log that is opened for the
first time is one or two reads more. A log that is not sealed is read from its parts. Lines are ``read.logs``'s.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import TypeVar

from archiver.core import keys
from archiver.core.frames import FrameTable
from archiver.core.lines import Block
from archiver.core.segments import Codec, Footer
from archiver.errors import DataError
from archiver.ports import ObjectInfo, ObjectStore
from archiver.store.parts import Part, read_footer, read_frames

CACHE_ENTRIES = 512


class LogIndex:
    """Where everything of one log lies. ``parts`` is one sealed object, or the parts in the order of the source."""

    def __init__(self, parts: list[Part], *, is_sealed: bool) -> None:
        self.parts = parts
        self.is_sealed = is_sealed
        self.frames = [(part, number) for part in range(len(parts)) for number in range(len(parts[part].table))]
        tables = [part.table for part in parts]
        self._raw = list(accumulate(_column(tables, "raw_bytes"), initial=0))
        self._newlines = list(accumulate(_column(tables, "newlines"), initial=0))

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

    def frames_of_bytes(self, start: int, length: int) -> tuple[int, int]:
        """The same for bytes of the text."""
        first = bisect_right(self._raw, start, hi=len(self.frames)) - 1
        return first, min(len(self.frames), bisect_left(self._raw, start + length, lo=first + 1))

    def line_before(self, frame: int) -> int:
        """The number of the line that the frame's first byte belongs to."""
        return self._newlines[frame]

    def byte_before(self, frame: int) -> int:
        """The offset of the frame's first byte in the text."""
        return self._raw[frame]


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


def _column(tables: list[FrameTable], name: str) -> Iterator[int]:
    return chain.from_iterable(table.column(name) for table in tables)


K = TypeVar("K")
V = TypeVar("V")


def _remember(cache: OrderedDict[K, V], key: K, value: V) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > CACHE_ENTRIES:
        cache.popitem(last=False)
