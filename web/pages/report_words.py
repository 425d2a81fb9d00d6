"""What the pages of causes, teams and nodes show, as plain values for their templates."""

from dataclasses import dataclass
from datetime import datetime

from archiver.core.chance import FEWEST_JOBS, NAMED_BELOW
from archiver.read.statistics import NodesView, NodeView, Share, Statistics
from web import catalogue, urls
from web.pages import bars, links, overview, words
from web.pages.choices import Choice
from web.pages.feedback import leaves
from web.pages.listing import Row
from web.pages.query import ALL, BadQuery, ListQuery

_RANGES = (
    ("24h", "last 24 h"),
    ("7d", "last 7 days"),
    ("30d", "last 30 days"),
    ("90d", "last 90 days"),
    (ALL, "all time"),
)
_SINCE = "30d"
_DAYS = ((1, "last day"), (7, "last 7 days"), (30, "last 30 days"))
_MAX_DAYS = 90
_NODES_SHOWN = 100


def asked(since: str | None) -> ListQuery:
    """The time that a report is of."""
    return ListQuery(since=(since or "").strip() or _SINCE)


def days(text: str | None) -> int:
    """Raises BadQuery."""
    if not text:
        return 7
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= _MAX_DAYS):
        raise BadQuery(f"{text!r} is no number of days from 1 to {_MAX_DAYS}")
    return int(text)


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a report: what, how often, what it cost, as a share of the dearest."""

    label: str
    href: str
    note: str
    failed: int
    attempts: int
    lost: float
    share: int
    category: str


def cause_values(query: ListQuery, counted: Statistics, *, now: datetime) -> dict[str, object]:
    views = catalogue.cause_views(counted, leaves())
    most = max((view.gpu_seconds_lost for view in views), default=0.0)
    tree = [
        (branch, [_cause_line(query, view, most) for view in branch.causes if view.failed], _unseen(branch, query))
        for branch in catalogue.branches(views)
        if branch.category not in ("none",)
    ]
    return {"page": "causes", "tree": tree, **_common(query, counted, "/causes", urls.CAUSES, now=now)}


def _cause_line(query: ListQuery, view: catalogue.CauseView, most: float) -> Line:
    href = links.with_query(links.cause(view.cause), {"since": query.since}) if view.cause else ""
    owner = f"for: {view.owner}" if view.owner else ""
    return Line(
        view.title,
        href,
        owner,
        view.failed,
        0,
        view.gpu_seconds_lost,
        _share(view.gpu_seconds_lost, most),
        view.category,
    )


def _unseen(branch: catalogue.Branch, query: ListQuery) -> list[Choice]:
    """Causes that nothing failed of: named, because a tree with holes does not teach."""
    unseen = sorted((view for view in branch.causes if not view.failed), key=lambda view: view.title)
    return [Choice(view.title, links.with_query(links.cause(view.cause), {"since": query.since})) for view in unseen]


def one_cause_values(
    query: ListQuery, view: catalogue.CauseView, counted: Statistics, rows: tuple[Row, ...], *, now: datetime
) -> dict[str, object]:
    leaf = leaves().get(view.cause)
    yields_to = leaf.yields_to if leaf else ()
    near = sorted(
        (each for each in leaves().values() if leaf and each.category == leaf.category), key=lambda e: e.title
    )
    most = counted.teams[0].gpu_seconds_lost if counted.teams else 0.0
    narrowed = ListQuery((("cause", view.cause),), since=query.since)
    return {
        "page": "causes",
        "cause": view,
        "yields_to": [Choice(leaves()[name].title, links.cause(name)) for name in yields_to if name in leaves()],
        "needs": leaf.needs if leaf else (),
        "neighbours": [Choice(each.title, links.cause(each.id)) for each in near if each.id != view.cause],
        "teams": [_team_line(narrowed, share, most) for share in counted.teams[:10]],
        "rows": rows,
        "groups_href": links.groups(cause=view.cause, state=ALL),
        "listed_href": narrowed.href,
        **_common(query, counted, links.cause(view.cause), f"/causes/{view.cause}", now=now),
        "commands": (f"archiver rules explain {view.cause}", f"archiver jobs --cause {view.cause}"),
    }


def team_values(query: ListQuery, counted: Statistics, *, now: datetime) -> dict[str, object]:
    most = counted.teams[0].gpu_seconds_lost if counted.teams else 0.0
    lines = [_team_line(query, share, most) for share in counted.teams]
    return {"page": "teams", "lines": lines, **_common(query, counted, "/teams", urls.TEAMS, now=now)}


def _team_line(query: ListQuery, share: Share, most: float) -> Line:
    href = query.toggled("team", share.name).href if share.name else ""
    portion = (
        f"{round(100 * share.failed / share.attempts)} % of its {words.number(share.attempts)}"
        if share.attempts
        else ""
    )
    return Line(
        share.name or "no team",
        href,
        portion,
        share.failed,
        share.attempts,
        share.gpu_seconds_lost,
        _share(share.gpu_seconds_lost, most),
        "",
    )


def node_values(view: NodesView, of_days: int, *, now: datetime) -> dict[str, object]:
    suspects = [node for node in view.nodes if node.is_suspect]
    shown = [node for node in view.nodes if node.failed][:_NODES_SHOWN]
    spoken = "day" if of_days == 1 else f"{of_days} days"
    return {
        "page": "nodes",
        "now": now,
        "view": view,
        "sentence": _node_sentence(view, suspects, spoken),
        "suspects": [(node, _accusation(node)) for node in suspects],
        "nodes": shown,
        "shown": _NODES_SHOWN,
        "method": (
            f"A node is named when so many failures like that of broken hardware, in at least {FEWEST_JOBS} jobs, would come"
            f" on any of {words.plural(view.total, 'node')} by chance less than once in {round(1 / NAMED_BELOW)} times: the"
            " binomial tail at the rate of all other nodes of its cluster, times the number of nodes."
        ),
        "ranges": [
            Choice(label, links.with_query("/nodes", {"days": str(n)}), is_current=n == of_days) for n, label in _DAYS
        ],
        "exports": (Choice("JSON", links.with_query(urls.API + urls.NODES, {"days": str(of_days)})),),
        "listed": {node.node: _on_node(node.node, of_days) for node in (*suspects, *shown)},
        "commands": ("kubectl get nodes -o wide",),
    }


def _node_sentence(view: NodesView, suspects: list[NodeView], spoken: str) -> str:
    if not view.total:
        return f"No attempt of the last {spoken} says on which node it ran."
    if not suspects:
        return f"No node stands out among {words.plural(view.total, 'node')} of the last {spoken}."
    names = ", ".join(node.node for node in suspects[:5])
    more = f" and {len(suspects) - 5} more" if len(suspects) > 5 else ""
    verb = "fails" if len(suspects) == 1 else "fail"
    return f"{words.plural(len(suspects), 'node')} {verb} more than chance allows: {names}{more}."


def _on_node(node: str, of_days: int) -> str:
    return ListQuery((("node", node),), since=f"{of_days}d").href


def _accusation(node: NodeView) -> str:
    return (
        f"{words.number(node.hardware)} of {words.plural(node.attempts, 'attempt')} on it failed as on broken hardware, in"
        f" {words.plural(node.jobs, 'job')}; at the rate of the other nodes it would be {node.expected:.1f}."
        f" By chance any node would look like that: {words.chance(node.chance)}."
    )


def _share(part: float, most: float) -> int:
    return round(100 * part / most) if most else 0


def _common(query: ListQuery, counted: Statistics, path: str, api: str, *, now: datetime) -> dict[str, object]:
    written = query.absolute(now)
    return {
        "now": now,
        "summary": overview.summary(query, counted),
        "ranges": [
            Choice(label, links.with_query(path, {"since": since}), is_current=query.since == since)
            for since, label in _RANGES
        ],
        "bars": bars.draw(counted, lambda start, end: _list_of(query, start, end), now=now),
        "exports": (Choice("JSON", links.with_query(urls.API + api, {"since": written.since})),),
        "commands": ("archiver causes",),
    }


def _list_of(query: ListQuery, start: datetime, end: datetime) -> str:
    """The failures of one bar."""
    return query.within(*(moment.isoformat().replace("+00:00", "Z") for moment in (start, end))).href
