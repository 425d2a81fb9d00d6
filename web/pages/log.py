"""The log page's address as a value: which window, what is searched for, how it is shown; and the addresses beside it."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from archiver.core.search import ERRORS, MAX_PATTERN_CHARS, Pattern
from archiver.read.found import Seek
from archiver.read.views import LogWindow
from archiver.read.windows import Around, AtTime, Lines, Tail, Window
from web.pages import links, words
from web.pages.query import BadQuery, moment

PAGE_LINES = 1000
MAX_SOURCES = 4
_BAR_WIDTH = 1000
SEEKS = ("first-error", "next-error", "previous-error", "first-match", "next-match", "previous-match")
Param = str | int | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class LogQuery:
    """At most one of ``line``, ``start`` and ``at`` places the window; none: the end. ``others`` are merged by time.

    With ``seek`` the window is at the next (or previous, or first) error or match, as seen from ``line``.
    """

    line: int | None = None
    start: int | None = None
    at: str = ""
    q: str = ""
    regex: bool = False
    case: bool = False
    seek: str = ""
    wrap: bool = False
    times: bool = False
    states: bool = False
    unfolded: bool = False
    others: tuple[str, ...] = ()

    def window(self, now: datetime) -> Window:
        """What the read side is asked for. Raises BadQuery."""
        if self.line is not None:
            return Around(self.line, PAGE_LINES // 2)
        if self.start is not None:
            return Lines(self.start, self.start + PAGE_LINES - 1)
        time = moment(self.at, now)
        return AtTime(time, PAGE_LINES) if time else Tail(PAGE_LINES)

    @property
    def pattern(self) -> Pattern | None:
        """What is searched for, where something is."""
        return Pattern(self.q, self.regex, self.case) if self.q else None

    @property
    def wanted(self) -> Seek | None:
        """The jump that is asked for; None where there is none, or nothing to jump to."""
        way, _, what = self.seek.partition("-")
        pattern = ERRORS if what == "error" else self.pattern
        if pattern is None or not self.seek:
            return None
        line = 0 if way == "first" else (self.line or 0)
        return Seek(pattern, line, is_backward=way == "previous")

    def params(self) -> dict[str, Param]:
        """Parameters in one order, so that the same view has one address."""
        place: dict[str, Param] = {"line": self.line, "from": self.start, "at": self.at, "seek": self.seek}
        return place | {"q": self.q, "with": self.others} | dict.fromkeys(self.flags, "1")

    @property
    def flags(self) -> tuple[str, ...]:
        """Those that are set."""
        named = {"regex": self.regex, "case": self.case, "wrap": self.wrap, "times": self.times}
        named |= {"states": self.states, "unfolded": self.unfolded}
        return tuple(name for name, is_set in named.items() if is_set)

    def at_line(self, line: int) -> "LogQuery":
        return replace(self, line=line, start=None, at="", seek="")

    def starting(self, line: int | None) -> "LogQuery":
        return replace(self, line=None, start=line, at="", seek="")

    def seeking(self, what: str, line: int | None) -> "LogQuery":
        return replace(self, line=line, start=None, at="", seek=what)


def parse(params: dict[str, str], others: Sequence[str] = ()) -> LogQuery:
    """Reads the address's parameters. Raises BadQuery."""
    q, seek = params.get("q", ""), params.get("seek", "")
    if len(q) > MAX_PATTERN_CHARS:
        raise BadQuery(f"what is searched for has at most {MAX_PATTERN_CHARS} characters")
    if seek and seek not in SEEKS:
        raise BadQuery(f"seek={seek!r} is none of {', '.join(SEEKS)}")
    return LogQuery(
        line=line_number(params, "line"),
        start=line_number(params, "from"),
        at=params.get("at", "").strip(),
        q=q,
        regex=params.get("regex") == "1",
        case=params.get("case") == "1",
        seek=seek,
        wrap=params.get("wrap") == "1",
        times=params.get("times") == "1",
        states=params.get("states") == "1",
        unfolded=params.get("unfolded") == "1",
        others=tuple(dict.fromkeys(name for name in others if name))[:MAX_SOURCES],
    )


def line_number(params: Mapping[str, str], name: str) -> int | None:
    """A parameter that is a line's number; None where it is not given. Raises BadQuery."""
    text = params.get(name, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 15 or int(text) == 0:
        raise BadQuery(f"{name}={text!r} is no line number: lines count from 1")
    return int(text)


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
    unfolded: str
    raw: str
    seeks: dict[str, str]
    without_search: str


@dataclass(frozen=True, slots=True)
class LogAddress:
    """The log that the page is about."""

    uid: str
    number: int
    artifact: str

    @property
    def path(self) -> str:
        return links.log(self.uid, self.number, self.artifact)

    def href(self, query: LogQuery) -> str:
        address = links.with_query(self.path, query.params())
        return f"{address}#L{query.line}" if query.line and not query.seek else address


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
        unfolded=address.href(replace(query, unfolded=not query.unfolded)),
        raw=links.raw(address.uid, address.number, address.artifact),
        seeks={seek: address.href(query.seeking(seek, _base(query, window))) for seek in SEEKS},
        without_search=address.href(replace(query, q="", regex=False, case=False)),
    )


def _base(query: LogQuery, window: LogWindow) -> int | None:
    """Where a jump starts: at the line that is looked at, at the window's first line, or at the log's end."""
    if window.focus_line is not None or not window.lines:
        return window.focus_line
    is_end = query.line is None and query.start is None and not query.at
    return window.total_lines + 1 if is_end else max(1, window.lines[0].number - 1)


def commands(job_name: str, namespace: str, address: LogAddress, query: LogQuery) -> tuple[str, ...]:
    log = f"archiver logs {address.uid} --attempt {address.number} --artifact {address.artifact}"
    flags = (" --regex" if query.regex else "") + (" --case" if query.case else "")
    return (
        f"{log} --grep {shlex.quote(query.q)}{flags}" if query.q else log,
        f"archiver download {address.uid} --attempt {address.number}",
        f"kubectl -n {namespace} get rayjob {job_name} -o yaml",
    )
