"""What a query string asks for, as values: the job list's filter and page, the part of a log. Shared, not rendered."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from archiver.read.groups import MAX_PAGE as MAX_GROUPS
from archiver.read.groups import GroupFilter, GroupOrder, GroupRequest
from archiver.read.service import MAX_PAGE
from archiver.read.views import JobFilter, JobOrder, PageRequest
from archiver.read.windows import MAX_LINES, Around, AtTime, Lines, Tail, Window

MAX_WORDS = 50
MAX_WORD_CHARS = 300
_FIRST_YEAR, _LAST_YEAR = 1900, 9000
_LAST_LINE = 2**53 - 1  # the largest whole number that every JSON reader keeps exact


_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def _written_out(moment: object) -> object:
    """A bare number would pass for seconds since 1970."""
    if isinstance(moment, str) and not _DATE.match(moment.strip()):
        raise ValueError("write it out, as in 2026-03-01T12:00:00Z")
    return moment


def _in_reach(moment: datetime) -> datetime:
    """No RayJob is older or younger than that, and every zone can tell it."""
    if moment.year < _FIRST_YEAR:
        return datetime(_FIRST_YEAR, 1, 1, tzinfo=UTC)
    return datetime(_LAST_YEAR, 1, 1, tzinfo=UTC) if moment.year >= _LAST_YEAR else moment


Word = Annotated[str, Field(max_length=MAX_WORD_CHARS)]
Words = Annotated[list[Word], Field(max_length=MAX_WORDS)]
Moment = Annotated[AwareDatetime, BeforeValidator(_written_out), AfterValidator(_in_reach)]
LineNumber = Annotated[int, Field(ge=1, le=_LAST_LINE)]


class FilterQuery(BaseModel):
    """Within one name any value fits, between names all must. An empty value asks for rows that say nothing there."""

    model_config = ConfigDict(extra="forbid")

    cluster: Words = Field(default_factory=list)
    namespace: Words = Field(default_factory=list)
    team: Words = Field(default_factory=list)
    queue: Words = Field(default_factory=list)
    status: Words = Field(default_factory=list)
    cause: Words = Field(default_factory=list)
    category: Words = Field(default_factory=list)
    completeness: Words = Field(default_factory=list)
    node: Words = Field(default_factory=list)
    image: Words = Field(default_factory=list)
    group: Words = Field(default_factory=list, description="fingerprints of groups")
    q: Word = Field("", description="part of the RayJob's name")
    since: Moment | None = Field(None, description="ended (or, while it runs, started) at this moment or later")
    until: Moment | None = Field(None, description="ended (or, while it runs, started) before this moment")

    def filter(self) -> JobFilter:
        return JobFilter(
            clusters=tuple(self.cluster),
            namespaces=tuple(self.namespace),
            teams=tuple(self.team),
            queues=tuple(self.queue),
            statuses=tuple(self.status),
            causes=tuple(self.cause),
            categories=tuple(self.category),
            completeness=tuple(self.completeness),
            nodes=tuple(self.node),
            images=tuple(self.image),
            fingerprints=tuple(self.group),
            text=self.q,
            since=self.since,
            until=self.until,
        )


class OrderedQuery(FilterQuery):
    """In an order."""

    order: JobOrder = Field(JobOrder.NEWEST, description="newest, or cost (GPU time), from the top")

    def filter(self) -> JobFilter:
        return replace(super().filter(), order=self.order)


class ListQuery(OrderedQuery):
    """One page of the list."""

    page_size: int = Field(50, ge=1, le=MAX_PAGE)
    page_token: str | None = Field(None, max_length=1_000, description="next_page_token or prev_page_token of a page")

    def request(self) -> PageRequest:
        return PageRequest(self.filter(), self.page_size, self.page_token)


class ExportQuery(OrderedQuery):
    """The whole list, from a place on."""

    cursor: str | None = Field(None, max_length=1_000, description="cursor of the last line that arrived")


class CursorQuery(BaseModel):
    """From a place on."""

    model_config = ConfigDict(extra="forbid")

    cursor: str | None = Field(None, max_length=1_000, description="cursor of the last line that arrived")


class GroupQuery(BaseModel):
    """Groups that failed at ``since`` (its day) or later. Within one name any value fits, between names all must."""

    model_config = ConfigDict(extra="forbid")

    team: Words = Field(default_factory=list)
    category: Words = Field(default_factory=list)
    cause: Words = Field(default_factory=list)
    state: Words = Field(default_factory=list, description="open, muted, resolved, grown, came-back")
    since: Moment | None = None
    order: GroupOrder = Field(GroupOrder.NEWEST, description="newest, most (attempts) or cost (GPU time), from the top")

    def filter(self) -> GroupFilter:
        return GroupFilter(
            teams=tuple(self.team),
            categories=tuple(self.category),
            causes=tuple(self.cause),
            states=tuple(self.state),
            since=self.since,
            order=self.order,
        )


class GroupListQuery(GroupQuery):
    """One page of groups."""

    page_size: int = Field(25, ge=1, le=MAX_GROUPS)
    page_token: str | None = Field(None, max_length=1_000, description="next_page_token of a page")

    def request(self) -> GroupRequest:
        return GroupRequest(self.filter(), self.page_size, self.page_token)


class GroupExportQuery(GroupQuery):
    """All groups, from a place on."""

    cursor: str | None = Field(None, max_length=1_000, description="the last cursor that arrived")

    def request(self) -> GroupRequest:
        return GroupRequest(self.filter(), MAX_GROUPS, self.cursor)


class NodesQuery(BaseModel):
    """Attempts of the last days."""

    model_config = ConfigDict(extra="forbid")

    days: int = Field(7, ge=1, le=90)


class LogQuery(BaseModel):
    """At most one of ``lines``, ``around``, ``time`` and ``tail`` says which part; without one it is the whole."""

    model_config = ConfigDict(extra="forbid")

    lines: str | None = Field(
        None, pattern=r"^[1-9][0-9]{0,14}-[1-9][0-9]{0,14}$", description="first and last line, as in 100-200"
    )
    around: LineNumber | None = Field(None, description="a line with its neighbours")
    context: int = Field(20, ge=0, le=MAX_LINES // 2, description="neighbours on each side, with around")
    time: Moment | None = Field(None, description="from the first line written at this moment or later")
    tail: int | None = Field(None, ge=1, le=MAX_LINES, description="the last lines")
    limit: int = Field(1_000, ge=1, le=MAX_LINES, description="lines, with time")

    @model_validator(mode="after")
    def _one_place(self) -> "LogQuery":
        given = [name for name in ("lines", "around", "time", "tail") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} exclude each other")
        if self.lines and self._range()[0] > self._range()[1]:
            raise ValueError("lines: the first line comes after the last one")
        return self

    def window(self) -> Window | None:
        """None where no part is asked for."""
        if self.lines is not None:
            return Lines(*self._range())
        if self.around is not None:
            return Around(self.around, self.context)
        if self.time is not None:
            return AtTime(self.time, self.limit)
        return Tail(self.tail) if self.tail is not None else None

    def _range(self) -> tuple[int, int]:
        first, _, last = (self.lines or "1-1").partition("-")
        return int(first), int(last)
