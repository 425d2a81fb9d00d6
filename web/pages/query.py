"""The list's address as a value: which jobs, which page, and the addresses one step away. The address is the whole state."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from archiver.errors import UserError
from archiver.read.views import JobFilter, JobOrder, PageRequest
from web.pages import links
from web.pages.status import FAILURES

# parameter of the address → field of JobFilter
FIELDS = {
    "team": "teams",
    "namespace": "namespaces",
    "cluster": "clusters",
    "queue": "queues",
    "category": "categories",
    "cause": "causes",
    "completeness": "completeness",
    "node": "nodes",
    "image": "images",
    "group": "fingerprints",
}
ALL = "all"
DAY, WEEK = "24h", "7d"
MAX_VALUES = 50
MAX_CHARS = 1_000
_YEARS = range(1970, 9999)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class BadQuery(UserError):
    """A parameter of the address cannot be understood; the text says which, and what would do."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """``choices`` holds (parameter, value) pairs as they came; ``statuses`` empty means the failures."""

    choices: tuple[tuple[str, str], ...] = ()
    statuses: tuple[str, ...] = ()
    text: str = ""
    since: str = ""
    until: str = ""
    token: str = ""
    order: JobOrder = JobOrder.NEWEST

    def filter(self, now: datetime, *, any_status: bool = False) -> JobFilter:
        """What the read side is asked for. Raises BadQuery."""
        fields: dict[str, Any] = {field: self.chosen(name) for name, field in FIELDS.items()}
        statuses = () if any_status else self.wanted_statuses
        since, until = moment(self.since, now), moment(self.until, now)
        return JobFilter(**fields, statuses=statuses, text=self.text, since=since, until=until, order=self.order)

    def request(self, now: datetime, size: int) -> PageRequest:
        return PageRequest(self.filter(now), size, self.token or None)

    @property
    def wanted_statuses(self) -> tuple[str, ...]:
        if not self.statuses:
            return FAILURES
        return () if ALL in self.statuses else self.statuses

    @property
    def has_range(self) -> bool:
        """Whether the address says which time; a page's token is of a list whose time is written out."""
        return bool(self.since or self.until or self.token)

    def within(self, since: str, until: str = "") -> "ListQuery":
        """Of another time."""
        return replace(self, since=since, until=until, token="")

    def absolute(self, now: datetime) -> "ListQuery":
        """With its times written out, as the REST API takes them."""
        since, until = (moment(text, now) for text in (self.since, self.until))
        return replace(self, since=_written(since), until=_written(until), token="")

    def chosen(self, name: str) -> tuple[str, ...]:
        return tuple(value for key, value in self.choices if key == name)

    def toggled(self, name: str, value: str) -> "ListQuery":
        """With that value of a facet chosen, or no longer."""
        choice = (name, value)
        kept = tuple(entry for entry in self.choices if entry != choice)
        return replace(self, choices=kept if choice in self.choices else (*kept, choice), token="")

    def at(self, token: str | None, now: datetime) -> "ListQuery":
        """Another page of the same list. Times become absolute: a page's token fits one filter only."""
        return replace(self.absolute(now), token=token or "")

    def newest(self) -> "ListQuery":
        return replace(self, token="")

    def without(self, part: str) -> "ListQuery":
        """Without the text, the times, or (``choices``) everything that narrows."""
        if part == "choices":
            return ListQuery(statuses=self.statuses, since=self.since, until=self.until, order=self.order)
        if part == "until" and self.since == ALL:
            return replace(self, token="", until="")
        emptied: dict[str, Any] = {part: ""}
        return replace(self, token="", **emptied)

    def sorted_by(self, order: JobOrder) -> "ListQuery":
        return replace(self, order=order, token="")

    def with_statuses(self, *statuses: str) -> "ListQuery":
        return replace(self, statuses=statuses, token="")

    def params(self) -> dict[str, str | list[str]]:
        """The address's parameters in one order, so that the same view has one address."""
        params: dict[str, str | list[str]] = {"q": self.text, "status": list(self.statuses)}
        params |= {name: list(self.chosen(name)) for name in FIELDS}
        order = "" if self.order is JobOrder.NEWEST else self.order.value
        return params | {"since": self.since, "until": self.until, "order": order, "page_token": self.token}

    @property
    def href(self) -> str:
        return links.listing(**self.params())


def parse(pairs: Mapping[str, list[str]]) -> ListQuery:
    """Reads the address's parameters; unknown ones are left alone. Raises BadQuery."""

    given = [value for values in pairs.values() for value in values]
    if len(given) > MAX_VALUES or any("\0" in value or len(value) > MAX_CHARS for value in given):
        raise BadQuery(
            f"this address is too long or holds a NUL: at most {MAX_VALUES} values of {MAX_CHARS} characters"
        )

    def first(name: str) -> str:
        return next(iter(pairs.get(name, [])), "").strip()

    choices = tuple((name, value) for name in FIELDS for value in dict.fromkeys(pairs.get(name, [])) if value)
    statuses = tuple(dict.fromkeys(value for value in pairs.get("status", []) if value))
    order = first("order") or JobOrder.NEWEST
    if order not in list(JobOrder):
        raise BadQuery(f"{order!r} is no order: {', '.join(JobOrder)}")
    times = (first("since"), first("until"))
    return ListQuery(choices, statuses, first("q"), *times, first("page_token"), JobOrder(order))


def moment(text: str, now: datetime) -> datetime | None:
    """``24h`` before now, or an RFC 3339 time; None for nothing and for ``all``. Raises BadQuery."""
    if not text or text == ALL:
        return None
    try:
        parsed = _relative(text, now) or datetime.fromisoformat(text)
        parsed = parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise BadQuery(f"{text!r} is no time: write 24h, 7d or 2026-08-19T03:00:00Z") from error
    if parsed.year not in _YEARS:
        raise BadQuery(f"{text!r} lies outside the years {_YEARS.start} to {_YEARS.stop - 1}")
    return parsed


def _relative(text: str, now: datetime) -> datetime | None:
    if text[-1] not in _UNITS or not (text[:-1].isascii() and text[:-1].isdecimal()):
        return None
    return now - timedelta(**{_UNITS[text[-1]]: int(text[:-1])})


def _written(time: datetime | None) -> str:
    return time.isoformat().replace("+00:00", "Z") if time else ""
