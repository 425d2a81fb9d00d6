"""Shapes of the REST API that are not a view as it is: pages with tokens, log lines as text, problems, probes.

All other answers are the dataclasses of ``archiver.read.views``: their fields and docstrings are the schema.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from archiver.core.lines import to_time
from archiver.core.model import Completeness, Gap
from archiver.core.people import MAX_NAME_CHARS, MAX_NOTE_CHARS, Feedback, GroupState
from archiver.core.timeline import TimelineEntry
from archiver.read.groups import GroupRow
from archiver.read.statistics import Share
from archiver.read.views import ArtifactView, Check, EventView, JobPage, JobRow, LogLine, LogWindow
from web.catalogue import CauseView


class Shape(BaseModel):
    model_config = ConfigDict(frozen=True)


class FieldError(Shape):
    """One parameter that is wrong: where it stood (path, query, header), its name, and why."""

    where: str
    name: str
    message: str


class Problem(Shape):
    """RFC 9457. ``type`` is stable; ``trace_id`` finds the request in the server's log."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    trace_id: str
    errors: list[FieldError] = Field(default_factory=list)


class JobList(Shape):
    """One page, newest first. Pass ``next_page_token`` as ``page_token``, with the same filter, for older ones."""

    jobs: Sequence[JobRow]
    next_page_token: str | None
    prev_page_token: str | None

    @staticmethod
    def of(page: JobPage) -> "JobList":
        return JobList(jobs=page.rows, next_page_token=page.next_token, prev_page_token=page.prev_token)


class Line(Shape):
    """``text`` has U+FFFD for bytes that are not UTF-8; ``/raw`` has the bytes. ``time`` has nanoseconds where known."""

    number: int
    offset_bytes: int
    text: str
    time: str | None
    cut: bool

    @staticmethod
    def of(line: LogLine) -> "Line":
        return Line(
            number=line.number,
            offset_bytes=line.offset_bytes,
            text=line.text,
            time=_exact_time(line.time_ns),
            cut=line.cut,
        )


class Window(Shape):
    """Some lines of a log, and where they stand in the whole. Gaps stand after line ``at_line``."""

    artifact: ArtifactView
    lines: list[Line]
    gaps: Sequence[Gap]
    total_lines: int
    total_bytes: int
    previous_line: int | None
    next_line: int | None
    focus_line: int | None
    is_bounded: bool

    @staticmethod
    def of(window: LogWindow) -> "Window":
        return Window(
            artifact=window.artifact,
            lines=[Line.of(line) for line in window.lines],
            gaps=window.gaps,
            total_lines=window.total_lines,
            total_bytes=window.total_bytes,
            previous_line=window.previous_line,
            next_line=window.next_line,
            focus_line=window.focus_line,
            is_bounded=window.is_bounded,
        )


class Artifacts(Shape):
    artifacts: Sequence[ArtifactView]


class Events(Shape):
    """Kubernetes Events in time order, and whether all of them are archived."""

    events: Sequence[EventView]
    completeness: Completeness
    reason: str
    is_bounded: bool


class Timeline(Shape):
    entries: Sequence[TimelineEntry]


class Verdicts(Shape):
    """Verdicts of one attempt, newest first. The documents are open: a later ruleset may say more."""

    verdicts: Sequence[Mapping[str, Any]]


class FeedbackList(Shape):
    """What people said of one attempt's verdict, newest first."""

    feedback: Sequence[Feedback]


Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS, description="what you call yourself")]
Note = Annotated[str, Field(max_length=MAX_NOTE_CHARS)]


class Verdict(Shape):
    """A person's word on an attempt's verdict. ``should_be`` is the id of the cause that it was instead."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    who: Name
    is_right: bool
    should_be: Annotated[str, Field(max_length=MAX_NAME_CHARS)] = ""
    note: Note = ""


class Decision(Shape):
    """What is to become of a group."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    who: Name
    state: GroupState
    note: Note = ""


class GroupList(Shape):
    """One page. Pass ``next_page_token`` as ``page_token``, with the same filter, for more."""

    groups: Sequence[GroupRow]
    next_page_token: str | None


class Causes(Shape):
    causes: Sequence[CauseView]


class Teams(Shape):
    teams: Sequence[Share]


class Readiness(Shape):
    """Whether requests can be answered, check by check."""

    is_ready: bool
    checks: Sequence[Check]


class Version(Shape):
    """Versions of the product and of what it wrote."""

    product: str
    api: str


Instant = Annotated[datetime, Field(description="RFC 3339, with its offset")]


def _exact_time(time_ns: int | None) -> str | None:
    moment = to_time(time_ns) if time_ns else None
    if moment is None or time_ns is None:
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ns % 1_000_000_000:09d}Z"
