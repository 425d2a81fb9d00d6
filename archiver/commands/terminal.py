"""Log lines for a terminal: their colours, and nothing else that a terminal would obey."""

from archiver.core.ansi import PLAIN, Span, Style, last_state, parse

_FLAGS = (("bold", 1), ("faint", 2), ("italic", 3), ("underline", 4), ("inverse", 7), ("strike", 9))
_RESET = "\x1b[0m"
_RAW = "\x1b[2m"


def terminal_line(data: bytes, *, colour: bool) -> str:
    """One line; of a progress bar its last state. Styles are written anew, so that none outlives its line."""
    text, _ = last_state(data.decode("utf-8", "surrogateescape"))
    return "".join(_painted(span) if colour else span.text for span in parse(text))


def _painted(span: Span) -> str:
    if span.is_raw:
        return f"{_RAW}{span.text}{_RESET}"
    if span.style == PLAIN:
        return span.text
    return f"\x1b[{';'.join(_codes(span.style))}m{span.text}{_RESET}"


def _codes(style: Style) -> list[str]:
    codes = [str(code) for flag, code in _FLAGS if getattr(style, flag)]
    if style.foreground is not None:
        codes.append(f"38;5;{style.foreground}")
    return [*codes, f"48;5;{style.background}"] if style.background is not None else codes
