"""What searching a log is asked for and what it finds. Values only; the searching is ``read.finder``'s."""

from dataclasses import dataclass

from archiver.core.search import Pattern
from archiver.read.views import ArtifactView, LogLine

MAX_MATCHES = 1_000
MAX_CONTEXT = 100
CELLS = 250


@dataclass(frozen=True, slots=True)
class Grep:
    """Matching lines from line ``first`` on: at most ``limit`` with ``context`` neighbours, and how many there are."""

    pattern: Pattern
    first: int = 1
    limit: int = 100
    context: int = 0


@dataclass(frozen=True, slots=True)
class Match:
    """A line that matches, its neighbours, and which bytes of ``line.data`` to mark (from, to)."""

    line: LogLine
    spans: tuple[tuple[int, int], ...]
    before: tuple[LogLine, ...] = ()
    after: tuple[LogLine, ...] = ()


@dataclass(frozen=True, slots=True)
class GrepView:
    """``count`` is exact for the lines ``first_line`` to ``to_line``; ``is_complete`` where that is the log's end.

    ``next_line`` is where to go on: behind the last match that is listed, else where time was up; None at the end.
    """

    artifact: ArtifactView
    matches: tuple[Match, ...]
    count: int
    first_line: int
    to_line: int
    next_line: int | None
    is_complete: bool
    scanned_bytes: int
    total_lines: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Cell:
    """One of CELLS equal parts of a log that holds hits: its number, how many, and the first one's line."""

    place: int
    count: int
    line: int


@dataclass(frozen=True, slots=True)
class Marks:
    """Where in a log a pattern is found, as far as it has been searched: exact up to ``to_line``, which grows."""

    pattern: Pattern
    count: int
    to_line: int
    total_lines: int
    scanned_bytes: int
    total_bytes: int
    cells: tuple[Cell, ...]

    @property
    def is_complete(self) -> bool:
        """Whether the whole log has been searched."""
        return self.to_line >= self.total_lines


@dataclass(frozen=True, slots=True)
class Seek:
    """The next match after ``line``, or with ``is_backward`` the last one before it."""

    pattern: Pattern
    line: int
    is_backward: bool = False


@dataclass(frozen=True, slots=True)
class SeekView:
    """``line`` is None where there is none up to ``to_line``; ``is_complete`` where that is the log's end."""

    line: int | None
    to_line: int
    is_complete: bool
