"""The Reader's methods over the hand-built archive: what pages are tested against, where Postgres is not the question."""

import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from archiver.core.model import Completeness
from archiver.core.people import Feedback
from archiver.core.search import LineSearch, Pattern, matcher
from archiver.core.timeline import TimelineEntry
from archiver.errors import DatabaseUnavailable, UserError
from archiver.read.bundle import Bundle
from archiver.read.follow import TailPart
from archiver.read.found import CELLS, Cell, Grep, GrepView, Marks, Match, Seek, SeekView
from archiver.read.runs import Difference, OtherRun, Place, SameFailures
from archiver.read.search import SearchEnd, SearchEvent, SearchHits, SearchProgress, SearchRequest, SearchSize
from archiver.read.statistics import Share, Slot, Statistics
from archiver.read.views import (
    FAILURES,
    Check,
    EventPage,
    Facet,
    FacetsView,
    FacetValue,
    HealthView,
    JobFilter,
    JobPage,
    JobRow,
    JobView,
    LogLine,
    LogWindow,
    PageRequest,
    Scope,
)
from archiver.read.windows import Around, AtTime, Lines, RawLog, Tail, Window
from tests.web import samples

_FIELDS = {
    "teams": lambda row: row.team.value if row.team else "",
    "namespaces": lambda row: row.namespace,
    "clusters": lambda row: row.cluster,
    "queues": lambda row: row.queue.value if row.queue else "",
    "statuses": lambda row: row.status,
    "categories": lambda row: row.cause.category if row.cause else "",
    "causes": lambda row: row.cause.cause if row.cause else "",
    "completeness": lambda row: row.completeness.value,
}


