"""A log for the diagnosis: the whole text, or of a very large one its beginning and its end, with line numbers kept.

Causes are at the end, or at the start; what is between is left out and replaced by as many empty lines, so that a line
that is cited keeps its number.
"""

from collections.abc import AsyncIterator

from archiver.store.reader import LogIndex, LogReader

HEAD_BYTES = 32 << 20
TAIL_BYTES = 96 << 20
_WINDOW_BYTES = 4 << 20


async def read_excerpt(
    reader: LogReader, key: str, *, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES
) -> AsyncIterator[bytes]:
    """Pieces of the text. Nothing where there is no such log."""
    index = await reader.read_index(key)
    if index is None:
        return
    hole = _hole(index, head_bytes, tail_bytes)
    if hole is None:
        async for piece in reader.iter_raw(key):
            yield piece
        return
    first, last = hole
    async for piece in _window(reader, key, 0, index.byte_before(first)):
        yield piece
    left_out = index.line_before(last) - index.line_before(first)
    while left_out > 0:
        yield b"\n" * min(left_out, _WINDOW_BYTES)
        left_out -= _WINDOW_BYTES
    async for piece in _window(reader, key, index.byte_before(last), index.raw_bytes):
        yield piece


def _hole(index: LogIndex, head_bytes: int, tail_bytes: int) -> tuple[int, int] | None:
    """The first frame that is left out, and the first one after those."""
    if index.raw_bytes <= head_bytes + tail_bytes:
        return None
    first = index.frames_of_bytes(head_bytes, 1)[0]
    last = index.frames_of_bytes(index.raw_bytes - tail_bytes, 1)[0]
    return (first, last) if first < last else None


async def _window(reader: LogReader, key: str, start: int, end: int) -> AsyncIterator[bytes]:
    while start < end:
        piece = await reader.read_bytes(key, start, min(_WINDOW_BYTES, end - start))
        if not piece:
            return
        yield piece
        start += len(piece)
