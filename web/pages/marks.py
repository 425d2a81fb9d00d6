"""Log text as safe markup. The only place where markup is made outside a template; all text is escaped here."""

from markupsafe import Markup, escape

from archiver.core.ansi import PLAIN, Span, Style, last_state, parse

_FLAGS = ("bold", "faint", "italic", "underline", "strike")


def line_markup(data: bytes, *, all_states: bool = False) -> tuple[Markup, int]:
    """One line with its colours, and how many earlier states of a progress bar it hides."""
    text = data.decode("utf-8", "surrogateescape").removesuffix("\r")
    hidden = 0
    if not all_states:
        text, hidden = last_state(text)
    return Markup("").join(_span(span) for span in parse(text)), hidden


def line_text(data: bytes) -> str:
    """The same line as plain text, for excerpts and titles."""
    text, _ = last_state(data.decode("utf-8", "surrogateescape"))
    return "".join(span.text for span in parse(text))


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
