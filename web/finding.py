"""Searching over REST: what the query string asks for, and the shapes of the answers."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from archiver.core.model import Completeness, Gap
from archiver.core.search import MAX_PATTERN_CHARS, Pattern
from archiver.read.follow import TailPart
from archiver.read.found import MAX_CONTEXT, MAX_MATCHES, Grep, GrepView, Match
from web.contexts import LineNumber
from web.schemas import Line, Shape

Text = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN_CHARS, pattern=r"^[^\x00\r\n]+$")]


class PatternQuery(BaseModel):
    """What is searched for, line by line."""

    model_config = ConfigDict(extra="forbid")

    q: Text = Field(description="a text or, with regex, a regular expression (no look-around, no back-references)")
    regex: bool = Field(False, description="q is a regular expression")
    case: bool = Field(False, description="capitals and small letters differ")

    def pattern(self) -> Pattern:
        return Pattern(self.q, self.regex, self.case)


class GrepQuery(PatternQuery):
    """Which part of the log, and how much of each match."""

    start: LineNumber = Field(1, alias="from", description="the first line that is searched")
    context: int = Field(0, ge=0, le=MAX_CONTEXT, description="neighbours on each side")
    limit: int = Field(100, ge=0, le=MAX_MATCHES, description="matches that are listed; all are counted")

    def wanted(self) -> Grep:
        return Grep(self.pattern(), self.start, self.limit, self.context)


class MatchedLine(Shape):
    """``marks`` are pairs of byte offsets in the line as it is listed here. A long line is cut to what matched."""

    line: Line
    marks: list[tuple[int, int]]
    before: list[Line]
    after: list[Line]

    @staticmethod
    def of(match: Match) -> "MatchedLine":
        return MatchedLine(
            line=Line.of(match.line),
            marks=list(match.spans),
            before=[Line.of(line) for line in match.before],
            after=[Line.of(line) for line in match.after],
        )


class Matches(Shape):
    """``count`` is exact for the lines from ``from_line`` to ``to_line``. Go on with ``from=next_line``."""

    matches: list[MatchedLine]
    count: int
    from_line: int
    to_line: int
    next_line: int | None
    is_complete: bool
    scanned_bytes: int
    total_lines: int
    total_bytes: int

    @staticmethod
    def of(found: GrepView) -> "Matches":
        return Matches(
            matches=[MatchedLine.of(match) for match in found.matches],
            count=found.count,
            from_line=found.first_line,
            to_line=found.to_line,
            next_line=found.next_line,
            is_complete=found.is_complete,
            scanned_bytes=found.scanned_bytes,
            total_lines=found.total_lines,
            total_bytes=found.total_bytes,
        )


class TailQuery(BaseModel):
    """Where to begin."""

    model_config = ConfigDict(extra="forbid")

    after: int | None = Field(
        None, ge=0, le=2**53 - 1, description="begin behind this line; without it with the last thousand"
    )


class TailLines(Shape):
    """Lines that became complete. Gaps stand after line ``at_line``."""

    lines: list[Line]
    gaps: Sequence[Gap]

    @staticmethod
    def of(part: TailPart) -> "TailLines":
        return TailLines(lines=[Line.of(line) for line in part.lines], gaps=part.gaps)


class TailEnd(Shape):
    """The log is archived and will not grow any more."""

    completeness: Completeness
    reason: str
    total_lines: int
    sha256: str

    @staticmethod
    def of(part: TailPart) -> "TailEnd":
        artifact = part.artifact
        return TailEnd(
            completeness=artifact.completeness,
            reason=artifact.reason,
            total_lines=artifact.lines,
            sha256=artifact.sha256,
        )
