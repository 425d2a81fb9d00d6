"""Bytes of a log to blocks of text and times, incrementally and in bounded memory. Not their meaning.

A *piece* of a block is what lies between newlines. A line that is longer than ``OPEN_BYTES`` comes in several blocks,
each with a piece of it; only the first begins the line, and every piece carries the line's time. The line count of a
text is its number of newlines, plus one where the last line has none.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

OPEN_BYTES = 128 * 1024
SECOND = 1_000_000_000
UNKNOWN = 0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STAMP_BYTES = 30  # what the kubelet prints: 2024-01-02T03:04:05.123456789Z
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_SHAPE = b"0000-00-00T00:00:00.000000000Z "
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)(?: |$)")


@dataclass(frozen=True, slots=True)
class Block:
    """Some text and the time of each of its pieces, in nanoseconds since the epoch (0: unknown)."""

    text: bytes
    times: Sequence[int]

    @property
    def newlines(self) -> int:
        """Newlines of the text, by the number of its pieces."""
        return len(self.times) - (1 if self.text and not self.text.endswith(b"\n") else 0)


def piece_count(text: bytes) -> int:
    """How many times a block of this text has."""
    return text.count(b"\n") + (1 if text and not text.endswith(b"\n") else 0)


def arrived(text: bytes, at_ns: int) -> Block:
    """A block of a source that has no times of its own: the moment when it was read."""
    return Block(text, [at_ns] * piece_count(text))


def to_ns(moment: datetime) -> int:
    """Nanoseconds since the epoch, without a float on the way."""
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * SECOND + delta.microseconds * 1000


def to_time(ns: int) -> datetime | None:
    """A datetime in UTC, cut to microseconds; None for unknown and for what no calendar holds."""
    if ns == UNKNOWN:
        return None
    try:
        return datetime.fromtimestamp(ns // SECOND, UTC).replace(microsecond=ns % SECOND // 1000)
    except (ValueError, OverflowError, OSError):
        return None


def in_pieces(block: Block, most_bytes: int) -> Iterator[Block]:
    """Large blocks bit by bit, so that masking and framing work on what a cache holds."""
    text, times = block.text, block.times
    if len(text) <= most_bytes:
        yield block
        return
    start = first = 0
    while start < len(text):
        end = min(len(text), start + most_bytes)
        end = text.rfind(b"\n", start, end) + 1 or end
        piece = text[start:end]
        count = piece.count(b"\n") + (0 if piece.endswith(b"\n") else 1)
        yield Block(piece, times[first : first + count])
        first += count if piece.endswith(b"\n") else count - 1
        start = end


class TimedParser:
    """Parses what the log endpoint sends with ``timestamps=true``.

    The stamp is taken off; a line without one keeps its whole text and gets the time of the line before. ``feed`` holds
    the unfinished last line back until its end, ``OPEN_BYTES`` of it, or ``flush`` (the source has ended).
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._is_open = False  # the line's first piece has been given out already
        self._time = UNKNOWN
        self._seconds = _Seconds()

    def feed(self, chunk: bytes) -> Block | None:
        """What became complete by this chunk."""
        self._held.append(chunk)
        self._held_bytes += len(chunk)
        if b"\n" not in chunk and self._held_bytes < OPEN_BYTES:
            return None
        text = b"".join(self._held)
        end = text.rfind(b"\n") + 1
        if len(text) - end >= OPEN_BYTES:
            end = len(text)
        self._hold(text[end:])
        return self._parse(text[:end])

    def flush(self) -> Block | None:
        """The last line, which has no newline."""
        text = b"".join(self._held)
        self._hold(b"")
        block = self._parse(text) if text else None
        self._is_open = False
        return block

    def _hold(self, rest: bytes) -> None:
        self._held = [rest] if rest else []
        self._held_bytes = len(rest)

    def _parse(self, text: bytes) -> Block | None:
        start = 0
        times: list[int] = []
        if self._is_open:
            # the rest of a long line: no stamp in front of it
            start = text.find(b"\n") + 1 or len(text)
            times.append(self._time)
        lines = text[start:].split(b"\n")
        is_ended = not lines[-1]
        if is_ended:
            lines.pop()
        self._is_open = not is_ended if lines else not text.endswith(b"\n")
        bodies = self._strip(lines, times)
        body = text[:start] + b"\n".join(bodies) + (b"\n" if lines and is_ended else b"")
        return Block(body, times) if body else None

    def _strip(self, lines: list[bytes], times: list[int]) -> list[bytes]:
        stamps = b"".join([line[: _STAMP_BYTES + 1] for line in lines])
        if stamps.translate(_DIGITS) != _SHAPE * len(lines):
            return [self._strip_one(line, times) for line in lines]
        seconds = self._seconds
        try:
            known = [seconds[line[:19]] + int(line[20:29]) for line in lines]
        except ValueError:  # the shape of a date, and no date: 2024-13-45
            return [self._strip_one(line, times) for line in lines]
        if known:
            self._time = known[-1]
        times.extend(known)
        return [line[_STAMP_BYTES + 1 :] for line in lines]

    def _strip_one(self, line: bytes, times: list[int]) -> bytes:
        found = _STAMP.match(line)
        stamp = self._stamp_ns(found) if found else None
        if found is None or stamp is None:
            times.append(self._time)
            return line
        self._time = stamp
        times.append(stamp)
        return line[found.end() :]

    def _stamp_ns(self, found: re.Match[bytes]) -> int | None:
        second, fraction, zone = found.groups()
        try:
            base = self._seconds[second]
        except ValueError:
            return None
        ns = base + int((fraction or b"").ljust(9, b"0"))
        return ns - _zone_seconds(zone) * SECOND


class _Seconds(dict[bytes, int]):
    """``2024-01-02T03:04:05`` to nanoseconds. Lines come in order: a few entries answer nearly all of them."""

    def __missing__(self, text: bytes) -> int:
        if len(self) > 1000:
            self.clear()
        ns = to_ns(datetime.fromisoformat(text.decode()).replace(tzinfo=UTC))
        self[text] = ns
        return ns


def _zone_seconds(zone: bytes) -> int:
    if zone == b"Z":
        return 0
    seconds = int(zone[1:3]) * 3600 + int(zone[4:6]) * 60
    return -seconds if zone.startswith(b"-") else seconds
