"""The format of archived logs: parts of independent frames, and the sealed object that is made of them. No compressor.

A *part* is a row of standard zstd frames (64 to 256 KiB of text each), each followed by a skippable frame with the times
of its pieces; at its end a skippable frame holds the footer: JSON, the frame table and a trailer of fixed size, so that
it is found by reading the last bytes. The *sealed* object is the concatenation of its parts and one more such footer,
over all of them. Skippable frames are part of the zstd format: ``zstd -d`` gives exactly the text.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol
from zlib import crc32

from archiver.core import records
from archiver.core.frames import Frame, FrameTable, pack, time_span, unpack
from archiver.core.lines import UNKNOWN, Block, piece_count
from archiver.core.model import Gap
from archiver.core.resume import Checkpoint
from archiver.errors import DataError

FRAME_BYTES = 256 * 1024
_SHORT_FRAME_BYTES = 64 * 1024
_HEADER = struct.Struct("<II")
_TIMES_MAGIC = 0x184D2A5A
_FOOTER_MAGIC = 0x184D2A5B
# lengths of the JSON and of the table, a checksum of both, the version of this format, a mark
_TRAILER = struct.Struct("<IIII8s")
_MARK = b"RJAINDEX"
_VERSION = 1
TRAILER_BYTES = _TRAILER.size


class Codec(Protocol):
    """A compressor of zstd frames."""

    def compress(self, raw: bytes) -> bytes: ...

    def decompress(self, frame: bytes, raw_bytes: int) -> bytes:
        """Raises DataError for what is broken or longer than said."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source bytes, ``end`` not included."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class StreamState:
    """All that a writer must know to go on with a stream: stands in every footer, totals since the beginning.

    ``spans`` are the source bytes that are stored, in order and merged; ``held`` says that masking is inside a key.
    """

    next_sequence: int = 0
    raw_bytes: int = 0
    newlines: int = 0
    ends_line: bool = True
    source_bytes: int = 0
    first_time: int = UNKNOWN
    last_time: int = UNKNOWN
    spans: tuple[Span, ...] = ()
    gaps: tuple[Gap, ...] = ()
    masked: Mapping[str, int] = field(default_factory=dict)
    in_key: bool = False
    checkpoint: Checkpoint = field(default_factory=Checkpoint)

    @property
    def lines(self) -> int:
        """Lines of the text so far; the last one counts though it may have no newline."""
        return self.newlines + (0 if self.ends_line else 1)


@dataclass(frozen=True, slots=True)
class Footer:
    """What a part or a sealed object says of itself. ``state`` is the stream's after it; ``source`` what it covers.

    ``sha256`` is of its text; ``writer`` tells two processes' parts apart.
    """

    sequence: int
    writer: str
    raw_bytes: int
    newlines: int
    ends_line: bool
    sha256: str
    source: Span
    state: StreamState
    is_sealed: bool = False


class PartBuilder:
    """Collects text into frames. ``finish`` gives the part and starts the next one."""

    _ends_line: bool

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._start()

    @property
    def raw_bytes(self) -> int:
        """Text in the part so far."""
        return self._raw_bytes

    @property
    def ends_line(self) -> bool:
        """The text so far ends with a newline, or there is none."""
        return self._ends_line

    def add(self, block: Block) -> None:
        """Takes text in. A block that begins inside a line begins with a piece of it."""
        if not block.text:
            return
        self._pending.append(block.text)
        # the first piece goes on with the last one: one piece, one time
        self._times.extend(block.times if self._ends_line or not self._pending_bytes else block.times[1:])
        self._pending_bytes += len(block.text)
        self._raw_bytes += len(block.text)
        self._ends_line = block.text.endswith(b"\n")
        if self._pending_bytes >= FRAME_BYTES:
            self._cut_frames()

    def finish(
        self, *, sequence: int, writer: str, source: Span, state: StreamState
    ) -> tuple[bytes, Footer, FrameTable]:
        """The part's bytes, its footer and its frames."""
        text = b"".join(self._pending)
        if text:
            self._write_frame(text, self._times)
        footer = Footer(
            sequence=sequence,
            writer=writer,
            raw_bytes=self._raw_bytes,
            newlines=self._newlines,
            ends_line=self._ends_line,
            sha256=self._hash.hexdigest(),
            source=source,
            state=state,
        )
        table = self._table
        body = b"".join([*self._stored, encode_footer(footer, table, self._codec)])
        self._start()
        return body, footer, table

    def _start(self) -> None:
        self._stored: list[bytes] = []
        self._offset = 0
        self._table = FrameTable()
        self._hash = sha256()
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._times: list[int] = []
        self._raw_bytes = 0
        self._newlines = 0
        self._ends_line = True

    def _cut_frames(self) -> None:
        text = b"".join(self._pending)
        times, start = self._times, 0
        while len(text) - start >= FRAME_BYTES:
            end = text.rfind(b"\n", start + _SHORT_FRAME_BYTES, start + FRAME_BYTES) + 1 or start + FRAME_BYTES
            piece = text[start:end]
            count = piece_count(piece)
            self._write_frame(piece, times[:count])
            times = times[count if piece.endswith(b"\n") or end == len(text) else count - 1 :]
            start = end
        self._pending = [text[start:]] if start < len(text) else []
        self._pending_bytes = len(text) - start
        self._times = times

    def _write_frame(self, text: bytes, times: Sequence[int]) -> None:
        stored = self._codec.compress(text)
        beside = skippable(_TIMES_MAGIC, self._codec.compress(pack(times)))
        is_open = 0 if text.endswith(b"\n") else 1
        newlines = len(times) - is_open
        first, last = time_span(times)
        self._table.append(Frame(self._offset, len(stored), len(beside), len(text), newlines, is_open, first, last))
        self._stored += (stored, beside)
        self._offset += len(stored) + len(beside)
        self._newlines += newlines
        self._hash.update(text)


