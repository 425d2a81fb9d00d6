"""Text or a pattern in the archived logs of many RayJobs, newest first: bounded, cancellable, and it can go on.

Nothing runs but while somebody takes the next event; who goes away ends the search with the step it is in.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core import records
from archiver.core.search import Hit, Matcher, Pattern, matcher
from archiver.errors import ArchiverError, UserError
from archiver.index import queries, searchable
from archiver.index.engine import reading
from archiver.index.filters import JobFilter, Scope
from archiver.index.searchable import LogPlace
from archiver.index.tokens import Direction, Position, seal, unseal
from archiver.read import assemble
from archiver.read.evidence import Evidence
from archiver.read.found import Match
from archiver.read.scan import Allowance, Budget, Scans
from archiver.read.text import LogText
from archiver.read.views import JobRow, LogLine

SIZED_JOBS = 1_000
_PAGE_JOBS = 50
_TELL_BYTES = 64 * 1024 * 1024
_PATIENT = Budget(60.0, 16 * 1024**3)


@dataclass(frozen=True, slots=True)
class SearchBounds:
    """Where a search stops by itself. Of one log no more than ``hits_a_log`` lines are given, and the rest not read."""

    budget: Budget = field(default=_PATIENT)
    hits: int = 500
    hits_a_log: int = 20


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What is searched for in which RayJobs' logs. ``token`` goes on where an earlier search stopped."""

    pattern: Pattern
    filter: JobFilter = field(default_factory=JobFilter)
    token: str | None = None
    bounds: SearchBounds = field(default_factory=SearchBounds)

    @property
    def question(self) -> list[object]:
        """What a token is bound to."""
        return [records.to_value(self.filter), records.to_value(self.pattern)]


@dataclass(frozen=True, slots=True)
class SearchSize:
    """What a search of a filter would read; ``is_capped`` where only the newest SIZED_JOBS RayJobs were looked at."""

    jobs: int
    logs: int
    raw_bytes: int
    is_capped: bool


