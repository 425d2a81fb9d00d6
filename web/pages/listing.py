"""What the list of failures shows, as plain values for its template."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from archiver.core.model import Completeness
from archiver.read.views import (
    AttemptCell,
    CauseBrief,
    DecisiveLine,
    Facet,
    FacetsView,
    FacetValue,
    JobOrder,
    JobPage,
    JobRow,
)
from web.pages import links, marks, overview, status, words
from web.pages.choices import Choice
from web.pages.feedback import title_of
from web.pages.query import ALL, FIELDS, ListQuery, moment
from web.pages.reasons import reason

_TITLES = {
    "team": "Team",
    "category": "Kind of cause",
    "cause": "Cause",
    "namespace": "Namespace",
    "cluster": "Cluster",
    "queue": "Queue",
    "node": "Node",
    "image": "Image",
    "completeness": "Evidence",
}
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One RayJob in three lines: who, why, the decisive line."""

    uid: str
    name: str
    status: str
    where: tuple[str, ...]
    at: datetime
    cost: tuple[str, ...]
    attempts: tuple[AttemptCell, ...]
    cause: CauseBrief | None
    reason_words: str
    decisive: DecisiveLine | None
    decisive_href: str | None
    place: str
    completeness: Completeness
    completeness_reason: str
    is_new: bool
    group_href: str | None


@dataclass(frozen=True, slots=True)
class FacetChoices:
    name: str
    title: str
    values: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What was read for one list. ``seen`` has when each group of the page was seen first; ``note`` explains its time.

    ``knows_new`` where the archive is older than the list's time, so that a kind can be new.
    """

    page: JobPage
    counted: FacetsView
    seen: Mapping[str, datetime]
    note: str
    knows_new: bool


def values(query: ListQuery, found: Found, *, now: datetime) -> dict[str, object]:
    """All that the lower part of the template reads."""
    page = found.page
    since = moment(query.since, now) if found.knows_new else None
    return {
        "heading": "Failures" if not query.statuses else "RayJobs",
        "search": query.text,
        "note": found.note,
        "tabs": tabs(query, found.counted),
        "chips": chips(query),
        "clear_href": query.without("choices").href,
        "facets": facets(query, found.counted),
        "facet_note": _facet_note(found.counted),
        "rows": tuple(_row(row, is_new=_is_new(row, found.seen, since)) for row in page.rows),
        "empty": empty(query, found.counted),
        "newer_href": query.at(page.prev_token, now).href if page.prev_token else None,
        "older_href": query.at(page.next_token, now).href if page.next_token else None,
        "orders": orders(query),
        "views": overview.views(),
        "exports": exports(query, now),
        "commands": commands(query),
    }


def _is_new(row: JobRow, seen: Mapping[str, datetime], since: datetime | None) -> bool:
    """A kind of failure that nobody saw before the time of the list."""
    first = seen.get(row.fingerprint or "")
    return first is not None and since is not None and first >= since


def _facet_note(counted: FacetsView) -> str:
    return f"Counted over the newest {words.number(counted.limit)}." if counted.capped else ""


def shown(row: JobRow) -> Row:
    """One row for a page that is no list of a time."""
    return _row(row, is_new=False)


def _row(row: JobRow, *, is_new: bool) -> Row:
    ran = words.duration(row.duration_seconds) if row.duration_seconds is not None else None
    cost = (f"{'runs' if row.status == 'running' else 'ran'} {ran}" if ran else None, _gpus(row.gpus))
    return Row(
        uid=row.uid,
        name=row.name,
        status=row.status,
        where=_present(
            f"{row.cluster}/{row.namespace}",
            words.attribution("team", row.team),
            words.attribution("queue", row.queue),
        ),
        at=row.at,
        cost=_present(*cost),
        attempts=row.attempts,
        cause=None if row.status == "succeeded" else row.cause,
        reason_words=reason(row.reason),
        decisive=None if row.status == "succeeded" else _clean(row.decisive),
        decisive_href=_decisive_href(row),
        place=words.place(row.decisive.source, row.decisive.line) if row.decisive else "",
        completeness=row.completeness,
        completeness_reason=row.completeness_reason,
        is_new=is_new,
        group_href=links.group(row.fingerprint) if row.fingerprint else None,
    )


def _present(*parts: str | None) -> tuple[str, ...]:
    return tuple(part for part in parts if part)


def _gpus(count: float) -> str | None:
    return words.plural(count, "GPU") if count else None


def _clean(line: DecisiveLine | None) -> DecisiveLine | None:
    if line is None:
        return None
    text = marks.line_text(line.text.encode("utf-8", "surrogateescape"))
    return DecisiveLine(line.source, line.artifact, line.line, text)


def _decisive_href(row: JobRow) -> str | None:
    line = row.decisive
    if line is None or line.artifact is None or not row.attempts:
        return None
    return links.log(row.uid, row.attempts[-1].number, line.artifact, line=line.line)


def _counts(facets: FacetsView, name: str) -> dict[str, int]:
    return {value.value: value.count for facet in facets.facets if facet.name == name for value in facet.values}


def _failures(counts: Mapping[str, int]) -> int:
    return sum(counts.get(word, 0) for word in status.FAILURES)


def tabs(query: ListQuery, counted: FacetsView) -> tuple[Choice, ...]:
    """By how they ended; the counts are of RayJobs, without regard to the choice of one tab."""
    counts = _counts(counted, "statuses")
    told = (
        ("Failed", (), _failures(counts)),
        ("Running", ("running",), counts.get("running", 0)),
        ("Succeeded", ("succeeded",), counts.get("succeeded", 0)),
        ("All", (ALL,), sum(counts.values())),
    )
    more = "+" if sum(counts.values()) >= counted.limit else ""
    return tuple(
        Choice(label, query.with_statuses(*statuses).href, f"{words.number(count)}{more}", query.statuses == statuses)
        for label, statuses, count in told
    )


def chips(query: ListQuery) -> tuple[Choice, ...]:
    """What narrows the list, each with the address without it. The usual times are chosen above, and are no chips."""
    made = [Choice(_chip(name, value), query.toggled(name, value).href, title=value) for name, value in query.choices]
    if query.text:
        made.append(Choice(f"name has {query.text}", query.without("text").href))
    if query.until:
        made.append(Choice(overview.spoken(query), query.within(ALL).href))
    return tuple(made)


def _chip(name: str, value: str) -> str:
    return f"{_TITLES.get(name, name).lower() if name != 'category' else 'kind'}: {_value_words(name, value)}"


def _value_words(name: str, value: str) -> str:
    """A facet's value as people say it; what has no better words stays as it is."""
    if name == "cause":
        return title_of(value)
    if name == "category":
        return words.category(value)
    return words.image(value) if name == "image" else value


