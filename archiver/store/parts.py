"""The parts of a stream and its sealed object, as they lie in the store. Reads footers and bodies; writes nothing."""

from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace

from archiver.core import keys
from archiver.core.frames import Frame, FrameTable
from archiver.core.lines import Block
from archiver.core.segments import Codec, Footer, StreamState, decode_footer, decode_frame, decode_text, footer_bytes
from archiver.errors import DataError
from archiver.ports import ObjectStore
from archiver.store.spool import StreamId

_TAIL_BYTES = 64 * 1024
RUN_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Part:
    """One object with frames: a part, or a sealed object. ``size_bytes`` is the whole object's."""

    key: str
    size_bytes: int
    footer: Footer
    table: FrameTable

    @classmethod
    def of(cls, stream: StreamId, size_bytes: int, footer: Footer, table: FrameTable) -> "Part":
        """A part that this process has made."""
        return cls(keys.part_key(stream.prefix, stream.name, footer.sequence), size_bytes, footer, table)


async def read_footer(store: ObjectStore, key: str, codec: Codec) -> tuple[Footer, FrameTable] | None:
    """Footer and frames by one or two reads at the object's end; None where there is no object. Raises DataError."""
    tail = await store.get(key, start=-_TAIL_BYTES)
    if tail is None:
        return None
    size = footer_bytes(tail)
    if size > len(tail):
        tail = await store.get(key, start=-size)
        if tail is None:
            return None
    return decode_footer(tail, codec)


async def read_part(store: ObjectStore, key: str, codec: Codec) -> Part | None:
    """A part or sealed object with its size, which the frame table and the footer add up to."""
    info = await store.head(key)
    found = await read_footer(store, key, codec) if info else None
    return Part(key, info.size_bytes, *found) if info and found else None


async def list_parts(store: ObjectStore, stream: StreamId) -> dict[int, str]:
    """Keys of a stream's parts by their number, in order."""
    prefix = keys.parts_prefix(stream.prefix, stream.name)
    found = [(keys.part_sequence(info.key), info.key) async for info in store.list(prefix)]
    return {sequence: key for sequence, key in found if sequence is not None}


async def unsealed_names(store: ObjectStore, prefix: str) -> list[str]:
    """Names of an attempt's streams that have parts in the store."""
    root = keys.all_parts_prefix(prefix)
    names = {keys.part_name(prefix, info.key): None async for info in store.list(root)}
    return [name for name in names if name is not None]


async def stored_state(store: ObjectStore, stream: StreamId, codec: Codec) -> StreamState | None:
    """How far the store has a stream: its newest part or its sealed object, whichever went further.

    A part that cannot be read counts as not there, but its number is taken: what it had is read from the source again.
    """
    parts = await list_parts(store, stream)
    sealed = await _state_of(store, keys.artifact_key(stream.prefix, stream.name), codec)
    newest = max(parts, default=-1)
    for number in sorted(parts, reverse=True):
        state = await _state_of(store, parts[number], codec)
        if state is not None:
            break
    else:
        state = None
    states = [each for each in (state, sealed) if each is not None]
    if not states:
        return StreamState(next_sequence=newest + 1) if parts else None
    furthest = max(states, key=lambda each: each.next_sequence)
    return replace(furthest, next_sequence=max(furthest.next_sequence, newest + 1))


async def _state_of(store: ObjectStore, key: str, codec: Codec) -> StreamState | None:
    """What an object's footer says; None where there is no object, or none that can be read."""
    try:
        found = await read_footer(store, key, codec)
    except DataError:
        return None
    return found[0].state if found else None


@dataclass(frozen=True, slots=True)
class Run:
    """Frames that lie one behind the other, as bytes that begin ``base`` into their object. Not decompressed yet."""

    frames: tuple[Frame, ...]
    body: bytes
    base: int

    def texts(self, codec: Codec) -> Iterator[bytes]:
        """The text of each frame. Raises DataError."""
        return (decode_text(self.body, frame, codec, base=self.base) for frame in self.frames)

    def blocks(self, codec: Codec) -> Iterator[Block]:
        """Text and times of each frame. Raises DataError."""
        return (decode_frame(self.body, frame, codec, base=self.base) for frame in self.frames)


async def read_runs(
    store: ObjectStore, part: Part, *, first: int = 0, end: int | None = None, most_bytes: int = RUN_BYTES
) -> AsyncIterator[Run]:
    """Some frames, by reads of at most ``most_bytes`` of stored bytes, or of one frame. Raises DataError."""
    stop = len(part.table) if end is None else end
    while first < stop:
        frames = _run_of(part.table, first, stop, most_bytes)
        start, length = frames[0].offset, frames[-1].end - frames[0].offset
        body = await store.get(part.key, start=start, length=length)
        if body is None or len(body) != length:
            raise DataError(f"{part.key} is not there any more, or shorter than its index says")
        yield Run(frames, body, start)
        first += len(frames)


def _run_of(table: FrameTable, first: int, stop: int, most_bytes: int) -> tuple[Frame, ...]:
    start = table[first].offset
    last = bisect_right(table.column("offset"), start + most_bytes, lo=first + 1, hi=stop)
    while last > first + 1 and table[last - 1].end - start > most_bytes:
        last -= 1
    return tuple(table[number] for number in range(first, last))


async def read_frames(
    store: ObjectStore, part: Part, codec: Codec, *, first: int = 0, end: int | None = None
) -> AsyncIterator[Block]:
    """Text and times of some frames. Raises DataError."""
    async for run in read_runs(store, part, first=first, end=end):
        for block in run.blocks(codec):
            yield block


async def readable_text(store: ObjectStore, stream: StreamId, codec: Codec, *, limit_bytes: int) -> bytes:
    """What can still be read of a stream some of whose objects are damaged, in the order of writing."""
    parts = await list_parts(store, stream)
    pieces: list[bytes] = []
    for key in [keys.artifact_key(stream.prefix, stream.name), *parts.values()]:
        try:
            part = await read_part(store, key, codec)
            if part is not None and sum(map(len, pieces)) < limit_bytes:
                pieces += [block.text async for block in read_frames(store, part, codec)]
        except DataError:
            continue
    return b"".join(pieces)
