"""The table of a compressed log's frames: where each lies, what text and which times it holds. Not the bytes themselves."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import sub

from archiver.core.lines import UNKNOWN
from archiver.errors import DataError

# In this order on disk. ``offset`` and ``stored_bytes`` are of the text frame, which a skippable frame of
# ``times_bytes`` follows; the times are the first and the newest known one, in nanoseconds; ``open_end`` is 1 where the
# frame ends inside a line.
COLUMNS = ("offset", "stored_bytes", "times_bytes", "raw_bytes", "newlines", "open_end", "first_time", "last_time")
_WIDTH = 8


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame. ``offset`` counts from the beginning of the part or object."""

    offset: int
    stored_bytes: int
    times_bytes: int
    raw_bytes: int
    newlines: int
    open_end: int
    first_time: int
    last_time: int

    @property
    def end(self) -> int:
        """Where the frame and its times end."""
        return self.offset + self.stored_bytes + self.times_bytes


class FrameTable:
    """Many frames in columns: a log of 10 GB has 40,000 of them, 64 bytes each."""

    __slots__ = ("_columns",)

    def __init__(self, columns: "Sequence[array[int]] | None" = None) -> None:
        self._columns = tuple(columns) if columns else tuple(array("q") for _ in COLUMNS)

    def __len__(self) -> int:
        return len(self._columns[0])

    def __getitem__(self, number: int) -> Frame:
        return Frame(*(column[number] for column in self._columns))

    def __iter__(self) -> Iterator[Frame]:
        return (Frame(*row) for row in zip(*self._columns, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrameTable) and self._columns == other._columns

    __hash__ = None  # type: ignore[assignment]

    def append(self, frame: Frame) -> None:
        """One more at the end."""
        for column, name in zip(self._columns, COLUMNS, strict=True):
            column.append(getattr(frame, name))

    def extend(self, other: "FrameTable", *, shift: int) -> None:
        """The frames of a part that begins ``shift`` bytes into the object."""
        self._columns[0].extend([offset + shift for offset in other._columns[0]])
        for mine, theirs in zip(self._columns[1:], other._columns[1:], strict=True):
            mine.extend(theirs)

    def column(self, name: str) -> "array[int]":
        """All values of a column."""
        return self._columns[COLUMNS.index(name)]

    def to_bytes(self) -> bytes:
        """All columns, made easy to compress."""
        return b"".join(pack(column) for column in self._columns)

    @classmethod
    def from_bytes(cls, body: bytes) -> "FrameTable":
        """The inverse. Raises DataError."""
        size, odd = divmod(len(body), len(COLUMNS))
        if odd or size % _WIDTH:
            raise DataError("the frame table has a wrong length")
        return cls([unpack(body[start : start + size]) for start in range(0, len(body), size)] if size else None)


def pack(numbers: Sequence[int]) -> bytes:
    """Differences, then all first bytes, all second bytes and so on: a compressor finds the zeros."""
    raw = array("q", [*numbers[:1], *map(sub, numbers[1:], numbers)]).tobytes()
    return b"".join(raw[byte::_WIDTH] for byte in range(_WIDTH))


def unpack(body: bytes) -> "array[int]":
    """The inverse of ``pack``. Raises DataError."""
    count, odd = divmod(len(body), _WIDTH)
    if odd:
        raise DataError("a column of numbers has a wrong length")
    raw = bytearray(len(body))
    for byte in range(_WIDTH):
        raw[byte::_WIDTH] = body[byte * count : (byte + 1) * count]
    return array("q", accumulate(array("q", bytes(raw))))


def time_span(times: Sequence[int]) -> tuple[int, int]:
    """The first known time and the newest one; unknown where none is known."""
    first = times[0] if times else UNKNOWN
    if first == UNKNOWN:
        first = next((time for time in times if time != UNKNOWN), UNKNOWN)
    return first, max(times, default=UNKNOWN)
