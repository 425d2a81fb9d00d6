"""The parts of a stream and its sealed object, as they lie in the store. Reads footers and bodies; writes nothing."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from archiver.core import keys
from archiver.core.frames import FrameTable
from archiver.core.lines import Block
from archiver.core.segments import Codec, Footer, StreamState, decode_footer, decode_frame, footer_bytes
from archiver.errors import DataError
from archiver.ports import ObjectStore
from archiver.store.spool import StreamId

_TAIL_BYTES = 64 * 1024
_RUN_BYTES = 8 * 1024 * 1024


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
    """How far the store has a stream: its newest part or its sealed object, whichever went further."""
    parts = await list_parts(store, stream)
    newest = parts[max(parts)] if parts else None
    sealed = keys.artifact_key(stream.prefix, stream.name)
    found = [await read_footer(store, key, codec) for key in (newest, sealed) if key]
    states = [footer.state for footer, _ in (each for each in found if each)]
    return max(states, key=lambda state: state.next_sequence, default=None)


async def read_frames(
    store: ObjectStore, part: Part, codec: Codec, *, first: int = 0, end: int | None = None
) -> AsyncIterator[Block]:
    """Text and times of some frames, each run of at most ``_RUN_BYTES`` by one read. Raises DataError."""
    frames = [part.table[number] for number in range(first, len(part.table) if end is None else end)]
    while frames:
        start = frames[0].offset
        count = sum(1 for frame in frames if frame.end - start <= _RUN_BYTES) or 1
        length = frames[count - 1].end - start
        body = await store.get(part.key, start=start, length=length)
        if body is None or len(body) != length:
            raise DataError(f"{part.key} is not there any more, or shorter than its index says")
        for frame in frames[:count]:
            yield decode_frame(body, frame, codec, base=start)
        frames = frames[count:]
