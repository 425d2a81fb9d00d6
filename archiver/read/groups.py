"""Groups of failures: the same fingerprint over jobs and teams. Lists of them, and one with all that is known of it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from archiver.core import records
from archiver.core.people import GroupDecision
from archiver.errors import UserError
from archiver.index import groups as queries
from archiver.index import people as said_rows
from archiver.index.engine import reading
from archiver.index.filters import GroupFilter, GroupOrder, Scope
from archiver.index.groups import SAMPLE
from archiver.index.queries import Found
from archiver.index.tokens import seal, unseal
from archiver.index.verdicts import decisive, read_verdict

__all__ = ["SAMPLE", "GroupFilter", "GroupOrder", "GroupPage", "GroupRequest", "GroupRow", "GroupView", "Groups"]
MAX_PAGE = 100
SPARK_DAYS = 30
_LATEST = 20


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """One page of groups. ``filter.until`` is the moment of asking; it does not bind the token."""

    filter: GroupFilter = field(default_factory=GroupFilter)
    size: int = 25
    token: str | None = None


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group in a list. Counts are of the filter's days; ``first_at`` and ``days`` (SPARK_DAYS, oldest first) are not.

    ``state``: open, muted, resolved, grown (was muted, and speaks again), came-back (was resolved, and failed again).
    ``title`` and ``line`` are those of its newest attempt, whose place is ``uid`` and ``number``.
    """

    fingerprint: str
    cause: str
    category: str
    title: str
    line: str
    attempts: int
    gpu_seconds: float
    first_at: datetime
    last_at: datetime
    last_week: int
    teams: tuple[str, ...]
    namespaces: int
    days: tuple[int, ...]
    state: str
    decision: GroupDecision | None
    uid: str
    number: int


@dataclass(frozen=True, slots=True)
class GroupPage:
    rows: tuple[GroupRow, ...]
    next_token: str | None


@dataclass(frozen=True, slots=True)
class Involved:
    """One job, team, node or image of a group: in so many of the attempts looked at, from when to when."""

    name: str
    attempts: int
    first_at: datetime
    last_at: datetime
    uid: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    uid: str
    number: int
    cluster: str
    namespace: str
    name: str
    team: str
    at: datetime
    gpu_seconds: float


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group over all time. Jobs, teams, nodes and images are those of the newest SAMPLE attempts.

    ``used`` are the parts that the fingerprint was made of. ``new_images`` are those of the last week that the attempts
    before did not have.
    """

    row: GroupRow
    used: tuple[str, ...]
    version: str
    looked_at: int
    is_capped: bool
    jobs: tuple[Involved, ...]
    teams: tuple[Involved, ...]
    nodes: tuple[Involved, ...]
    images: tuple[Involved, ...]
    new_images: tuple[str, ...]
    latest: tuple[GroupMember, ...]
    history: tuple[GroupDecision, ...]


class Groups:
    """Scope first: of a group a viewer sees the attempts that they may see, and it has their numbers."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def page(self, scope: Scope, request: GroupRequest, *, now: datetime) -> GroupPage:
        """Raises UserError for a token of another list."""
        if not 1 <= request.size <= MAX_PAGE:
            raise UserError(f"a page has 1 to {MAX_PAGE} groups, not {request.size}")
        wanted = _at(request.filter, now)
        after = _place(unseal(request.token, request.filter, 2)) if request.token else None
        async with reading(self._engine) as connection:
            found = await queries.list_groups(connection, scope, wanted, size=request.size + 1, after=after)
            kept = found[: request.size]
            rows = await _rows(connection, scope, kept, now)
        has_more = len(found) > request.size
        token = seal([float(kept[-1]["place"]), kept[-1]["fingerprint"]], request.filter) if has_more else None
        return GroupPage(rows, token)

    async def group(self, scope: Scope, fingerprint: str, *, now: datetime) -> GroupView | None:
        """None where the viewer sees no attempt of it."""
        if "\0" in fingerprint:
            return None
        async with reading(self._engine) as connection:
            found = await queries.whole(connection, scope, fingerprint, until=now)
            if found is None:
                return None
            (row,) = await _rows(connection, scope, [found], now)
            members = await queries.members(connection, scope, fingerprint)
            verdict = await queries.newest(connection, scope, [fingerprint])
            history = await said_rows.decision_history(connection, scope, fingerprint)
        return _view(row, members, _raw_fingerprint(verdict.get(fingerprint)), history, now)

    async def first_seen(self, scope: Scope, fingerprints: Iterable[str]) -> dict[str, datetime]:
        """When each group was seen first, ever; those that are no group are left out."""
        wanted = [each for each in dict.fromkeys(fingerprints) if each]
        if not wanted:
            return {}
        async with reading(self._engine) as connection:
            return await queries.first_seen(connection, scope, wanted)