@dataclass(frozen=True, slots=True)
class SearchHits:
    """Matching lines of one log. ``has_more``: the log has, or may have, more than these."""

    job: JobRow
    number: int
    artifact: str
    matches: tuple[Match, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """How far it is: logs read to their end (or as far as was wanted), bytes of text, lines found."""

    logs: int
    scanned_bytes: int
    hits: int
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class SearchEnd:
    """``next_token`` goes on, None where all has been searched. ``unreadable`` logs could not be read."""

    progress: SearchProgress
    next_token: str | None


SearchEvent = SearchHits | SearchProgress | SearchEnd


@dataclass(frozen=True, slots=True)
class _Place:
    """Where to go on: with the first RayJob behind ``before``, at a line of one of its logs."""

    before: tuple[str, str] = ("", "")
    number: int = 0
    position: int = 0
    line: int = 1


class ArchiveSearch:
    """Searches for one request after the other; all share the lanes of ``scans``."""

    def __init__(self, engine: AsyncEngine, evidence: Evidence, scans: Scans) -> None:
        self._engine = engine
        self._evidence = evidence
        self._scans = scans

    async def size(self, scope: Scope, job_filter: JobFilter) -> SearchSize:
        """What there is to read."""
        async with reading(self._engine) as connection:
            found = await searchable.sum_logs(connection, scope, job_filter, jobs=SIZED_JOBS)
        return SearchSize(found.jobs, found.logs, found.raw_bytes, found.jobs >= SIZED_JOBS)

    async def run(self, scope: Scope, request: SearchRequest) -> AsyncGenerator[SearchEvent, None]:
        """Hits as they are found, progress between them, an end. Raises UserError for no pattern and a wrong token."""
        run = _Run(request, _parse(request))
        async with aclosing(self._jobs(scope, request, run.place.before)) as jobs:
            async for row, logs, before in jobs:
                async with aclosing(self._logs(scope, run, row, logs)) as events:
                    async for event in events:
                        yield event
                if run.is_over:
                    yield SearchEnd(run.progress, run.token())
                    return
                run.place = _Place(before)
        yield SearchEnd(run.progress, None)

    async def _jobs(
        self, scope: Scope, request: SearchRequest, before: tuple[str, str]
    ) -> AsyncGenerator[tuple[JobRow, list[LogPlace], tuple[str, str]], None]:
        """RayJobs with their logs, and each one's own place in the list."""
        while True:
            position = _position(before)
            async with reading(self._engine) as connection:
                page = await queries.list_jobs(connection, scope, request.filter, size=_PAGE_JOBS, position=position)
                logs = await searchable.list_logs(connection, [row["uid"] for row in page.rows])
            for row in page.rows:
                before = (row["at"].isoformat(), row["uid"])
                yield assemble.job_row(row), logs.get(row["uid"], []), before
            if not page.has_older or not page.rows:
                return

    async def _logs(
        self, scope: Scope, run: "_Run", row: JobRow, logs: list[LogPlace]
    ) -> AsyncGenerator[SearchEvent, None]:
        start = run.place
        first = next(
            (at for at, log in enumerate(logs) if (log.number, log.position) == (start.number, start.position)), 0
        )
        for log in logs[first:]:
            line = start.line if (log.number, log.position) == (start.number, start.position) else 1
            run.place = _Place(start.before, log.number, log.position, line)
            if run.is_over:
                return
            try:
                async with aclosing(self._scan(scope, run, row, log)) as events:
                    async for event in events:
                        yield event
            except ArchiverError:
                run.unreadable += 1
            yield run.progress

    async def _scan(self, scope: Scope, run: "_Run", row: JobRow, log: LogPlace) -> AsyncGenerator[SearchEvent, None]:
        text = await self._open(scope, log)
        if text is None:
            return
        hits: list[Hit] = []
        most, told = min(run.bounds.hits_a_log, run.bounds.hits - run.hits), run.scanned_bytes
        has_more = False
        async with aclosing(self._scans.forward(text, run.request.pattern, run.place.line)) as steps:
            async for step in steps:
                hits.extend(step.hits)
                has_more = len(hits) > most
                run.take(step.text_bytes, step.to_line + 1)
                if has_more or run.is_over:
                    break
                if run.scanned_bytes - told > _TELL_BYTES:
                    told = run.scanned_bytes
                    yield run.progress
            else:
                run.logs += 1
        if has_more and most < run.bounds.hits_a_log:
            run.go_on_at(hits[most - 1].number + 1)
        if hits:
            run.hits += len(hits[:most])
            yield SearchHits(row, log.number, log.name, run.matches(hits[:most]), has_more)

    async def _open(self, scope: Scope, log: LogPlace) -> LogText | None:
        async with reading(self._engine) as connection:
            stored = await queries.load_attempts(connection, scope, log.uid, number=log.number)
        found = await self._evidence.open(stored[0], log.name) if stored else None
        return found[1] if found else None


class _Run:
    """One search on its way."""

    def __init__(self, request: SearchRequest, place: _Place) -> None:
        self.request = request
        self.bounds = request.bounds
        self.place = place
        self.logs = self.scanned_bytes = self.hits = self.unreadable = 0
        self._allowance = Allowance(request.bounds.budget)
        self._has_time = True
        self._marking: Matcher = matcher(request.pattern)

    @property
    def is_over(self) -> bool:
        return not self._has_time or self.hits >= self.bounds.hits

    @property
    def progress(self) -> SearchProgress:
        return SearchProgress(self.logs, self.scanned_bytes, self.hits, self.unreadable)

    def take(self, text_bytes: int, next_line: int) -> None:
        self.scanned_bytes += text_bytes
        self._has_time = self._allowance.take(text_bytes)
        self.go_on_at(next_line)

    def go_on_at(self, line: int) -> None:
        self.place = replace(self.place, line=line)

    def matches(self, hits: list[Hit]) -> tuple[Match, ...]:
        return tuple(
            Match(LogLine(hit.number, hit.offset, hit.excerpt, cut=hit.is_cut), tuple(self._marking.spans(hit.excerpt)))
            for hit in hits
        )

    def token(self) -> str:
        place = self.place
        return seal([*place.before, place.number, place.position, place.line], self.request.question)


def _parse(request: SearchRequest) -> _Place:
    if request.token is None:
        return _Place()
    at, uid, number, position, line = unseal(request.token, request.question, 5)
    if not (
        isinstance(at, str) and isinstance(uid, str) and all(isinstance(each, int) for each in (number, position, line))
    ):
        raise UserError("this token does not belong to a search: start again without it")
    return _Place((at, uid), number, position, max(1, line))


def _position(before: tuple[str, str]) -> Position | None:
    at, uid = before
    return Position(Direction.OLDER, datetime.fromisoformat(at), uid) if uid else None
