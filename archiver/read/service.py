"""The read side's front door: ``Reader``. Its methods are all that pages, REST and command line call.

Every method takes the viewer's scope first; what lies outside it does not exist (None, or no row). Errors are
DatabaseError, StoreError and DataError; UserError where the question itself makes no sense.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.manifest import to_json
from archiver.core.search import Pattern
from archiver.core.timeline import TimelineEntry
from archiver.errors import UserError
from archiver.index import facets as facet_queries
from archiver.index import queries
from archiver.index.engine import reading
from archiver.index.queries import Found, StoredAttempt
from archiver.index.tokens import Direction, Position, build_token, parse_token
from archiver.ports import ObjectStore
from archiver.read import assemble
from archiver.read.bundle import Bundle, open_bundle
from archiver.read.cases import build_case
from archiver.read.evidence import Evidence
from archiver.read.finder import Finder
from archiver.read.follow import Followers, TailPart
from archiver.read.found import Grep, GrepView, Marks, Seek, SeekView
from archiver.read.groups import Groups
from archiver.read.health import check_all, health_view
from archiver.read.history import History
from archiver.read.people import People
from archiver.read.runs import Runs
from archiver.read.scan import Budget
from archiver.read.search import ArchiveSearch, SearchEvent, SearchRequest, SearchSize
from archiver.read.statistics import StatisticsReader
from archiver.read.text import LogText
from archiver.read.verdicts import load_verdicts
from archiver.read.views import (
    ArtifactView,
    AttemptView,
    Check,
    EventPage,
    FacetsView,
    HealthView,
    JobFilter,
    JobPage,
    JobRow,
    JobView,
    LogWindow,
    PageRequest,
    Scope,
)
from archiver.read.windows import ByteRange, RawLog, Window

MAX_PAGE = 1_000
FACET_ROWS = 3_000
EXPORT_PAGE = 500
MAX_ATTEMPT = 2**31 - 1


class Reader:
    """Reads the index and the bucket, both opened and closed by the caller. ``prefix`` is the bucket's."""

    def __init__(self, engine: AsyncEngine, store: ObjectStore, *, prefix: str = "") -> None:
        self._engine = engine
        self._store = store
        self._prefix = prefix
        self._evidence = Evidence(store)
        self._history = History(self._evidence)
        self._finder = Finder(store, self._evidence)
        self._followers = Followers(store)
        self._search = ArchiveSearch(engine, self._evidence, self._finder.scans)
        self.runs = Runs(engine, self._evidence)
        self.people = People(engine, store, prefix=prefix)
        self.groups = Groups(engine)
        self.statistics = StatisticsReader(engine)

    async def jobs(self, scope: Scope, request: PageRequest) -> JobPage:
        """One page, newest first. Raises UserError for a token of another list."""
        if not 1 <= request.size <= MAX_PAGE:
            raise UserError(f"a page has 1 to {MAX_PAGE} rows, not {request.size}")
        position = parse_token(request.token, request.filter) if request.token else None
        async with reading(self._engine) as connection:
            found = await queries.list_jobs(connection, scope, request.filter, size=request.size, position=position)
        rows = tuple(assemble.job_row(row) for row in found.rows)
        return JobPage(
            rows,
            next_token=_token(found.rows[-1:], Direction.OLDER, request.filter) if found.has_older else None,
            prev_token=_token(found.rows[:1], Direction.NEWER, request.filter) if found.has_newer else None,
        )

    async def facets(self, scope: Scope, job_filter: JobFilter) -> FacetsView:
        """Counts over the newest FACET_ROWS RayJobs of the filter."""
        async with reading(self._engine) as connection:
            counts = await facet_queries.count_facets(connection, scope, job_filter, limit=FACET_ROWS)
        return assemble.facets_view(counts, limit=FACET_ROWS)

    async def job(self, scope: Scope, uid: str) -> JobView | None:
        """A RayJob with all its attempts."""
        async with reading(self._engine) as connection:
            row = await queries.find_job(connection, scope, uid)
            if row is None:
                return None
            attempts = await queries.load_attempts(connection, scope, uid)
            named = await queries.find_named(
                connection, scope, cluster=row["cluster"], namespace=row["namespace"], name=row["name"]
            )
        return assemble.job_view(row, await self._with_live(attempts), named)

    async def job_named(self, scope: Scope, cluster: str, namespace: str, name: str) -> JobView | None:
        """The newest RayJob of that name; ``JobView.same_name`` has the others."""
        async with reading(self._engine) as connection:
            named = await queries.find_named(connection, scope, cluster=cluster, namespace=namespace, name=name)
            if not named:
                return None
            attempts = await queries.load_attempts(connection, scope, named[0]["uid"])
        return assemble.job_view(named[0], await self._with_live(attempts), named)

    async def export(
        self, scope: Scope, job_filter: JobFilter, *, cursor: str | None = None
    ) -> AsyncGenerator[tuple[JobRow, str], None]:
        """All rows of a filter, each with the cursor that goes on behind it. One page in memory at a time."""
        while True:
            page = await self.jobs(scope, PageRequest(job_filter, EXPORT_PAGE, cursor))
            for row in page.rows:
                cursor = build_token(Position(Direction.OLDER, row.at, row.uid, row.gpu_seconds), job_filter)
                yield row, cursor
            if page.next_token is None:
                return

    async def attempt(self, scope: Scope, uid: str, number: int) -> AttemptView | None:
        """One attempt, also with the logs that still grow."""
        stored = await self._stored(scope, uid, number)
        return assemble.attempt_view(await self._evidence.with_live(stored)) if stored else None

    async def artifacts(self, scope: Scope, uid: str, number: int) -> tuple[ArtifactView, ...] | None:
        """What is archived of an attempt."""
        attempt = await self.attempt(scope, uid, number)
        return attempt.artifacts if attempt else None

    async def manifest(self, scope: Scope, uid: str, number: int) -> bytes | None:
        """The commit record as it stands in the bucket."""
        stored = await self._stored(scope, uid, number)
        return await self._store.get(stored.key) if stored else None

    async def log_window(self, scope: Scope, uid: str, number: int, artifact: str, window: Window) -> LogWindow | None:
        """Some lines of a log, at most MAX_LINES and MAX_BYTES."""
        stored = await self._stored(scope, uid, number)
        return await self._evidence.window(stored, artifact, window) if stored else None

    async def log_raw(
        self, scope: Scope, uid: str, number: int, artifact: str, byte_range: ByteRange | None = None
    ) -> RawLog | None:
        """A log's bytes, or a range of them, as they come from the store."""
        stored = await self._stored(scope, uid, number)
        return await self._evidence.raw(stored, artifact, byte_range) if stored else None

    async def log_grep(self, scope: Scope, uid: str, number: int, artifact: str, wanted: Grep) -> GrepView | None:
        """Lines of a log that match, and how many there are. Raises UserError for a pattern that is none."""
        stored = await self._stored(scope, uid, number)
        return await self._finder.grep(stored, artifact, wanted) if stored else None

    async def log_marks(
        self, scope: Scope, uid: str, number: int, artifact: str, pattern: Pattern, *, seconds: float
    ) -> Marks | None:
        """Where in a log a pattern is found; each call searches ``seconds`` further and remembers."""
        stored = await self._stored(scope, uid, number)
        return await self._finder.marks(stored, artifact, pattern, Budget(seconds)) if stored else None

    async def log_seek(self, scope: Scope, uid: str, number: int, artifact: str, wanted: Seek) -> SeekView | None:
        """The next line that matches, or the last one before."""
        stored = await self._stored(scope, uid, number)
        return await self._finder.seek(stored, artifact, wanted) if stored else None

    async def log_tail(
        self, scope: Scope, uid: str, number: int, artifact: str, after: int | None = None
    ) -> AsyncGenerator[TailPart, None] | None:
        """What stands behind line ``after`` (None: the log's last lines), and then what is written, until it ends."""
        stored = await self._stored(scope, uid, number)
        if stored is None:
            return None

        async def look() -> tuple[ArtifactView, LogText] | None:
            now = await self._stored(Scope.everything(), uid, number)
            return await self._evidence.open(now, artifact) if now else None

        return await self._followers.follow((stored.key, artifact), look, after)

    async def search_size(self, scope: Scope, job_filter: JobFilter) -> SearchSize:
        """How many logs, and how large, the newest RayJobs of a filter have."""
        return await self._search.size(scope, job_filter)

    def search(self, scope: Scope, request: SearchRequest) -> AsyncGenerator[SearchEvent, None]:
        """Lines in the logs of many RayJobs, as they are found. Raises UserError at the first step."""
        return self._search.run(scope, request)

    async def events(self, scope: Scope, uid: str, number: int) -> EventPage | None:
        """The Kubernetes Events of an attempt; no events with a reason where none are archived."""
        stored = await self._stored(scope, uid, number)
        return await self._history.events(stored) if stored else None

    async def timeline(self, scope: Scope, uid: str, number: int) -> tuple[TimelineEntry, ...] | None:
        """All that has a time, on one axis."""
        stored = await self._stored(scope, uid, number)
        return await self._history.timeline(stored) if stored else None

    async def verdicts(self, scope: Scope, uid: str, number: int) -> tuple[Mapping[str, Any], ...] | None:
        """Every verdict that is kept of an attempt, the newest first; damaged ones are left out."""
        stored = await self._stored(scope, uid, number)
        return await load_verdicts(self._store, stored) if stored else None

    async def bundle(self, scope: Scope, uid: str, number: int, report: bytes) -> Bundle | None:
        """Everything of an attempt as one zip; ``report`` is the page that goes with it."""
        stored = await self._stored(scope, uid, number)
        if stored is None:
            return None
        record = await self._store.get(stored.key) or to_json(stored.manifest)
        return open_bundle(self._evidence, await self._evidence.with_live(stored), record, report)

    async def case(self, scope: Scope, uid: str, number: int) -> dict[str, Any] | None:
        """The attempt as a case file for the rules, with what people say that it was."""
        stored = await self._stored(scope, uid, number)
        if stored is None:
            return None
        return await build_case(self._evidence, stored, await self.people.feedback(scope, uid, number))

    async def health(self, scope: Scope) -> HealthView:
        """How reading and, by what the index saw of it, capturing goes. Never raises for what it checks."""
        return await health_view(self._engine, self._store, scope, prefix=self._prefix)

    async def checks(self) -> tuple[Check, ...]:
        """Whether the index and the bucket answer."""
        return await check_all(self._engine, self._store, prefix=self._prefix)

    async def _with_live(self, attempts: tuple[StoredAttempt, ...]) -> tuple[StoredAttempt, ...]:
        return tuple([await self._evidence.with_live(attempt) for attempt in attempts])

    async def _stored(self, scope: Scope, uid: str, number: int) -> StoredAttempt | None:
        if not 0 < number <= MAX_ATTEMPT:
            return None
        async with reading(self._engine) as connection:
            found = await queries.load_attempts(connection, scope, uid, number=number)
        return found[0] if found else None


def _token(edge: tuple[Found, ...], direction: Direction, job_filter: JobFilter) -> str | None:
    """None for an empty page, which happens when all rows beyond a token are gone."""
    return build_token(_place(direction, edge[0]), job_filter) if edge else None


def _place(direction: Direction, row: Found) -> Position:
    return Position(direction, row["at"], row["uid"], row["gpu_seconds"])
