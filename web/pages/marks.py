"""Log text as safe markup. The only place where markup is made outside a template; all text is escaped here."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from archiver.core.ansi import PLAIN, Span, Style, last_state, parse

LINE_BYTES = 16 * 1024  # of one line are shown; the rest is in the raw text
_FLAGS = ("bold", "faint", "italic", "underline", "strike")
Marking = Callable[[bytes], Sequence[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Shown:
    """A line ready for a page, with how many earlier states of a progress bar it hides."""

    markup: Markup
    hidden_states: int = 0
    is_cut: bool = False


def line_markup(data: bytes, *, all_states: bool = False, marking: Marking | None = None) -> Shown:
    """One line with its colours; ``marking`` says which bytes of the visible text to mark as found."""
    text = data.decode("utf-8", "surrogateescape").removesuffix("\r")
    hidden = 0
    if not all_states:
        text, hidden = last_state(text)
    is_cut = len(text) > LINE_BYTES
    spans = parse(text[:LINE_BYTES] if is_cut else text)
    if marking is None:
        return Shown(Markup("").join(_span(span) for span in spans), hidden, is_cut)
    return Shown(Markup("").join(_marked(spans, marking)), hidden, is_cut)


def earlier_states(data: bytes, most: int) -> tuple[Markup, ...]:
    """What a progress bar showed before its last state: the newest ``most`` of them, in order."""
    states = [state for state in data.decode("utf-8", "surrogateescape").split("\r") if state][:-1]
    kept = (state[:LINE_BYTES] for state in states[-most:])
    return tuple(Markup("").join(_span(span) for span in parse(state)) for state in kept)


def line_text(data: bytes) -> str:
    """The same line as plain text, for excerpts and titles."""
    text, _ = last_state(data.decode("utf-8", "surrogateescape"))
    return "".join(span.text for span in parse(text))


def _marked(spans: Sequence[Span], marking: Marking) -> Iterator[Markup]:
    visible = "".join(span.text for span in spans).encode("utf-8", "replace")
    edges = [len(visible[:at].decode("utf-8", "ignore")) for found in marking(visible) for at in found]
    position = 0
    for span in spans:
        for start, end, is_found in _pieces(position, position + len(span.text), edges):
            piece = _span(Span(span.text[start - position : end - position], span.style, span.is_raw))
            yield Markup("<mark>{}</mark>").format(piece) if is_found else piece
        position += len(span.text)


def _pieces(start: int, end: int, edges: Sequence[int]) -> Iterator[tuple[int, int, bool]]:
    """The range cut at the edges; every second piece of the whole is one that was found."""
    cuts = [start, *(edge for edge in edges if start < edge < end), end]
    for left, right in pairwise(cuts):
        if right > left:
            yield left, right, sum(1 for edge in edges if edge <= left) % 2 == 1


def _span(span: Span) -> Markup:
    classes = _classes(span)
    if not classes:
        return escape(span.text)
    return Markup('<span class="{}">{}</span>').format(" ".join(classes), span.text)


def _classes(span: Span) -> list[str]:
    if span.is_raw:
        return ["raw"]
    if span.style == PLAIN:
        return []
    return [f"a-{flag}" for flag in _FLAGS if getattr(span.style, flag)] + _colours(span.style)


def _colours(style: Style) -> list[str]:
    foreground, background = style.foreground, style.background
    if style.inverse:
        foreground, background = background, 15 if foreground is None else foreground
    colours = [] if foreground is None else [f"f{foreground}"]
    return colours if background is None else [*colours, f"b{background}"]
