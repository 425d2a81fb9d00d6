"""What the list of failures shows, as plain values for its template."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from archiver.core.model import Completeness
from archiver.read.views import AttemptCell, CauseBrief, DecisiveLine, Facet, FacetsView, JobPage, JobRow
from web.pages import links, marks, status, words
from web.pages.query import ALL, FIELDS, ListQuery
from web.pages.reasons import reason

_TITLES = {
    "team": "Team",
    "namespace": "Namespace",
    "cluster": "Cluster",
    "queue": "Queue",
    "category": "Kind of cause",
    "cause": "Cause",
    "completeness": "Evidence",
    "node": "Node",
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


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing to click: a tab, a chip, a facet's value, an export."""

    label: str
    href: str
    count: str | None = None
    is_current: bool = False


@dataclass(frozen=True, slots=True)
class FacetChoices:
    name: str
    title: str
    values: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    headline: str
    parts: tuple[str, ...]


def values(
    query: ListQuery, page: JobPage, everything: FacetsView, counted: FacetsView, *, now: datetime
) -> dict[str, object]:
    """All that the template reads. ``everything`` counts without regard to status, ``counted`` what is listed."""
    return {
        "heading": "Failures" if not query.statuses else "RayJobs",
        "search": query.text,
        "summary": summary(everything, counted if not query.statuses else None),
        "tabs": tabs(query, everything),
        "chips": chips(query),
        "clear_href": query.without("choices").href,
        "facets": facets(query, counted),
        "rows": rows(page),
        "empty": empty(query, everything),
        "newer_href": query.at(page.prev_token, now).href if page.prev_token else None,
        "older_href": query.at(page.next_token, now).href if page.next_token else None,
        "exports": exports(query),
        "commands": commands(query),
    }


def rows(page: JobPage) -> tuple[Row, ...]:
    return tuple(_row(row) for row in page.rows)


def _row(row: JobRow) -> Row:
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


def summary(everything: FacetsView, failures_only: FacetsView | None) -> Summary:
    """The sentence at the top, exact up to the number that the facets looked at. Evidence is told of what has ended."""
    if not everything.total:
        return Summary("Nothing archived yet", ())
    total = f"the newest {words.number(everything.total)}" if everything.capped else words.number(everything.total)
    failures = _failures(everything)
    headline = f"{words.number(failures)} of {total} RayJobs failed" if failures else "No RayJob failed"
    lost = words.gpu_hours(everything.gpu_seconds_lost) + " lost" if everything.gpu_seconds_lost else None
    of = None if failures else f"{total} looked at"
    return Summary(headline, _present(of, lost, _evidence_words(failures_only) if failures_only else None))


def _counts(facets: FacetsView, name: str) -> dict[str, int]:
    return {value.value: value.count for facet in facets.facets if facet.name == name for value in facet.values}


def _failures(facets: FacetsView) -> int:
    counts = _counts(facets, "statuses")
    return sum(counts.get(word, 0) for word in status.FAILURES)


def _evidence_words(facets: FacetsView) -> str | None:
    counts = _counts(facets, "completeness")
    if not counts:
        return None
    parts = [f"{words.number(counts[key])} {word}" for key, word in _SHORT.items() if counts.get(key)]
    return f"evidence: {', '.join(parts)}" if parts else "all evidence complete"


_SHORT = {"partial": "with something missing", "lost": "lost"}


def tabs(query: ListQuery, everything: FacetsView) -> tuple[Choice, ...]:
    counts, failures = _counts(everything, "statuses"), _failures(everything)
    tab_list = [("Failed", (), failures), ("Running", ("running",), counts.get("running", 0))]
    tab_list += [("Succeeded", ("succeeded",), counts.get("succeeded", 0)), ("All", (ALL,), everything.total)]
    more = "+" if everything.capped else ""
    return tuple(
        Choice(label, query.with_statuses(*statuses).href, f"{words.number(count)}{more}", query.statuses == statuses)
        for label, statuses, count in tab_list
    )


def chips(query: ListQuery) -> tuple[Choice, ...]:
    """What narrows the list, each with the address without it."""
    made = [Choice(f"{name}: {value}", query.toggled(name, value).href) for name, value in query.choices]
    texts = (("text", query.text, "name has"), ("since", query.since, "since"), ("until", query.until, "until"))
    made += [Choice(f"{label} {value}", query.without(part).href) for part, value, label in texts if value]
    return tuple(made)


def facets(query: ListQuery, counted: FacetsView) -> tuple[FacetChoices, ...]:
    """Facets with something to choose: more than one value, or one that is chosen."""
    by_field = {facet.name: facet for facet in counted.facets}
    made = [_facet(query, name, by_field[field]) for name, field in FIELDS.items() if field in by_field]
    return tuple(facet for facet in made if len(facet.values) > 1 or any(value.is_current for value in facet.values))


def _facet(query: ListQuery, name: str, facet: Facet) -> FacetChoices:
    chosen = query.chosen(name)
    values = tuple(
        Choice(
            value.value or "not said",
            query.toggled(name, value.value).href,
            words.number(value.count) + ("+" if value.capped else ""),
            value.value in chosen,
        )
        for value in facet.values[:_SHOWN]
        if value.value
    )
    return FacetChoices(name, _TITLES[name], values)


@dataclass(frozen=True, slots=True)
class Empty:
    """An empty list says what to do next."""

    title: str
    text: str
    actions: tuple[Choice, ...] = ()


def empty(query: ListQuery, everything: FacetsView) -> Empty:
    if query.token:
        return Empty(
            "Nothing further",
            "There are no more RayJobs on this side.",
            (Choice("Back to the newest", query.newest().href),),
        )
    if chips(query):
        return Empty(
            "No RayJob fits",
            "Nothing in the archive fits all of what narrows this list.",
            (Choice("Show it without narrowing", query.without("choices").href),),
        )
    if everything.total:
        return Empty("Nothing here", _good_news(query), (Choice("Show all RayJobs", query.with_statuses(ALL).href),))
    return Empty(
        "No RayJob has been seen yet",
        "The archiver keeps every RayJob from the moment it watches. Run one; it appears here within seconds.",
        (Choice("See whether the watcher is well", "/health"),),
    )


def _good_news(query: ListQuery) -> str:
    return "No archived RayJob failed." if not query.statuses else "No archived RayJob has this status."


def exports(query: ListQuery) -> Sequence[Choice]:
    params = query.params() | {"status": list(query.wanted_statuses)}
    return (
        Choice("CSV", links.csv(**params)),
        Choice("JSON", links.api_jobs(**params)),
        Choice("This view as a link", query.href),
    )


def commands(query: ListQuery) -> tuple[str, ...]:
    """The same list in a terminal."""
    flags = [f"--{name} {value}" for name, value in query.choices if name in ("team", "namespace", "status")]
    flags += [f"--status {word}" for word in query.wanted_statuses]
    if query.since:
        flags.append(f"--since {query.since}")
    scope = next(iter(query.chosen("namespace")), None)
    return (" ".join(["archiver jobs", *flags]), f"kubectl get rayjobs {'-n ' + scope if scope else '-A'}")