def _at(wanted: GroupFilter, now: datetime) -> GroupFilter:
    values = {name: getattr(wanted, name) for name in wanted.__slots__} | {"until": now}
    return GroupFilter(**values)


def _place(values: Sequence[Any]) -> tuple[float, str]:
    if not isinstance(values[0], int | float):
        raise UserError("the page token does not fit this list: start from the first page")
    return float(values[0]), str(values[1])


async def _rows(
    connection: AsyncConnection, scope: Scope, found: Sequence[Found], now: datetime
) -> tuple[GroupRow, ...]:
    names = [each["fingerprint"] for each in found]
    if not names:
        return ()
    since = now.date() - timedelta(days=SPARK_DAYS - 1)
    first = await queries.first_seen(connection, scope, names)
    days = await queries.daily(connection, scope, names, since=since)
    reach = await queries.reach(connection, scope, names, since=since)
    newest = await queries.newest(connection, scope, names)
    return tuple(
        _row(each, first.get(each["fingerprint"]), (days.get(each["fingerprint"], {}), since), (reach, newest))
        for each in found
    )


def _row(
    found: Found,
    first: datetime | None,
    daily: tuple[Mapping[date, int], date],
    beside: tuple[Mapping[str, tuple[tuple[str, ...], int]], Mapping[str, Found]],
) -> GroupRow:
    name = found["fingerprint"]
    counts, since = daily
    teams, namespaces = beside[0].get(name, ((), 0))
    newest = beside[1].get(name)
    verdict = read_verdict(newest["verdict"]) if newest else None
    line = decisive(verdict) if verdict else None
    return GroupRow(
        fingerprint=name,
        cause=found["cause"],
        category=found["category"],
        title=verdict.title if verdict else found["cause"],
        line=line.text if line else "",
        attempts=int(found["attempts"]),
        gpu_seconds=found["gpu_seconds"],
        first_at=first or found["first_at"],
        last_at=found["last_at"],
        last_week=int(found["last_week"]),
        teams=teams,
        namespaces=namespaces,
        days=tuple(counts.get(since + timedelta(days=number), 0) for number in range(SPARK_DAYS)),
        state=found["state"],
        decision=records.from_value(GroupDecision, found["decision"]) if found["decision"] else None,
        uid=newest["rayjob_uid"] if newest else "",
        number=newest["number"] if newest else 0,
    )


def _view(
    row: GroupRow,
    members: Sequence[Found],
    made_of: Mapping[str, Any],
    history: tuple[GroupDecision, ...],
    now: datetime,
) -> GroupView:
    images = _involved((image, each) for each in members for image in each["images"])
    return GroupView(
        row=row,
        used=tuple(str(part) for part in made_of.get("used") or ()),
        version=str(made_of.get("version") or ""),
        looked_at=len(members),
        is_capped=len(members) >= SAMPLE,
        jobs=_involved((f"{each['cluster']}/{each['namespace']}/{each['name']}", each) for each in members),
        teams=_involved((each["team"] or "", each) for each in members),
        nodes=_involved((node, each) for each in members for node in each["nodes"]),
        images=images,
        new_images=_new_images(images, now),
        latest=tuple(_member(each) for each in members[:_LATEST]),
        history=history,
    )


def _involved(pairs: Iterable[tuple[str, Found]]) -> tuple[Involved, ...]:
    """Most often first. ``members`` come newest first, so the first one of a name is its newest."""
    counts: Counter[str] = Counter()
    ends: dict[str, tuple[Found, Found]] = {}
    for name, member in pairs:
        counts[name] += 1
        ends[name] = (ends[name][0] if name in ends else member, member)
    made = (
        Involved(name, count, ends[name][1]["at"], ends[name][0]["at"], ends[name][0]["rayjob_uid"])
        for name, count in counts.items()
    )
    return tuple(sorted(made, key=lambda each: (-each.attempts, each.name)))


def _new_images(images: Sequence[Involved], now: datetime) -> tuple[str, ...]:
    """Those that came within the last week, where the group is older than they are."""
    week = now - timedelta(days=7)
    is_older = any(each.first_at < week for each in images)
    return tuple(each.name for each in images if each.first_at >= week) if is_older else ()


def _member(found: Found) -> GroupMember:
    return GroupMember(
        uid=found["rayjob_uid"],
        number=found["number"],
        cluster=found["cluster"],
        namespace=found["namespace"],
        name=found["name"],
        team=found["team"] or "",
        at=found["at"],
        gpu_seconds=found["gpu_seconds"],
    )


def _raw_fingerprint(newest: Found | None) -> Mapping[str, Any]:
    verdict = newest["verdict"] if newest else None
    made_of = verdict.get("fingerprint") if isinstance(verdict, Mapping) else None
    return made_of if isinstance(made_of, Mapping) else {}
