"""Terminal output made safe to show: escapes become styles, everything else that would act becomes visible text.

Not a screen model: cursor movement is dropped, and every line starts unstyled, so that a line looks the same in
whichever window it is opened.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

# CSI, then strings (OSC, DCS, SOS, PM, APC) up to BEL or ST, then two-character escapes.
_ESCAPE = re.compile(
    r"\x1b(?:\[(?P<params>[0-?]*)[ -/]*(?P<final>[@-~])|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\`-~])"
)
# C0 but tab, DEL, C1, bytes that were not UTF-8 (surrogateescape), and what reorders or hides the text beside it.
_ACTING = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]+"
)

_FLAGS = {1: "bold", 2: "faint", 3: "italic", 4: "underline", 7: "inverse", 9: "strike"}
_FLAGS_OFF = {22: ("bold", "faint"), 23: ("italic",), 24: ("underline",), 27: ("inverse",), 29: ("strike",)}
_CUBE = (0, 95, 135, 175, 215, 255)


@dataclass(frozen=True, slots=True)
class Style:
    """How a piece of text looked. Colours are indexes into xterm's 256; true colours become the nearest of them."""

    foreground: int | None = None
    background: int | None = None
    bold: bool = False
    faint: bool = False
    italic: bool = False
    underline: bool = False
    inverse: bool = False
    strike: bool = False


PLAIN = Style()


@dataclass(frozen=True, slots=True)
class Span:
    """Text of one style. ``is_raw`` where it stands for something that cannot be shown, as ``\\x00`` does for NUL."""

    text: str
    style: Style = PLAIN
    is_raw: bool = False


def parse(line: str) -> tuple[Span, ...]:
    """Spans of one line. Decode bytes with ``surrogateescape`` to see those that are not UTF-8 as ``\\xNN``."""
    spans: list[Span] = []
    style, position = PLAIN, 0
    for match in _ESCAPE.finditer(line):
        spans.extend(_visible(line[position : match.start()], style))
        position = match.end()
        if match["final"] == "m":
            style = restyle(style, match["params"])
    spans.extend(_visible(line[position:], style))
    return tuple(spans)


def plain(line: str) -> str:
    """The line as text: no escapes, nothing that acts on a terminal or reorders its neighbours."""
    return "".join(span.text for span in parse(line))


def last_state(line: str) -> tuple[str, int]:
    """What a line with carriage returns shows at its end, and how many earlier states that hides."""
    states = [state for state in line.split("\r") if state]
    return (states[-1], len(states) - 1) if states else ("", 0)


def _visible(text: str, style: Style) -> Iterator[Span]:
    position = 0
    for match in _ACTING.finditer(text):
        if match.start() > position:
            yield Span(text[position : match.start()], style)
        yield Span("".join(map(_escaped, match[0])), style, is_raw=True)
        position = match.end()
    if position < len(text):
        yield Span(text[position:], style)


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def restyle(style: Style, params: str) -> Style:
    """The style after one SGR sequence. What is unknown or broken changes nothing."""
    codes = [int(code) if code.isdigit() and len(code) < 4 else 0 for code in params.replace(":", ";").split(";")]
    while codes:
        style = _apply(style, codes)
    return style


def _apply(style: Style, codes: list[int]) -> Style:
    code = codes.pop(0)
    if code == 0:
        return PLAIN
    if code in _FLAGS:
        return replace(style, **{_FLAGS[code]: True})
    if code in _FLAGS_OFF:
        return replace(style, **dict.fromkeys(_FLAGS_OFF[code], False))
    return _colour(style, code, codes)


def _colour(style: Style, code: int, codes: list[int]) -> Style:
    if code in (38, 39) or 30 <= code <= 37 or 90 <= code <= 97:
        return replace(style, foreground=_index(code, codes))
    if code in (48, 49) or 40 <= code <= 47 or 100 <= code <= 107:
        return replace(style, background=_index(code - 10, codes))
    return style


def _index(code: int, codes: list[int]) -> int | None:
    """The palette index that a foreground code means; 38 takes its arguments from ``codes``."""
    if code == 38:
        return _extended(codes)
    if code == 39:
        return None
    return code - 30 if code < 90 else code - 90 + 8


def _extended(codes: list[int]) -> int | None:
    kind = codes.pop(0) if codes else 0
    if kind == 5 and codes:
        return min(codes.pop(0), 255)
    if kind == 2 and len(codes) >= 3:
        red, green, blue = (min(codes.pop(0), 255) for _ in range(3))
        return nearest(red, green, blue)
    return None


def nearest(red: int, green: int, blue: int) -> int:
    """The index of the 6x6x6 cube or the grey ramp that lies closest to a true colour."""
    steps = [_step(value) for value in (red, green, blue)]
    grey = max(0, min(23, round(((red + green + blue) / 3 - 8) / 10)))
    cube_index, grey_index = 16 + 36 * steps[0] + 6 * steps[1] + steps[2], 232 + grey
    return min((cube_index, grey_index), key=lambda index: _distance(rgb(index), (red, green, blue)))


def _step(value: int) -> int:
    return min(range(6), key=lambda step: abs(_CUBE[step] - value))


def rgb(index: int) -> tuple[int, int, int]:
    """xterm's colour of an index from 16 on."""
    if index >= 232:
        return (8 + 10 * (index - 232),) * 3
    offset = index - 16
    return _CUBE[offset // 36], _CUBE[offset // 6 % 6], _CUBE[offset % 6]


def _distance(one: tuple[int, int, int], other: tuple[int, int, int]) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
