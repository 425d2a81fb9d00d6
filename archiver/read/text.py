"""The text of one artifact by frames, whatever it lies in: a sealed object, the parts of one that grows, a small document.

Where which line and byte lies is arithmetic over the log's index, which ``store.reader`` reads and keeps; here it is
turned into frame numbers, and frames into blocks.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from weakref import WeakKeyDictionary

from archiver.core import keys
from archiver.core.frames import Frame
from archiver.core.lines import UNKNOWN, Block, piece_count
from archiver.core.model import Artifact, ArtifactKind, Gap
from archiver.core.segments import Codec
from archiver.errors import DataError, StoreUnavailable
from archiver.ports import ObjectStore
from archiver.store.codec import ZstdCodec, decompress_all
from archiver.store.parts import RUN_BYTES, Part, Run, read_runs
from archiver.store.reader import LogIndex, LogReader

DOCUMENT_BYTES = 64 * 1024 * 1024
_DOCUMENTS = (ArtifactKind.RAY_RECORD, ArtifactKind.RAY_STATE)


class LogText:
    """Frames in order, over one object or many parts, with running totals of bytes and newlines."""

    def __init__(self, parts: Sequence[Part], *, is_live: bool = False) -> None:
        self.is_live = is_live
        self._parts = tuple(parts)
        self._part_starts = list(accumulate((len(part.table) for part in parts), initial=0))
        raw = _column(parts, "raw_bytes")
        newlines = _column(parts, "newlines")
        self.count = len(raw)
        *self.raw_starts, self.total_bytes = accumulate(raw, initial=0)
        *self.newline_starts, self.newlines = accumulate(newlines, initial=0)
        self.newline_ends = [*self.newline_starts[1:], self.newlines] if self.count else []
        self.last_times = _column(parts, "last_time")
        written = [part.footer for part in parts if part.footer.raw_bytes]
        self.total_lines = self.newlines + (1 if written and not written[-1].ends_line else 0)
        self._newest = max((part.footer for part in parts), key=lambda each: each.state.next_sequence, default=None)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Holes as the stream itself knows them."""
        return self._newest.state.gaps if self._newest else ()

    @property
    def stored_bytes(self) -> int:
        """Of all its objects."""
        return sum(part.size_bytes for part in self._parts)

    @property
    def times(self) -> tuple[int, int]:
        """First and last known time, in nanoseconds, 0 where none is known."""
        return (self._newest.state.first_time, self._newest.state.last_time) if self._newest else (UNKNOWN, UNKNOWN)

    def frame_of_byte(self, offset: int) -> int:
        """The frame that holds a byte."""
        return max(0, bisect_right(self.raw_starts, offset) - 1)

    def frame_of_line(self, line: int) -> int:
        """The frame with the newline before the line: it begins there or right behind."""
        return min(bisect_left(self.newline_ends, line - 1), self.count - 1) if line > 1 else 0

    def frame_to_line(self, line: int) -> int:
        """The frame in which the line ends."""
        return min(bisect_left(self.newline_ends, line), self.count - 1)

    async def runs(
        self, store: ObjectStore, first: int, last: int, *, most_bytes: int = RUN_BYTES
    ) -> AsyncGenerator[tuple[int, Run], None]:
        """Frames ``first`` to ``last`` (inclusive) as they are stored, each run with the number of its first frame."""
        while first <= last:
            place = bisect_right(self._part_starts, first) - 1
            base, end = self._part_starts[place], min(last + 1, self._part_starts[place + 1])
            runs = read_runs(store, self._parts[place], first=first - base, end=end - base, most_bytes=most_bytes)
            try:
                async for run in runs:
                    yield first, run
                    first += len(run.frames)
            except DataError as error:
                if not self.is_live:
                    raise
                raise StoreUnavailable("the log was sealed while it was read: ask again") from error

    async def blocks(self, store: ObjectStore, first: int, last: int) -> AsyncGenerator[tuple[int, Block], None]:
        """Frames ``first`` to ``last`` (inclusive) with their numbers."""
        codec = ZstdCodec()
        async for start, run in self.runs(store, first, last):
            for number, block in enumerate(run.blocks(codec), start):
                yield number, block

    async def block(self, store: ObjectStore, number: int) -> Block:
        """One frame."""
        found = [block async for _, block in self.blocks(store, number, number)]
        return found[0]


class DocumentText(LogText):
    """A small document that is in memory already, as one frame."""

    def __init__(self, text: bytes) -> None:
        super().__init__(())
        self._text = text
        self.count = 1 if text else 0
        self.raw_starts, self.total_bytes = [0] * self.count, len(text)
        self.newlines = text.count(b"\n")
        self.newline_starts, self.newline_ends = [0] * self.count, [self.newlines] * self.count
        self.last_times = [UNKNOWN] * self.count
        self.total_lines = piece_count(text)

    async def runs(
        self, store: ObjectStore, first: int, last: int, *, most_bytes: int = RUN_BYTES
    ) -> AsyncGenerator[tuple[int, Run], None]:
        """The one frame."""
        if first == 0 <= last and self.count:
            yield 0, _Plain(self._text)


class _Plain(Run):
    """Text that is not compressed, and has no times."""

    def __init__(self, text: bytes) -> None:
        super().__init__((Frame(0, len(text), 0, len(text), text.count(b"\n"), 0, UNKNOWN, UNKNOWN),), text, 0)

    def texts(self, codec: Codec) -> Iterator[bytes]:
        """The text."""
        return iter((self.body,))

    def blocks(self, codec: Codec) -> Iterator[Block]:
        """The text, once."""
        return iter((Block(self.body, [UNKNOWN] * piece_count(self.body)),))


@dataclass(frozen=True, slots=True)
class TextPlace:
    """Where a text may lie. ``artifact`` is the manifest's, None for a stream that it does not know yet."""

    prefix: str
    name: str
    artifact: Artifact | None


class TextOpener:
    """Finds a text and its frames. One for all requests: indexes are kept while their logs are in use."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._reader = LogReader(store, ZstdCodec())
        self._texts: WeakKeyDictionary[LogIndex, LogText] = WeakKeyDictionary()

    async def open(self, place: TextPlace) -> LogText | None:
        """The sealed object, else the parts; None where there is neither. Raises DataError."""
        artifact = place.artifact
        if artifact is not None and artifact.kind in _DOCUMENTS:
            return await self._document(artifact)
        known = artifact.key if artifact is not None else ""
        index = await self._index(known or keys.artifact_key(place.prefix, place.name))
        if index is None:
            return None
        if index not in self._texts:
            self._texts[index] = LogText(index.parts, is_live=not index.is_sealed)
        return self._texts[index]

    async def _index(self, key: str) -> LogIndex | None:
        try:
            return await self._reader.read_index(key)
        except DataError:
            # parts vanish when the log is sealed: then the object is there at the second look
            return await self._reader.read_index(key)

    async def _document(self, artifact: Artifact) -> LogText | None:
        body = await self._store.get(artifact.key) if artifact.key else None
        if body is None:
            return None
        return DocumentText(await asyncio.to_thread(decompress_all, body, DOCUMENT_BYTES))


def _column(parts: Sequence[Part], name: str) -> Sequence[int]:
    if len(parts) == 1:
        return parts[0].table.column(name)
    joined: list[int] = []
    for part in parts:
        joined.extend(part.table.column(name))
    return joined
