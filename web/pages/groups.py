"""What the pages of groups show, as plain values: the list, and one group with all that is known of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from archiver.core.people import FEW, GroupDecision
from archiver.read.groups import SAMPLE, GroupFilter, GroupOrder, GroupPage, GroupRequest, GroupRow, GroupView, Involved
from web import urls
from web.pages import bars, links, marks, words
from web.pages.choices import Choice
from web.pages.query import ALL, BadQuery, ListQuery, moment

STATES = {
    "open": "open",
    "muted": "muted until it grows",
    "resolved": "resolved",
    "grown": "muted, but it has grown",
    "came-back": "came back after it was resolved",
}
TO_LOOK_AT = ("open", "grown", "came-back")
_TABS = (("To look at", ""), ("Muted", "muted"), ("Resolved", "resolved"), ("All", ALL))
_ORDERS = ((GroupOrder.NEWEST, "newest"), (GroupOrder.MOST, "most attempts"), (GroupOrder.COST, "most GPU-hours"))
_RANGES = (("7d", "last 7 days"), ("30d", "last 30 days"), ("90d", "last 90 days"), (ALL, "all time"))
DEFAULT_SINCE = "7d"
_SHOWN = 12
NEW = timedelta(days=1)  # for so long a group is marked as one that nobody saw before
_PARTS = {
    "leaf": "its cause",
    "exception": "the exception's type",
    "frames": "the last frames of the job's own code",
    "message": "its message with ids and numbers masked",
}


@dataclass(frozen=True, slots=True)
class GroupsQuery:
    """The list's address as a value. ``state`` empty means what is to look at."""

    state: str = ""
    since: str = DEFAULT_SINCE
    order: GroupOrder = GroupOrder.NEWEST
    teams: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    token: str = ""

    def request(self, now: datetime, size: int) -> GroupRequest:
        """Raises BadQuery."""
        since = moment(self.since, now)
        states = TO_LOOK_AT if not self.state else () if self.state == ALL else (self.state,)
        # a page's token is of the day, so that it still fits when the next page is asked for
        day = since.replace(hour=0, minute=0, second=0, microsecond=0) if since else None
        wanted = GroupFilter(self.teams, self.categories, self.causes, states, since=day, order=self.order)
        return GroupRequest(wanted, size, self.token or None)

    def params(self) -> dict[str, str | list[str]]:
        return {
            "state": self.state,
            "since": self.since if self.since != DEFAULT_SINCE else "",
            "order": self.order.value if self.order is not GroupOrder.NEWEST else "",
            "team": list(self.teams),
            "category": list(self.categories),
            "cause": list(self.causes),
            "page_token": self.token,
        }

    @property
    def href(self) -> str:
        return links.groups(**self.params())


def parse(pairs: Mapping[str, Sequence[str]]) -> GroupsQuery:
    """Raises BadQuery."""

    def first(name: str) -> str:
        return next(iter(pairs.get(name, ())), "").strip()

    def all_of(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(value for value in pairs.get(name, ()) if value))

    if first("state") not in ("", ALL, *STATES):
        raise BadQuery(f"{first('state')!r} is no state of a group: {', '.join(STATES)}")
    if first("order") and first("order") not in list(GroupOrder):
        raise BadQuery(f"{first('order')!r} is no order: {', '.join(GroupOrder)}")
    return GroupsQuery(
        state=first("state"),
        since=first("since") or DEFAULT_SINCE,
        order=GroupOrder(first("order") or GroupOrder.NEWEST),
        teams=all_of("team"),
        categories=all_of("category"),
        causes=all_of("cause"),
        token=first("page_token"),
    )


@dataclass(frozen=True, slots=True)
class Row:
    """One group in a list."""

    href: str
    title: str
    line: str
    group: GroupRow
    spark: str
    spark_words: str
    state: str
    teams: str
    is_new: bool


def values(query: GroupsQuery, page: GroupPage, *, now: datetime) -> dict[str, object]:
    """All that the list's template reads."""
    plain = replace(query, token="")
    chosen = (("team", query.teams), ("kind", query.categories), ("cause", query.causes))
    return {
        "page": "groups",
        "now": now,
        "tabs": _choices(plain, "state", query.state, [(state, label) for label, state in _TABS]),
        "orders": _choices(plain, "order", query.order, _ORDERS),
        "ranges": _choices(plain, "since", query.since, _RANGES),
        "chips": [Choice(f"{name}: {value}", links.groups()) for name, words_ in chosen for value in words_],
        "rows": [row(each, now - NEW) for each in page.rows],
        "older_href": replace(query, token=page.next_token).href if page.next_token else None,
        "newest_href": plain.href if query.token else None,
        "exports": _exports(plain, now),
        "commands": ("archiver groups",),
    }


