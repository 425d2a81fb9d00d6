"""What fails most and costs most: counts of attempts over time, by cause, by team, by node. Over what the viewer may see."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from archiver.core import chance
from archiver.index import statistics as queries
from archiver.index.engine import reading
from archiver.index.filters import JobFilter, Scope
from archiver.index.statistics import Cell, Hardware

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FINE_RANGE = timedelta(days=3)  # up to here hours are told apart
LOOKED_AT = 20_000  # newest attempts that are read where the counts by day cannot answer
INCOMPLETE = 1_000
# What a broken machine makes attempts die of.
HARDWARE = Hardware(
    ("accelerator",), ("collective-timeout", "filesystem-io-error", "node-lost", "nvlink-fault", "rdma-fault")
)
NODE_ATTEMPTS = 50_000


@dataclass(frozen=True, slots=True)
class Slot:
    """Attempts that failed in one bucket of time with causes of one category."""

    start: datetime
    category: str
    failed: int


@dataclass(frozen=True, slots=True)
class Share:
    """``name`` is a cause (with its category) or a team; empty where nobody said."""

    name: str
    category: str
    attempts: int
    failed: int
    gpu_seconds_lost: float


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of ``attempts`` in the filter's time ``failed`` failed; ``incomplete`` of all lack evidence (at most INCOMPLETE).

    ``bucket_seconds`` is the width of a slot. ``is_capped`` where only the newest LOOKED_AT attempts could be looked at.
    ``new_kinds`` are groups that were never seen before ``since``; None for all time, and where nothing is older: then
    all would be new. Causes and teams: dearest first.
    """

    since: datetime | None
    until: datetime | None
    bucket_seconds: float
    attempts: int
    failed: int
    gpu_seconds_lost: float
    incomplete: int
    new_kinds: int | None
    is_capped: bool
    slots: tuple[Slot, ...]
    causes: tuple[Share, ...]
    teams: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class NodeView:
    """``hardware`` of ``attempts`` that used the node failed as on broken hardware, in ``jobs`` different jobs.

    ``expected`` would have by the share of all other uses. ``chance`` is that any node looks so bad by luck: see
    ``core.chance``. ``is_suspect`` where that is improbable and several jobs agree.
    """

    cluster: str
    node: str
    attempts: int
    failed: int
    hardware: int
    jobs: int
    expected: float
    chance: float
    is_suspect: bool
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class NodesView:
    """Nodes since a moment, the most improbable first. ``looked_at`` attempts; ``share`` of all uses failed like that."""

    since: datetime
    nodes: tuple[NodeView, ...]
    total: int
    looked_at: int
    is_capped: bool
    share: float


class StatisticsReader:
    """Scope first, as everywhere. ``now`` closes an open range."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def count(self, scope: Scope, job_filter: JobFilter, *, now: datetime) -> Statistics:
        """The filter's statuses are left aside: what failed is counted among everything."""
        wanted = replace(job_filter, statuses=())
        async with reading(self._engine) as connection:
            cells, bucket, is_capped = await _cells(connection, scope, wanted, now)
            incomplete = await queries.count_incomplete(connection, scope, wanted, limit=INCOMPLETE)
            new = None
            if wanted.since is not None and await queries.has_older(connection, scope, wanted.since):
                new = await queries.count_new_kinds(connection, scope, wanted, wanted.since)
        return _summed(cells, wanted, bucket, (incomplete, new, is_capped))

    async def has_failures(self, scope: Scope, job_filter: JobFilter) -> bool:
        """Whether any attempt fits, statuses and all."""
        async with reading(self._engine) as connection:
            return await queries.has_failures(connection, scope, job_filter)

    async def nodes(self, scope: Scope, *, since: datetime) -> NodesView:
        """Every node that an attempt used, judged against all others of its cluster."""
        async with reading(self._engine) as connection:
            rows, looked_at, is_capped = await queries.count_nodes(
                connection, scope, since=since, hardware=HARDWARE, limit=NODE_ATTEMPTS
            )
        counted = [_Counted(**row) for row in rows]
        nodes = sorted((_judged(each, counted) for each in _with_sums(counted)), key=_worst_first)
        uses, hardware = sum(each.attempts for each in counted), sum(each.hardware for each in counted)
        share = hardware / uses if uses else 0.0
        return NodesView(since, tuple(nodes), len(nodes), looked_at, is_capped, share)