def facets(query: ListQuery, counted: FacetsView) -> tuple[FacetChoices, ...]:
    """Facets with something to choose: more than one value, or one that is chosen."""
    by_field = {facet.name: facet for facet in counted.facets}
    made = [_facet(query, name, by_field[field]) for name, field in FIELDS.items() if field in by_field]
    return tuple(facet for facet in made if len(facet.values) > 1 or any(value.is_current for value in facet.values))


def _facet(query: ListQuery, name: str, facet: Facet) -> FacetChoices:
    chosen = query.chosen(name)
    values = tuple(
        Choice(
            _value_words(name, value.value),
            query.toggled(name, value.value).href,
            words.number(value.count) + ("+" if value.capped else ""),
            value.value in chosen,
            title=value.value,
        )
        for value in _shown(facet, chosen)
    )
    return FacetChoices(name, _TITLES[name], values)


def _shown(facet: Facet, chosen: Sequence[str]) -> list[FacetValue]:
    """The most frequent values, and those that are chosen whatever their count."""
    said = [value for value in facet.values if value.value]
    known = {value.value for value in said}
    rare = [value for value in said[_SHOWN:] if value.value in chosen]
    return [*said[:_SHOWN], *rare, *(FacetValue(word, 0) for word in chosen if word not in known)]


@dataclass(frozen=True, slots=True)
class Empty:
    """An empty list says what to do next."""

    title: str
    text: str
    actions: tuple[Choice, ...] = ()


def empty(query: ListQuery, counted: FacetsView) -> Empty:
    if query.token:
        return Empty(
            "Nothing further",
            "There are no more RayJobs on this side.",
            (Choice("Back to the newest", query.newest().href),),
        )
    if query.choices or query.text:
        steps = [Choice("Show it without narrowing", query.without("choices").href)]
        steps += [Choice("Look at all time", query.within(ALL).href)] if query.since != ALL or query.until else []
        return Empty("No RayJob fits", "Nothing in the archive fits all of what narrows this list.", tuple(steps))
    if sum(_counts(counted, "statuses").values()):
        return Empty("Nothing here", _good_news(query), (Choice("Show all RayJobs", query.with_statuses(ALL).href),))
    if query.since != ALL or query.until:
        return Empty(
            "Nothing here", "No RayJob ended in this time.", (Choice("Look at all time", query.within(ALL).href),)
        )
    return Empty(
        "No RayJob has been seen yet",
        "The archiver keeps every RayJob from the moment it watches. Run one; it appears here within seconds.",
        (Choice("See whether the watcher is well", "/health"),),
    )


def _good_news(query: ListQuery) -> str:
    return "No archived RayJob failed." if not query.statuses else "No archived RayJob has this status."


def orders(query: ListQuery) -> tuple[Choice, ...]:
    told = ((JobOrder.NEWEST, "newest"), (JobOrder.COST, "most GPU-hours"))
    return tuple(Choice(label, query.sorted_by(order).href, is_current=query.order is order) for order, label in told)


def exports(query: ListQuery, now: datetime) -> Sequence[Choice]:
    """The same list for programs; its times are written out, so that it stays the same list."""
    params = query.absolute(now).params() | {"status": list(query.wanted_statuses)}
    return (
        Choice("CSV", links.csv(**params)),
        Choice("JSON", links.api_jobs(**params)),
        Choice("NDJSON", links.api_export(**params)),
        Choice("This view as a link", query.href),
    )


_FLAGS = ("team", "namespace", "cluster", "cause")


def commands(query: ListQuery) -> tuple[str, ...]:
    """The same list in a terminal."""
    pairs = [(name, value) for name, value in query.choices if name in _FLAGS]
    pairs += [("status", word) for word in query.wanted_statuses]
    pairs += [("query", query.text)] if query.text else []
    pairs += [
        (name, value) for name, value in (("since", query.since), ("until", query.until)) if value not in ("", ALL)
    ]
    scope = next(iter(query.chosen("namespace")), None)
    flags = [f"--{name} {shlex.quote(value)}" for name, value in pairs]
    kubectl = f"kubectl get rayjobs {'-n ' + shlex.quote(scope) if scope else '-A'}"
    return (" ".join(["archiver jobs", *flags]), kubectl)
