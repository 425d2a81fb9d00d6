"""Searching many logs over REST: the question, and one shape for each kind of line of the answer."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from archiver.core.search import Pattern
from archiver.read.search import SearchBounds, SearchEnd, SearchEvent, SearchHits, SearchRequest, SearchSize
from archiver.read.views import JobFilter
from web.contexts import FilterQuery
from web.finding import MatchedLine, Text
from web.schemas import Shape

Name = Annotated[str, Field(max_length=300)]


class SearchQuery(FilterQuery):
    """What is searched for, and the RayJobs in whose logs; without any, the newest ones first."""

    q: Text = Field(description="a text or, with regex, a regular expression (no look-around, no back-references)")
    regex: bool = Field(False, description="q is a regular expression")
    case: bool = Field(False, description="capitals and small letters differ")
    name: Name = Field("", description="part of the RayJob's name")
    limit: int = Field(500, ge=1, le=5_000, description="lines, after which the search stops")
    page_token: str | None = Field(
        None, max_length=1_000, description="next_page_token of the line that ended a search"
    )

    def filter(self) -> JobFilter:
        return replace(super().filter(), text=self.name)

    def request(self) -> SearchRequest:
        pattern = Pattern(self.q, self.regex, self.case)
        return SearchRequest(pattern, self.filter(), self.page_token, SearchBounds(hits=self.limit))


class SizeLine(Shape):
    """The first line: what there is to read."""

    type: Literal["size"] = "size"
    jobs: int
    logs: int
    raw_bytes: int
    is_capped: bool

    @staticmethod
    def of(size: SearchSize) -> "SizeLine":
        return SizeLine(jobs=size.jobs, logs=size.logs, raw_bytes=size.raw_bytes, is_capped=size.is_capped)


class HitsLine(Shape):
    """Matching lines of one log."""

    type: Literal["hits"] = "hits"
    uid: str
    cluster: str
    namespace: str
    name: str
    number: int
    artifact: str
    matches: list[MatchedLine]
    has_more: bool


class ProgressLine(Shape):
    """How far the search is; as ``end`` the last line, whose token goes on."""

    type: Literal["progress", "end"]
    logs: int
    scanned_bytes: int
    hits: int
    unreadable: int
    next_page_token: str | None = None


SearchLine = SizeLine | HitsLine | ProgressLine


def line_of(event: SearchEvent) -> HitsLine | ProgressLine:
    """An event as it is sent."""
    if isinstance(event, SearchHits):
        job = event.job
        return HitsLine(
            uid=job.uid,
            cluster=job.cluster,
            namespace=job.namespace,
            name=job.name,
            number=event.number,
            artifact=event.artifact,
            matches=[MatchedLine.of(match) for match in event.matches],
            has_more=event.has_more,
        )
    progress = event.progress if isinstance(event, SearchEnd) else event
    return ProgressLine(
        type="end" if isinstance(event, SearchEnd) else "progress",
        logs=progress.logs,
        scanned_bytes=progress.scanned_bytes,
        hits=progress.hits,
        unreadable=progress.unreadable,
        next_page_token=event.next_token if isinstance(event, SearchEnd) else None,
    )