async def _cells(
    connection: AsyncConnection, scope: Scope, wanted: JobFilter, now: datetime
) -> tuple[list[Cell], timedelta, bool]:
    """Hours for short ranges; for long ones whole days from their counts, and the edges from the attempts."""
    until = min(wanted.until or now, now)
    is_short = wanted.since is not None and until - wanted.since <= FINE_RANGE
    if is_short or not queries.is_daily(wanted):
        bucket = HOUR if is_short else DAY
        cells, is_capped = await queries.count_attempts(connection, scope, wanted, bucket=bucket, limit=LOOKED_AT)
        return cells, bucket, is_capped
    first = _midnight(wanted.since + DAY) if wanted.since else None
    last = _midnight(until) if wanted.until else _midnight(until + DAY)
    since_day, until_day = first.date() if first else None, last.date()
    cells = await queries.count_days(connection, scope, wanted, since=since_day, until=until_day)
    edges = [(wanted.since, first)] if first else []
    edges += [(last, until)] if wanted.until else []
    for start, end in edges:
        edge = replace(wanted, since=start, until=end)
        more, _ = await queries.count_attempts(connection, scope, edge, bucket=DAY, limit=LOOKED_AT)
        cells += more
    return cells, DAY, False


def _midnight(moment: datetime) -> datetime:
    return datetime.combine(moment.astimezone(UTC).date(), time(), UTC)


def _summed(
    cells: Iterable[Cell], wanted: JobFilter, bucket: timedelta, beside: tuple[int, int | None, bool]
) -> Statistics:
    slots: dict[tuple[datetime, str], int] = {}
    causes: dict[tuple[str, str], _Sum] = {}
    teams: dict[tuple[str, str], _Sum] = {}
    whole = _Sum()
    for cell in cells:
        if cell.bucket is not None:
            place = (cell.bucket, cell.category or "")
            slots[place] = slots.get(place, 0) + cell.failed
        elif cell.cause is not None:
            causes.setdefault((cell.cause, cell.category or ""), _Sum()).add(cell)
        elif cell.team is not None:
            teams.setdefault((cell.team, ""), _Sum()).add(cell)
        else:
            whole.add(cell)
    return Statistics(
        since=wanted.since,
        until=wanted.until,
        bucket_seconds=bucket.total_seconds(),
        attempts=whole.attempts,
        failed=whole.failed,
        gpu_seconds_lost=whole.lost,
        incomplete=beside[0],
        new_kinds=beside[1],
        is_capped=beside[2],
        slots=tuple(Slot(start, category, failed) for (start, category), failed in sorted(slots.items()) if failed),
        causes=_shares(causes),
        teams=_shares(teams),
    )


@dataclass(slots=True)
class _Sum:
    attempts: int = 0
    failed: int = 0
    lost: float = 0.0

    def add(self, cell: Cell) -> None:
        self.attempts += cell.attempts
        self.failed += cell.failed
        self.lost += cell.gpu_seconds_lost


def _shares(sums: dict[tuple[str, str], _Sum]) -> tuple[Share, ...]:
    found = (
        Share(name, category, each.attempts, each.failed, each.lost)
        for (name, category), each in sums.items()
        if each.failed
    )
    return tuple(sorted(found, key=lambda share: (-share.gpu_seconds_lost, -share.failed, share.name)))


@dataclass(frozen=True, slots=True)
class _Counted:
    cluster: str
    node: str
    attempts: int
    failed: int
    hardware: int
    jobs: int
    last_at: datetime | None


def _with_sums(counted: list[_Counted]) -> list[tuple[_Counted, int, int]]:
    """Each with the uses and the hardware failures of all nodes of its cluster."""
    uses: dict[str, int] = {}
    hardware: dict[str, int] = {}
    for each in counted:
        uses[each.cluster] = uses.get(each.cluster, 0) + each.attempts
        hardware[each.cluster] = hardware.get(each.cluster, 0) + each.hardware
    return [(each, uses[each.cluster], hardware[each.cluster]) for each in counted]


def _judged(summed: tuple[_Counted, int, int], counted: list[_Counted]) -> NodeView:
    each, uses, hardware = summed
    others = uses - each.attempts
    share = (hardware - each.hardware) / others if others else 0.0
    luck = chance.at_least(each.hardware, each.attempts, share) if share else float(each.hardware == 0 or not others)
    odds = chance.corrected(luck, len(counted))
    return NodeView(
        cluster=each.cluster,
        node=each.node,
        attempts=each.attempts,
        failed=each.failed,
        hardware=each.hardware,
        jobs=each.jobs,
        expected=each.attempts * share,
        chance=odds,
        is_suspect=odds < chance.NAMED_BELOW and each.jobs >= chance.FEWEST_JOBS,
        last_at=each.last_at,
    )


def _worst_first(node: NodeView) -> tuple[bool, float, int, str, str]:
    return not node.is_suspect, node.chance, -node.hardware, node.cluster, node.node
