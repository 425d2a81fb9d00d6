"""The lines of a log page: markup, gaps where they are, errors, matches and cited lines marked, quiet runs folded."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from markupsafe import Markup

from archiver.core.model import Gap
from archiver.core.search import ERRORS, Matcher, matcher
from archiver.read.views import LogLine, LogWindow
from web.pages import links, marks, words
from web.pages.log import LogAddress, LogQuery
from web.pages.reasons import GAPS

FOLD_CONTEXT = 25
FOLD_LINES = 50
MAX_STATES = 50
_EMPTY = Markup("")


@dataclass(frozen=True, slots=True)
class Line:
    """One line or, with ``gap`` set, what is missing there. ``source`` counts the merged logs; 0 is the page's own."""

    number: int = 0
    markup: Markup = _EMPTY
    href: str = ""
    time: str = ""
    time_ns: int | None = None
    hidden_states: int = 0
    states: tuple[Markup, ...] = ()
    is_focus: bool = False
    is_cut: bool = False
    is_error: bool = False
    is_match: bool = False
    is_cited: bool = False
    raw: str = ""
    gap: str = ""
    source: int = 0

    @property
    def is_telling(self) -> bool:
        """What is worth seeing, and the lines around it."""
        return self.is_error or self.is_match or self.is_cited

    @property
    def css(self) -> str:
        flags = ("is_focus", "is_error", "is_match", "is_cited")
        names = [name.replace("_", "-") for name in flags if getattr(self, name)]
        return " ".join([*names, f"from-{self.source}"] if self.source else names)


@dataclass(frozen=True, slots=True)
class Fold:
    """A run of lines that stands closed, or with ``is_open`` simply some lines."""

    lines: tuple[Line, ...]
    is_open: bool
    words: str = ""


@dataclass(frozen=True, slots=True)
class Eyes:
    """What makes a line worth seeing: errors, what is searched for, the lines that the verdict cites."""

    errors: Matcher
    matches: Matcher | None
    cited: Collection[int] = field(default=())

    @classmethod
    def of(cls, query: LogQuery, cited: Collection[int]) -> "Eyes":
        """Raises UserError for a pattern that is none."""
        return cls(matcher(ERRORS), matcher(query.pattern) if query.pattern else None, cited)


def lines(address: LogAddress, query: LogQuery, window: LogWindow, eyes: Eyes) -> Iterator[Line]:
    """The window's lines, each gap after the line that it follows."""
    ordered = sorted(window.gaps, key=lambda gap: gap.at_line)
    gaps = {at: list(group) for at, group in groupby(ordered, key=lambda gap: gap.at_line)}
    before = window.lines[0].number - 1 if window.lines else 0
    for at in sorted(at for at in gaps if at <= before or not window.lines):
        yield from (Line(gap=gap_words(gap)) for gap in gaps[at])
    href_of, raw = _line_hrefs(address, query), links.raw(address.uid, address.number, address.artifact)
    for line in window.lines:
        shown = render_line(href_of(line.number), query, line, eyes)
        yield replace(shown, is_focus=line.number == window.focus_line, raw=raw)
        yield from (Line(gap=gap_words(gap)) for gap in gaps.get(line.number, ()))


def _line_hrefs(address: LogAddress, query: LogQuery) -> Callable[[int], str]:
    """The address of each line; what they share is built once."""
    before, _, after = address.href(query.at_line(1)).removesuffix("#L1").partition("line=1")
    return lambda number: f"{before}line={number}{after}#L{number}"


def render_line(href: str, query: LogQuery, line: LogLine, eyes: Eyes) -> Line:
    """One line as it is shown."""
    marking = eyes.matches.spans if eyes.matches else None
    shown = marks.line_markup(line.data, all_states=query.states, marking=marking)
    return Line(
        number=line.number,
        markup=shown.markup,
        href=href,
        time=words.nanoseconds(line.time_ns) if query.times and line.time_ns is not None else "",
        time_ns=line.time_ns,
        hidden_states=shown.hidden_states,
        states=marks.earlier_states(line.data, MAX_STATES) if shown.hidden_states else (),
        is_cut=line.cut or shown.is_cut,
        is_error=bool(eyes.errors.ends(line.data)),
        is_match=bool(eyes.matches and eyes.matches.ends(line.data)),
        is_cited=line.number in eyes.cited,
    )


def folded(shown: Sequence[Line], *, unfolded: bool) -> tuple[Fold, ...]:
    """Long runs far from everything that is worth seeing are closed; where nothing is, nothing is closed."""
    telling = [index for index, line in enumerate(shown) if line.is_telling]
    if unfolded or not telling:
        return (Fold(tuple(shown), is_open=True),)
    near = [False] * len(shown)
    for index, line in enumerate(shown):
        if line.is_telling or line.is_focus or line.gap:
            context = 1 if line.gap else FOLD_CONTEXT
            start, end = max(0, index - context), min(len(shown), index + context + 1)
            near[start:end] = [True] * (end - start)
    runs = [list(group) for _, group in groupby(zip(near, shown, strict=True), key=lambda pair: pair[0])]
    return tuple(_fold(tuple(line for _, line in run), is_open=run[0][0] or len(run) < FOLD_LINES) for run in runs)


def _fold(run: tuple[Line, ...], *, is_open: bool) -> Fold:
    bars = sum(1 for line in run if line.hidden_states)
    said = words.plural(len(run), "line") + (f" · {words.plural(bars, 'progress bar')}" if bars else "")
    return Fold(run, is_open, said)


def merged(own: Sequence[Line], others: Sequence[Sequence[Line]]) -> list[Line]:
    """Several logs by time. A line without a time follows the one before it; equal times stay in the logs' order."""
    keyed: list[tuple[int, int, int, Line]] = []
    for source, log in enumerate((own, *others)):
        time = 0
        for index, line in enumerate(log):
            time = max(time, line.time_ns or time)
            keyed.append((time, source, index, line))
    return [line for _, _, _, line in sorted(keyed, key=lambda entry: entry[:3])]


def gap_words(gap: Gap) -> str:
    """What is missing there and why, as a sentence."""
    amount = f"{words.size(gap.missing_bytes)} are" if gap.missing_bytes else "Something is"
    between = ""
    if gap.from_time and gap.to_time:
        between = f" from {words.clock(gap.from_time)} to {words.clock(gap.to_time)} UTC"
    detail = f" ({gap.detail})" if gap.detail else ""
    return f"{amount} missing here{between}: {GAPS[gap.reason]}{detail}."
