"""Windows and byte ranges of a log, in bounded memory. Which frames are needed is arithmetic; then they are read.

Line n begins behind newline n-1. A frame may begin inside a line, and a line may fill many frames.
"""

from bisect import bisect_left
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from archiver.core.lines import UNKNOWN, Block, to_ns
from archiver.ports import ObjectStore
from archiver.read.text import LogText
from archiver.read.views import LogLine
from archiver.read.windows import MAX_BYTES, MAX_LINES, Around, AtByte, AtTime, ByteRange, Lines, Tail, Window

EXCERPT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Plan:
    """Lines to read, both inclusive; ``focus`` is what was asked for, ``is_bounded`` where more was."""

    first: int
    last: int
    focus: int | None = None
    is_bounded: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A range of the text's bytes, ``end`` not included."""

    start: int
    end: int
    is_satisfiable: bool = True


async def plan(store: ObjectStore, text: LogText, window: Window) -> Plan:
    """Turns any way of asking into lines. Reads at most one frame."""
    total = text.total_lines
    match window:
        case Lines(first, last):
            return _bounded(text, Plan(max(1, first), min(last, total)), anchor=max(1, first))
        case Around(line, context):
            focus = min(max(1, line), max(1, total))
            wanted = Plan(max(1, focus - context), min(total, focus + context), focus)
            return _bounded(text, wanted, anchor=focus)
        case AtByte(offset, count):
            line = await _line_of_byte(store, text, offset)
            return _bounded(text, Plan(line, min(total, line + count - 1), line), anchor=line)
        case AtTime(time, count):
            found = await _line_of_time(store, text, to_ns(time))
            return _tail(text, count) if found is None else _bounded(text, Plan(found, found + count - 1, found), found)
        case Tail(count):
            return _tail(text, count)


async def read_lines(store: ObjectStore, text: LogText, wanted: Plan) -> tuple[tuple[LogLine, ...], bool]:
    """The lines, and whether they had to end before ``wanted.last``. At most MAX_BYTES of text, but for one line's end."""
    if wanted.last < wanted.first or not text.count:
        return (), False
    gathered = _Gathered(wanted)
    blocks = text.blocks(store, text.frame_of_line(wanted.first), text.frame_to_line(wanted.last))
    async with aclosing(blocks):
        async for number, block in blocks:
            if not gathered.take(block, line=text.newline_starts[number] + 1, offset=text.raw_starts[number]):
                break
    return gathered.lines(), gathered.is_bounded


def resolve(byte_range: ByteRange | None, total: int) -> Span:
    """As RFC 9110 has it: a range that begins behind the end, or an empty suffix, cannot be satisfied."""
    if byte_range is None:
        return Span(0, total)
    if byte_range.suffix is not None:
        return Span(max(0, total - byte_range.suffix), total, byte_range.suffix > 0 and total > 0)
    start = byte_range.start or 0
    end = total if byte_range.end is None else min(total, byte_range.end + 1)
    return Span(start, max(start, end), start < total)


async def read_span(store: ObjectStore, text: LogText, span: Span) -> AsyncGenerator[bytes, None]:
    """The bytes, a frame at a time."""
    if span.end <= span.start or not span.is_satisfiable:
        return
    first, last = text.frame_of_byte(span.start), text.frame_of_byte(span.end - 1)
    async for number, block in text.blocks(store, first, last):
        base = text.raw_starts[number]
        yield block.text[max(0, span.start - base) : span.end - base]


class _Gathered:
    """Puts lines together from blocks, and stops at the bounds."""

    def __init__(self, wanted: Plan) -> None:
        self._wanted = wanted
        self._done: list[LogLine] = []
        self._pieces: list[bytes] = []  # of the line that is not at its end yet
        self._open = LogLine(0, 0, b"")
        self._is_cut = False
        self._bytes = 0
        self.is_bounded = False

    def take(self, block: Block, *, line: int, offset: int) -> bool:
        """One block, which begins in ``line`` at byte ``offset`` of the text. False: nothing more is wanted."""
        pieces = block.text.split(b"\n")
        for index, piece in enumerate(pieces):
            number, is_last = line + index, index == len(pieces) - 1
            if number > self._wanted.last:
                return False
            if number >= self._wanted.first and (piece or not is_last):
                time = block.times[index] if index < len(block.times) else UNKNOWN
                if not self._add(LogLine(number, offset, piece, time or None)):
                    return False
            if number >= self._wanted.first and not is_last:
                self._close()
            offset += len(piece) + 1
        return True

    def lines(self) -> tuple[LogLine, ...]:
        self._close()
        return tuple(self._done)

    def _add(self, piece: LogLine) -> bool:
        if self._open.number != piece.number:
            if self._bytes + len(piece.data) > MAX_BYTES and self._done:
                self.is_bounded = True
                return False
            self._open, self._pieces = piece, []
        room = MAX_BYTES - self._bytes
        self._pieces.append(piece.data[:room])
        self._bytes += min(room, len(piece.data))
        if len(piece.data) <= room:
            return True
        self._is_cut = self.is_bounded = True
        return False

    def _close(self) -> None:
        if not self._open.number:
            return
        opened, data = self._open, b"".join(self._pieces)
        self._done.append(LogLine(opened.number, opened.offset_bytes, data, opened.time_ns, self._is_cut))
        self._open, self._pieces = LogLine(0, 0, b""), []


def _bounded(text: LogText, wanted: Plan, anchor: int) -> Plan:
    """At most MAX_LINES, and so few lines before the anchor that their bytes leave room for it."""
    last = min(wanted.last, text.total_lines)
    first = max(wanted.first, _line_within(text, anchor, MAX_BYTES // 2)) if anchor > wanted.first else wanted.first
    first = max(first, anchor - MAX_LINES // 2) if anchor > first else first
    kept = min(last, first + MAX_LINES - 1)
    return Plan(first, kept, wanted.focus, first > wanted.first or kept < last)


def _tail(text: LogText, count: int) -> Plan:
    total = text.total_lines
    asked = max(1, total - count + 1)
    first = max(asked, total - MAX_LINES + 1, _line_within(text, total, MAX_BYTES - 256 * 1024))
    return Plan(first, total, None, first > asked)


def _line_within(text: LogText, line: int, budget_bytes: int) -> int:
    """The first line from which on the text up to the end of ``line`` surely fits the budget; at most ``line``."""
    if not text.count:
        return line
    end_frame = text.frame_to_line(line)
    end = text.raw_starts[end_frame + 1] if end_frame + 1 < text.count else text.total_bytes
    frame = bisect_left(text.raw_starts, end - budget_bytes)
    if frame == 0:
        return 1
    # the line that is open where this frame begins has its start in an earlier one
    return line if frame >= text.count else min(line, text.newline_starts[frame] + 2)


async def _line_of_byte(store: ObjectStore, text: LogText, offset: int) -> int:
    if not text.count:
        return 1
    offset = min(max(0, offset), text.total_bytes - 1)
    frame = text.frame_of_byte(offset)
    block = await text.block(store, frame)
    return text.newline_starts[frame] + 1 + block.text.count(b"\n", 0, offset - text.raw_starts[frame])


async def _line_of_time(store: ObjectStore, text: LogText, time_ns: int) -> int | None:
    frame = next((number for number, last in enumerate(text.last_times) if last >= time_ns and last != UNKNOWN), None)
    if frame is None:
        return None
    times = (await text.block(store, frame)).times
    piece = next((index for index, time in enumerate(times) if time >= time_ns and time != UNKNOWN), None)
    return None if piece is None else text.newline_starts[frame] + 1 + piece
