"""Which part of a log is asked for. Values only; finding the bytes is ``read.logs``."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from archiver.read.views import ArtifactView

MAX_LINES = 10_000
MAX_BYTES = 4 * 1024 * 1024
DEFAULT_LINES = 1_000


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines ``first`` to ``last``, both inclusive, counting from 1."""

    first: int = 1
    last: int = DEFAULT_LINES


@dataclass(frozen=True, slots=True)
class Around:
    """A line with ``context`` lines before and after it."""

    line: int
    context: int = 20


@dataclass(frozen=True, slots=True)
class AtByte:
    """``count`` lines from the one that holds the byte at ``offset_bytes`` of the whole text."""

    offset_bytes: int
    count: int = DEFAULT_LINES


@dataclass(frozen=True, slots=True)
class AtTime:
    """``count`` lines from the first one that was written at ``time`` or later."""

    time: datetime
    count: int = DEFAULT_LINES


@dataclass(frozen=True, slots=True)
class Tail:
    """The last ``count`` lines."""

    count: int = DEFAULT_LINES


Window = Lines | Around | AtByte | AtTime | Tail


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes of the whole text as HTTP's ``Range`` asks: from ``start`` to ``end`` inclusive, or the last ``suffix``."""

    start: int | None = None
    end: int | None = None
    suffix: int | None = None


@dataclass(frozen=True, slots=True)
class RawLog:
    """Bytes on their way. ``start`` and ``length_bytes`` are what will be sent, ``total_bytes`` is the whole text.

    ``chunks`` must be iterated once; ``is_satisfiable`` is False where the range lies behind the end.
    """

    artifact: ArtifactView
    start: int
    length_bytes: int
    total_bytes: int
    chunks: AsyncIterator[bytes]
    is_satisfiable: bool = True