class SampleReader:
    """``rows`` may be empty; ``is_down`` makes every read fail as it does without a database."""

    def __init__(self, rows: tuple[JobRow, ...] | None = None, *, is_down: bool = False) -> None:
        self.rows = samples.archive() if rows is None else rows
        self.is_down = is_down
        self.is_well = True
        # lines of a growing log at each look, None once it has ended
        self.growing: list[int | None] = []
        self.damage = b""
        self.rename = ""
        self.bundle_error: Exception | None = None
        self.statistics = SampleStatistics(self)
        self.groups = SampleGroups(self)
        self.people = SamplePeople()
        self.runs = SampleRuns()

    def _matching(self, wanted: JobFilter) -> list[JobRow]:
        if self.is_down:
            raise DatabaseUnavailable("Postgres does not answer on 127.0.0.1:5432")

        def fits(row: JobRow) -> bool:
            chosen = ((getattr(wanted, field), read(row)) for field, read in _FIELDS.items())
            in_time = (wanted.since is None or row.at >= wanted.since) and (
                wanted.until is None or row.at < wanted.until
            )
            return (
                in_time and wanted.text in row.name and all(not values or value in values for values, value in chosen)
            )

        return [row for row in self.rows if fits(row)]

    async def jobs(self, scope: Scope, request: PageRequest) -> JobPage:
        if request.token is not None and not request.token.isdecimal():
            raise UserError("this page token belongs to another list: start again without page_token")
        rows, start = self._matching(request.filter), int(request.token or 0)
        end = start + request.size
        next_token = str(end) if end < len(rows) else None
        return JobPage(tuple(rows[start:end]), next_token, str(max(0, start - request.size)) if start else None)

    async def facets(self, scope: Scope, job_filter: JobFilter) -> FacetsView:
        rows = self._matching(job_filter)
        facets = tuple(
            Facet(name, _counted([read(row) for row in self._matching(replace(job_filter, **{name: ()}))]))
            for name, read in _FIELDS.items()
        )
        failed = [row for row in rows if row.status in ("failed", "invalid")]
        return FacetsView(facets, len(rows), False, len(failed), sum(row.gpu_seconds for row in failed), 10_000)

    async def job(self, scope: Scope, uid: str) -> JobView | None:
        found = [row for row in self._matching(JobFilter()) if row.uid == uid]
        view = samples.job_view(found[0]) if found else None
        return self._renamed(view) if view and self.rename else view

    def _renamed(self, view: JobView) -> JobView:
        attempt = view.newest
        odd = replace(attempt.artifacts[1], name=self.rename)
        return replace(view, attempts=(*view.attempts[:-1], replace(attempt, artifacts=(odd,))))

    async def manifest(self, scope: Scope, uid: str, number: int) -> bytes | None:
        return json.dumps({"attempt": number}).encode()

    async def events(self, scope: Scope, uid: str, number: int) -> EventPage | None:
        return samples.events()

    async def log_raw(self, scope: Scope, uid: str, number: int, artifact: str) -> RawLog | None:
        view = await self.job(scope, uid)
        found = [each for each in view.newest.artifacts if each.name == artifact] if view else []
        body = samples.text_of(samples.DRIVER) + self.damage
        return RawLog(found[0], 0, len(body), len(body), _chunks(body)) if found else None

    async def bundle(self, scope: Scope, uid: str, number: int, report: bytes) -> Bundle | None:
        view = await self.job(scope, uid)
        return Bundle(f"{view.row.name}-attempt-{number}.zip", "", self._pieces(report)) if view else None

    async def _pieces(self, body: bytes) -> AsyncGenerator[bytes, None]:
        yield body
        if self.bundle_error is not None:
            raise self.bundle_error

    async def job_named(self, scope: Scope, cluster: str, namespace: str, name: str) -> JobView | None:
        found = [row for row in self.rows if (row.cluster, row.namespace, row.name) == (cluster, namespace, name)]
        return samples.job_view(found[0]) if found else None

    async def timeline(self, scope: Scope, uid: str, number: int) -> tuple[TimelineEntry, ...] | None:
        return samples.timeline()

    async def log_window(self, scope: Scope, uid: str, number: int, artifact: str, window: Window) -> LogWindow | None:
        view = await self.job(scope, uid)
        artifacts = [a for a in view.attempts[-1].artifacts if a.name == artifact] if view else []
        if not artifacts:
            return None
        data = samples.log_lines(samples.DRIVER) if artifacts[0].completeness is not Completeness.LOST else []
        if self.growing:
            count = self.growing.pop(0)
            artifacts, data = [replace(artifacts[0], live=count is not None)], data[:count]
        first, last, focus = _range(window, len(data))
        lines = tuple(data[first - 1 : last])
        gaps = tuple(gap for gap in artifacts[0].gaps if first <= gap.at_line <= last)
        previous = max(1, first - 1000) if lines and first > 1 else None
        following = last + 1 if last < len(data) else None
        return LogWindow(artifacts[0], lines, gaps, len(data), artifacts[0].raw_bytes, previous, following, focus)

    async def log_marks(
        self, scope: Scope, uid: str, number: int, artifact: str, pattern: Pattern, *, seconds: float
    ) -> Marks | None:
        window = await self.log_window(scope, uid, number, artifact, Lines(1, 10_000))
        if window is None:
            return None
        finder, total = LineSearch(matcher(pattern)), window.total_lines
        hits = finder.feed(b"".join(line.data + b"\n" for line in window.lines))
        cells = [Cell((hit.number - 1) * CELLS // total, 1, hit.number) for hit in hits]
        return Marks(pattern, len(hits), total, total, window.total_bytes, window.total_bytes, tuple(cells))

    async def log_seek(self, scope: Scope, uid: str, number: int, artifact: str, wanted: Seek) -> SeekView | None:
        marks = await self.log_marks(scope, uid, number, artifact, wanted.pattern, seconds=1)
        lines = [cell.line for cell in marks.cells] if marks else []
        if wanted.is_backward:
            lines = [line for line in reversed(lines) if line < wanted.line]
        else:
            lines = [line for line in lines if line > wanted.line]
        return SeekView(lines[0] if lines else None, 1, True)

    async def log_grep(self, scope: Scope, uid: str, number: int, artifact: str, wanted: Grep) -> GrepView | None:
        window = await self.log_window(scope, uid, number, artifact, Lines(wanted.first, 10_000))
        if window is None:
            return None
        marking, total = matcher(wanted.pattern), window.total_lines
        found = [line for line in window.lines if marking.ends(line.data)]
        by_number, reach = {line.number: line for line in window.lines}, range(1, wanted.context + 1)
        matches = [
            Match(
                line,
                tuple(marking.spans(line.data)),
                tuple(by_number[line.number - n] for n in reversed(reach) if line.number - n in by_number),
                tuple(by_number[line.number + n] for n in reach if line.number + n in by_number),
            )
            for line in found
        ]
        return GrepView(
            window.artifact, tuple(matches), len(found), wanted.first, total, None, True, 0, total, window.total_bytes
        )

    async def log_tail(
        self, scope: Scope, uid: str, number: int, artifact: str, after: int | None = None
    ) -> AsyncIterator[TailPart] | None:
        view = await self.job(scope, uid)
        return self._tail(uid, number, artifact, after or 0) if view else None

    async def _tail(self, uid: str, number: int, artifact: str, after: int) -> AsyncGenerator[TailPart, None]:
        """As the log grows, look by look."""
        while True:
            is_over = self.growing == [None] or not self.growing
            window = await self.log_window(Scope.everything(), uid, number, artifact, Lines(after + 1, 1_000_000))
            assert window is not None
            if window.lines:
                yield TailPart(window.artifact, window.lines, window.gaps)
                after = window.lines[-1].number
            if is_over:
                yield TailPart(window.artifact, is_last=True)
                return

    async def search_size(self, scope: Scope, job_filter: JobFilter) -> SearchSize:
        rows = self._matching(job_filter)
        return SearchSize(len(rows), 3 * len(rows), 1_300_000_000, False)

    async def search(self, scope: Scope, request: SearchRequest) -> AsyncIterator[SearchEvent]:
        """Every job has the main driver log; each call gives one job's hits, and the token is the next job."""
        wanted, rows = matcher(request.pattern), self._matching(request.filter)
        start = int(request.token or 0)
        hits = LineSearch(wanted).feed(samples.text_of(samples.DRIVER))[:20]
        spans = [Match(LogLine(hit.number, hit.offset, hit.excerpt), tuple(wanted.spans(hit.excerpt))) for hit in hits]
        for row in rows[start : start + 1]:
            if spans:
                yield SearchHits(row, 1, "logs/driver.log", tuple(spans), len(hits) == 20)
        progress = SearchProgress(start + 1, 120_000_000 * (start + 1), len(hits))
        yield progress
        yield SearchEnd(progress, str(start + 1) if start + 1 < min(3, len(rows)) else None)

    async def health(self, scope: Scope) -> HealthView:
        checks = (
            Check("Postgres", True, "answers in 2 ms"),
            Check(
                "Object store",
                self.is_well,
                "s3://evidence answers" if self.is_well else "403: the key may not read s3://evidence",
            ),
        )
        newest: datetime = samples.ENDED
        return HealthView(
            self.is_well,
            checks,
            86_400.0,
            212,
            3,
            209,
            2,
            1,
            0.82,
            3.9,
            -0.009,
            newest,
            {"archiver": "0.1.0", "Postgres": "18.1"},
        )


class SampleStatistics:
    """Counts over the rows of the archive, each of which stands for its last attempt."""

    def __init__(self, archive: SampleReader) -> None:
        self._archive = archive

    async def has_failures(self, scope: Scope, job_filter: JobFilter) -> bool:
        return bool(self._archive._matching(job_filter))

    async def count(self, scope: Scope, job_filter: JobFilter, *, now: datetime) -> Statistics:
        rows = self._archive._matching(replace(job_filter, statuses=()))
        failed = [row for row in rows if row.status in FAILURES]
        slots = Counter((row.at.replace(minute=0, second=0), row.cause.category if row.cause else "") for row in failed)
        return Statistics(
            since=job_filter.since,
            until=job_filter.until,
            bucket_seconds=3_600.0,
            attempts=len(rows),
            failed=len(failed),
            gpu_seconds_lost=sum(row.gpu_seconds for row in failed),
            incomplete=sum(row.completeness is not Completeness.COMPLETE for row in rows),
            new_kinds=1 if job_filter.since else None,
            is_capped=False,
            slots=tuple(Slot(start, category, count) for (start, category), count in sorted(slots.items())),
            causes=_shares((row.cause.cause, row.cause.category, row) for row in failed if row.cause),
            teams=_shares((row.team.value if row.team else "", "", row) for row in failed),
        )


class SampleGroups:
    """Every group was seen first when its row ended."""

    def __init__(self, archive: SampleReader) -> None:
        self._archive = archive

    async def first_seen(self, scope: Scope, fingerprints: Iterable[str]) -> dict[str, datetime]:
        wanted = set(fingerprints)
        return {row.fingerprint: row.at for row in self._archive.rows if row.fingerprint and row.fingerprint in wanted}


class SamplePeople:
    """One person has said one thing."""

    async def feedback(self, scope: Scope, uid: str, number: int) -> tuple[Feedback, ...]:
        return (Feedback(uid, number, samples.ENDED, "Ada", True, "missing-module", "14", note=samples.HOSTILE),)


class SampleRuns:
    """Two days before there was a good run, with another image and revision; the failure is the fourteenth of its kind."""

    def __init__(self) -> None:
        self.good: OtherRun | None = OtherRun("uid-good", 1, "llama-ft-7b", "succeeded", samples.ago(days=2), True)

    async def last_good(self, scope: Scope, row: JobRow) -> OtherRun | None:
        return self.good

    async def same_failures(self, scope: Scope, fingerprint: str, *, now: datetime) -> SameFailures | None:
        return SameFailures(14, 4, now - timedelta(days=2, hours=3), False)

    async def changes(self, scope: Scope, place: Place, other: OtherRun) -> Difference | None:
        return samples.difference(other)

    async def describe(self, scope: Scope, place: Place) -> OtherRun | None:
        return replace(self.good, uid=place.uid, number=place.number, is_last_good=False) if self.good else None

    async def difference(self, scope: Scope, place: Place, other: OtherRun) -> Difference | None:
        return samples.difference(other)


def _shares(told: Iterable[tuple[str, str, JobRow]]) -> tuple[Share, ...]:
    by_name: dict[tuple[str, str], list[JobRow]] = {}
    for name, category, row in told:
        by_name.setdefault((name, category), []).append(row)
    made = (
        Share(name, category, len(rows), len(rows), sum(row.gpu_seconds for row in rows))
        for (name, category), rows in by_name.items()
    )
    return tuple(sorted(made, key=lambda share: -share.gpu_seconds_lost))


async def _chunks(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 65_536):
        yield body[start : start + 65_536]


def _counted(values: list[str]) -> tuple[FacetValue, ...]:
    counts = {value: values.count(value) for value in dict.fromkeys(values)}
    return tuple(FacetValue(value, count) for value, count in sorted(counts.items(), key=lambda item: -item[1]))


def _range(window: Window, total: int) -> tuple[int, int, int | None]:
    """First and last line of a window, and the line that was asked for."""
    if isinstance(window, Around):
        return max(1, window.line - window.context), min(total, window.line + window.context), window.line
    if isinstance(window, Lines):
        return window.first, min(total, window.last), None
    if isinstance(window, AtTime):
        before = [line for line in samples.log_lines(samples.DRIVER) if line.time_ns / 1e9 < window.time.timestamp()]
        return len(before) + 1, min(total, len(before) + window.count), len(before) + 1
    assert isinstance(window, Tail)
    return max(1, total - window.count + 1), total, None