def skippable(magic: int, payload: bytes) -> bytes:
    """A frame that every zstd decoder passes over."""
    return _HEADER.pack(magic, len(payload)) + payload


def encode_footer(footer: Footer, table: FrameTable, codec: Codec) -> bytes:
    """The last skippable frame of a part or a sealed object."""
    text = json.dumps(records.to_value(footer), separators=(",", ":")).encode()
    columns = codec.compress(table.to_bytes())
    trailer = _TRAILER.pack(len(text), len(columns), crc32(columns, crc32(text)), _VERSION, _MARK)
    return skippable(_FOOTER_MAGIC, text + columns + trailer)


def footer_bytes(tail: bytes) -> int:
    """How many bytes the footer takes at the end, by the last ``TRAILER_BYTES`` or more. Raises DataError."""
    if len(tail) < TRAILER_BYTES:
        raise DataError("the object is too short to have an index at its end")
    text_bytes, columns_bytes, _crc, version, mark = _TRAILER.unpack(tail[-TRAILER_BYTES:])
    if mark != _MARK or version != _VERSION:
        raise DataError("the object does not end with an index that this version knows")
    return int(text_bytes + columns_bytes + TRAILER_BYTES + _HEADER.size)


def decode_footer(tail: bytes, codec: Codec) -> tuple[Footer, FrameTable]:
    """Footer and frames out of the last bytes (at least ``footer_bytes`` of them). Raises DataError."""
    size = footer_bytes(tail)
    if len(tail) < size:
        raise DataError("the index at the object's end is cut")
    text_bytes, columns_bytes, crc, _version, _mark = _TRAILER.unpack(tail[-TRAILER_BYTES:])
    start = len(tail) - size + _HEADER.size
    text, columns = tail[start : start + text_bytes], tail[start + text_bytes : start + text_bytes + columns_bytes]
    if crc32(columns, crc32(text)) != crc:
        raise DataError("the index at the object's end has a wrong checksum")
    footer: Footer = records.from_value(Footer, json.loads(text))
    return footer, FrameTable.from_bytes(codec.decompress(columns, 1 << 30))


def decode_frame(body: bytes, frame: Frame, codec: Codec, *, base: int = 0) -> Block:
    """One frame's text and times out of bytes that begin ``base`` into the object. Raises DataError."""
    text, start = decode_text(body, frame, codec, base=base), frame.offset - base
    beside = body[start + frame.stored_bytes : start + frame.stored_bytes + frame.times_bytes]
    if len(beside) != frame.times_bytes or len(beside) < _HEADER.size:
        raise DataError("a frame is shorter than the index says")
    times = unpack(codec.decompress(beside[_HEADER.size :], 8 * (frame.raw_bytes + 1)))
    if len(times) != piece_count(text):
        raise DataError("a frame's times do not fit its lines")
    return Block(text, times)


def decode_text(body: bytes, frame: Frame, codec: Codec, *, base: int = 0) -> bytes:
    """One frame's text alone: what a search reads. Raises DataError."""
    start = frame.offset - base
    text = codec.decompress(body[start : start + frame.stored_bytes], frame.raw_bytes)
    if len(text) != frame.raw_bytes:
        raise DataError("a frame is shorter than the index says")
    return text


def add_span(spans: Sequence[Span], new: Span) -> tuple[Span, ...]:
    """Stored ranges with one more, merged where they touch."""
    if new.end <= new.start:
        return tuple(spans)
    merged: list[Span] = []
    for span in sorted([*spans, new], key=lambda each: each.start):
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return tuple(merged)


def missing_spans(spans: Sequence[Span], size_bytes: int) -> tuple[Span, ...]:
    """What is not stored of a source of that size."""
    edges = [0, *(edge for span in spans for edge in (span.start, span.end)), size_bytes]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return tuple(Span(start, min(end, size_bytes)) for start, end in pairs if start < min(end, size_bytes))
