"""What stands above the list of failures: the sentence, the time it speaks of, the chart, what it cost and whom."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from archiver.read.statistics import INCOMPLETE, LOOKED_AT, Share, Statistics
from web.deps import Viewer
from web.pages import bars, words
from web.pages.choices import Choice
from web.pages.feedback import title_of
from web.pages.query import ALL, DAY, WEEK, ListQuery

_SHOWN = 5
_RANGES = (("1h", "last hour"), (DAY, "last 24 h"), (WEEK, "last 7 days"), ("30d", "last 30 days"), (ALL, "all time"))
_SPOKEN = {
    "1h": "in the last hour",
    DAY: "in the last 24 hours",
    WEEK: "in the last 7 days",
    "30d": "in the last 30 days",
    ALL: "of all time",
}


@dataclass(frozen=True, slots=True)
class Summary:
    headline: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """GPU time lost to one cause or by one team. ``share`` of the dearest one, in a hundred."""

    label: str
    href: str
    lost: str
    failed: str
    share: int
    category: str
    is_current: bool


async def with_range(viewer: Viewer, asked: ListQuery, now: datetime) -> tuple[ListQuery, str]:
    """The last day unless the address says another time; the last week, or everything, where that is empty: and why."""
    if asked.has_range:
        return asked, ""
    empty = ""
    for since, spoken in ((DAY, _SPOKEN[DAY]), (WEEK, _SPOKEN[WEEK])):
        wanted = asked.within(since)
        if await viewer.reader.statistics.has_failures(viewer.scope, wanted.filter(now)):
            return wanted, f"Nothing here {empty}, so these are the last 7 days." if empty else ""
        empty = spoken
    everything = asked.within(ALL)
    if await viewer.reader.statistics.has_failures(viewer.scope, everything.filter(now)):
        return everything, f"Nothing here {empty}, so this is all that is archived."
    return everything, ""


def values(query: ListQuery, numbers: Statistics, *, now: datetime) -> dict[str, object]:
    """All that the upper part of the template reads."""
    return {
        "summary": summary(query, numbers),
        "ranges": ranges(query),
        "bars": bars.draw(numbers, lambda start, end: _narrowed(query, start, end), now=now),
        "costs": (
            ("By cause", _costs(query, "cause", numbers.causes)),
            ("By team", _costs(query, "team", numbers.teams)),
        ),
    }


def summary(query: ListQuery, numbers: Statistics) -> Summary:
    """The sentence at the top, over attempts: a RayJob that was retried failed more than once."""
    if not numbers.attempts:
        return Summary("Nothing archived yet" if query.since == ALL else f"No attempt ended {spoken(query)}", ())
    total = words.number(numbers.attempts)
    if numbers.is_capped:
        total = f"the newest {words.number(LOOKED_AT)}"
    if not numbers.failed:
        return Summary(f"No attempt of {total} failed {spoken(query)}", _present(_evidence(numbers)))
    headline = f"{words.plural(numbers.failed, 'attempt')} failed of {total} {spoken(query)}"
    lost = f"{words.gpu_hours(numbers.gpu_seconds_lost)} lost" if numbers.gpu_seconds_lost else None
    return Summary(headline, _present(lost, _new(numbers), _evidence(numbers)))


def spoken(query: ListQuery) -> str:
    """The time that the list is of, in words."""
    if query.until:
        start = f"from {_day(query.since)} " if query.since and query.since != ALL else ""
        return f"{start}until {_day(query.until)}"
    return _SPOKEN.get(query.since) or (f"since {_day(query.since)}" if query.since else _SPOKEN[ALL])


def ranges(query: ListQuery) -> tuple[Choice, ...]:
    is_open = not query.until
    return tuple(
        Choice(label, query.within(since).href, is_current=is_open and query.since == since) for since, label in _RANGES
    )


def _day(text: str) -> str:
    """A written-out time without its seconds; anything else as it stands."""
    return text[:16].replace("T", " ") if text[:4].isdecimal() and "T" in text else text


def _new(numbers: Statistics) -> str | None:
    if not numbers.new_kinds:
        return None
    return f"{words.plural(numbers.new_kinds, 'kind')} never seen before"


def _evidence(numbers: Statistics) -> str:
    if not numbers.incomplete:
        return "all evidence complete"
    more = "+" if numbers.incomplete >= INCOMPLETE else ""
    return f"evidence of {words.number(numbers.incomplete)}{more} not complete"


def _narrowed(query: ListQuery, start: datetime, end: datetime) -> str:
    return query.within(start.isoformat().replace("+00:00", "Z"), end.isoformat().replace("+00:00", "Z")).href


def _costs(query: ListQuery, name: str, shares: Sequence[Share]) -> tuple[Cost, ...]:
    most = shares[0].gpu_seconds_lost if shares else 0.0
    chosen = query.chosen(name)
    return tuple(
        Cost(
            label=(title_of(share.name) if name == "cause" else share.name) or _UNNAMED[name],
            href=query.toggled(name, share.name).href if share.name else "",
            lost=words.hours(share.gpu_seconds_lost),
            failed=words.plural(share.failed, "failure"),
            share=round(100 * share.gpu_seconds_lost / most) if most else 0,
            category=share.category,
            is_current=share.name in chosen,
        )
        for share in shares[:_SHOWN]
    )


_UNNAMED = {"cause": "no verdict yet", "team": "no team"}


def _present(*parts: str | None) -> tuple[str, ...]:
    return tuple(part for part in parts if part)


def views() -> tuple[Choice, ...]:
    """Good questions as addresses: a view is its address, so it is kept as a bookmark, in a runbook or in chat."""
    week = ListQuery(since=WEEK)
    return (
        Choice("this week", week.href),
        Choice("out of memory", week.toggled("category", "memory").href),
        Choice("broken hardware", week.toggled("category", "accelerator").href),
        Choice("cause unknown", week.toggled("category", "unknown").href),
        Choice("evidence missing", week.toggled("completeness", "partial").toggled("completeness", "lost").href),
        Choice("running now", ListQuery(statuses=("running",), since=ALL).href),
    )
