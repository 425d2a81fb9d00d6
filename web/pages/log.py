"""What the log page shows: which window its address asks for, lines as markup, gaps where they are."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from markupsafe import Markup

from archiver.core.model import Gap
from archiver.read.views import LogLine, LogWindow
from archiver.read.windows import Around, AtTime, Lines, Tail, Window
from web.pages import links, marks, words
from web.pages.query import BadQuery, moment
from web.pages.reasons import GAPS

PAGE_LINES = 1000
_BAR_WIDTH = 1000
_EMPTY = Markup("")


@dataclass(frozen=True, slots=True)
class LogQuery:
    """The log page's address as a value. At most one of ``line``, ``start`` and ``at`` places the window; none: the end."""

    line: int | None = None
    start: int | None = None
    at: str = ""
    wrap: bool = False
    times: bool = False
    states: bool = False

    def window(self, now: datetime) -> Window:
        """What the read side is asked for. Raises BadQuery."""
        if self.line is not None:
            return Around(self.line, PAGE_LINES // 2)
        if self.start is not None:
            return Lines(self.start, self.start + PAGE_LINES - 1)
        time = moment(self.at, now)
        return AtTime(time, PAGE_LINES) if time else Tail(PAGE_LINES)

    def params(self) -> dict[str, str | int | None]:
        """Parameters in one order, so that the same view has one address."""
        flags = {"wrap": self.wrap, "times": self.times, "states": self.states}
        place: dict[str, str | int | None] = {"line": self.line, "from": self.start, "at": self.at}
        return place | {name: "1" if is_set else None for name, is_set in flags.items()}

    def at_line(self, line: int) -> "LogQuery":
        return replace(self, line=line, start=None, at="")

    def starting(self, line: int | None) -> "LogQuery":
        return replace(self, line=None, start=line, at="")


def parse(params: dict[str, str]) -> LogQuery:
    """Reads the address's parameters. Raises BadQuery."""
    return LogQuery(
        line=_line_number(params, "line"),
        start=_line_number(params, "from"),
        at=params.get("at", "").strip(),
        wrap=params.get("wrap") == "1",
        times=params.get("times") == "1",
        states=params.get("states") == "1",
    )


def _line_number(params: dict[str, str], name: str) -> int | None:
    text = params.get(name, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 15 or int(text) == 0:
        raise BadQuery(f"{name}={text!r} is no line number: lines count from 1")
    return int(text)


@dataclass(frozen=True, slots=True)
class Line:
    """One line or, with ``gap`` set, what is missing there."""

    number: int = 0
    markup: Markup = _EMPTY
    href: str = ""
    time: str = ""
    hidden_states: int = 0
    is_focus: bool = False
    is_cut: bool = False
    gap: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the window stands in the whole: in words, and as a bar of 1000 units."""

    words: str
    start: int
    width: int


@dataclass(frozen=True, slots=True)
class Tools:
    """Addresses one step away from this view; None where there is nothing further."""

    first: str | None
    previous: str | None
    next: str | None
    last: str | None
    wrap: str
    times: str
    states: str
    raw: str


@dataclass(frozen=True, slots=True)
class LogAddress:
    """The log that the page is about."""

    uid: str
    number: int
    artifact: str

    def href(self, query: LogQuery) -> str:
        return links.log(self.uid, self.number, self.artifact, **query.params())


def lines(address: LogAddress, query: LogQuery, window: LogWindow) -> Iterator[Line]:
    """The window's lines, each gap after the line that it follows."""
    ordered = sorted(window.gaps, key=lambda gap: gap.at_line)
    gaps = {at: list(group) for at, group in groupby(ordered, key=lambda gap: gap.at_line)}
    before = window.lines[0].number - 1 if window.lines else 0
    for at in sorted(at for at in gaps if at <= before or not window.lines):
        yield from (Line(gap=gap_words(gap)) for gap in gaps[at])
    href_of = _line_hrefs(address, query)
    for line in window.lines:
        yield _line(href_of(line.number), query, line, window.focus_line)
        yield from (Line(gap=gap_words(gap)) for gap in gaps.get(line.number, ()))


def _line_hrefs(address: LogAddress, query: LogQuery) -> Callable[[int], str]:
    """The address of each line; what they share is built once."""
    before, _, after = address.href(query.at_line(1)).removesuffix("#L1").partition("line=1")
    return lambda number: f"{before}line={number}{after}#L{number}"


def _line(href: str, query: LogQuery, line: LogLine, focus: int | None) -> Line:
    markup, hidden = marks.line_markup(line.data, all_states=query.states)
    return Line(
        number=line.number,
        markup=markup,
        href=href,
        time=words.nanoseconds(line.time_ns) if query.times and line.time_ns is not None else "",
        hidden_states=hidden,
        is_focus=line.number == focus,
        is_cut=line.cut,
    )


def gap_words(gap: Gap) -> str:
    """What is missing there and why, as a sentence."""
    amount = f"{words.size(gap.missing_bytes)} are" if gap.missing_bytes else "Something is"
    between = ""
    if gap.from_time and gap.to_time:
        between = f" from {words.clock(gap.from_time)} to {words.clock(gap.to_time)} UTC"
    detail = f" ({gap.detail})" if gap.detail else ""
    return f"{amount} missing here{between}: {GAPS[gap.reason]}{detail}."


def place(window: LogWindow) -> Place:
    """Where in the whole the window is."""
    total = window.total_lines
    if not window.lines:
        return Place("no lines", 0, 0)
    first, last = window.lines[0].number, window.lines[-1].number
    if first == 1 and last >= total:
        return Place(f"all {words.plural(total, 'line')}", 0, _BAR_WIDTH)
    where = " (the end)" if last >= total else " (the beginning)" if first == 1 else ""
    text = f"lines {words.number(first)}–{words.number(last)} of {words.number(total)}{where}"
    start = round((first - 1) * _BAR_WIDTH / total)
    return Place(text, start, max(4, round((last - first + 1) * _BAR_WIDTH / total)))


def tools(address: LogAddress, query: LogQuery, window: LogWindow) -> Tools:
    def start(line: int | None) -> str | None:
        return None if line is None else address.href(query.starting(line))

    return Tools(
        first=start(1) if window.previous_line else None,
        previous=start(window.previous_line),
        next=start(window.next_line),
        last=address.href(query.starting(None)) if window.next_line else None,
        wrap=address.href(replace(query, wrap=not query.wrap)),
        times=address.href(replace(query, times=not query.times)),
        states=address.href(replace(query, states=not query.states)),
        raw=links.raw(address.uid, address.number, address.artifact),
    )


def commands(job_name: str, namespace: str, address: LogAddress) -> tuple[str, ...]:
    return (
        f"archiver logs {address.uid} --attempt {address.number} --artifact {address.artifact}",
        f"archiver download {address.uid} --attempt {address.number}",
        f"kubectl -n {namespace} get rayjob {job_name} -o yaml",
    )
