"""The parts of a stream and its sealed object, as they lie in the store. Reads footers and bodies; writes nothing."""

from dataclasses import dataclass

from archiver.core import keys
from archiver.core.frames import FrameTable
from archiver.core.segments import Codec, Footer, StreamState, decode_footer, footer_bytes
from archiver.errors import DataError
from archiver.ports import ObjectStore
from archiver.store.spool import StreamId

_TAIL_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Part:
    """One object with frames: a part, or a sealed object. ``size_bytes`` is the whole object's."""

    key: str
    size_bytes: int
    footer: Footer
    table: FrameTable


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


def check(part: Part) -> Part:
    """The object is as long as its index says. Raises DataError."""
    frames_end = max((frame.end for frame in part.table), default=0)
    if frames_end > part.size_bytes:
        raise DataError(f"{part.key} is shorter than its index says")
    return part