def row(group: GroupRow, since: datetime | None) -> Row:
    teams = [team or "no team" for team in group.teams]
    more = f" and {len(teams) - 3} more" if len(teams) > 3 else ""
    return Row(
        href=links.group(group.fingerprint),
        title=group.title or group.cause.replace("-", " "),
        line=marks.line_text(group.line.encode("utf-8", "surrogateescape")),
        group=group,
        spark=bars.spark(group.days),
        spark_words=f"{words.plural(sum(group.days), 'attempt')} failed in the last {len(group.days)} days",
        state=STATES.get(group.state, group.state),
        teams=", ".join(teams[:3]) + more,
        is_new=since is not None and group.first_at >= since,
    )


def _choices(plain: GroupsQuery, part: str, current: str, told: Sequence[tuple[str, str]]) -> list[Choice]:
    made = []
    for value, label in told:
        changed: dict[str, object] = {part: value}
        made.append(Choice(label, replace(plain, **changed).href, is_current=current == value))  # type: ignore[arg-type]
    return made


def _exports(query: GroupsQuery, now: datetime) -> list[Choice]:
    since = moment(query.since, now)
    states = list(TO_LOOK_AT) if not query.state else [] if query.state == ALL else [query.state]
    params = query.params() | {"state": states, "since": since.isoformat().replace("+00:00", "Z") if since else ""}
    params.pop("page_token")
    return [
        Choice("JSON", links.with_query(urls.API + urls.GROUPS, params)),
        Choice("NDJSON", links.with_query(urls.API + urls.GROUPS_EXPORT, params)),
        Choice("This view as a link", query.href),
    ]


@dataclass(frozen=True, slots=True)
class Part:
    """One sort of what is involved: the most frequent ones, each with its share of the attempts looked at."""

    title: str
    total: int
    shown: tuple[tuple[Involved, str, str], ...]


def group_values(view: GroupView, *, now: datetime) -> dict[str, object]:
    """All that a group's template reads."""
    group = view.row
    listed = ListQuery(since=ALL).toggled("group", group.fingerprint)
    return {
        "page": "groups",
        "now": now,
        "view": view,
        "row": row(group, None),
        "spark": bars.spark(group.days),
        "grouped_by": _grouped_by(view),
        "looked_at": _looked_at(view),
        "state": _state(group),
        "parts": (
            _part("Jobs", view.jobs, view, "job"),
            _part("Teams", view.teams, view, "team"),
            _part("Nodes", view.nodes, view, "node"),
            _part("Images", view.images, view, "image"),
        ),
        "new_images": [words.image(image) for image in view.new_images],
        "history": [(decision, STATES.get(decision.state, decision.state)) for decision in view.history],
        "decide_href": links.decide(group.fingerprint),
        "listed_href": listed.href,
        "api_href": urls.group(group.fingerprint),
        "commands": (f"archiver groups {group.fingerprint}",),
    }


def _state(group: GroupRow) -> str:
    """The state as a sentence: who decided it and what that means now."""
    decision = group.decision
    if decision is None:
        return "Open: nobody has decided anything yet."
    if group.state == "grown":
        return (
            f"{_by(decision)} muted it, but it has grown: {words.plural(group.last_week, 'attempt')} in the last week."
        )
    if group.state == "came-back":
        return f"{_by(decision)} called it resolved, but it came back."
    if group.state == "muted":
        limit = 2 * max(decision.weekly, FEW)
        return f"{_by(decision)} muted it until {words.number(limit)} attempts fail with it within a week."
    return f"{_by(decision)} {'called it resolved' if group.state == 'resolved' else 'opened it'}."


def _by(decision: GroupDecision) -> str:
    return decision.who or "Somebody"


def _grouped_by(view: GroupView) -> str:
    parts = [_PARTS.get(part, part) for part in view.used]
    what = ", ".join(parts) if parts else "what its verdict says"
    version = f" (fingerprint version {view.version})" if view.version else ""
    return f"Grouped by {what}{version}."


def _looked_at(view: GroupView) -> str:
    return f"Of its newest {words.number(SAMPLE)} attempts." if view.is_capped else ""


def _part(title: str, involved: Sequence[Involved], view: GroupView, name: str) -> Part:
    shown = []
    for each in involved[:_SHOWN]:
        label = words.image(each.name) if name == "image" else each.name or "not said"
        listed = ListQuery(since=ALL).toggled("group", view.row.fingerprint)
        href = links.job(each.uid) if name == "job" else listed.toggled(name, each.name).href if each.name else ""
        shown.append((each, label, href))
    return Part(title, len(involved), tuple(shown))
