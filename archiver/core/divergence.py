"""Where two logs of the same program part: the first line that is not the same but for times, ids and numbers. Pure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from archiver.core.ansi import last_state, plain

CONTEXT = 3
LINE_CHARS = 2_000
_MASKS = tuple(
    (re.compile(pattern), sign)
    for pattern, sign in (
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
        (r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b", "<id>"),
        (r"\b\w[\w.]*(?:-[\w.]+)*-(?=[a-z0-9]*\d)[a-z0-9]{5}\b", "<name>"),
        (r"[-+]?\d[\d.,:]*(?:e[-+]?\d+)?[TZ]?", "<n>"),
        (r"(?:<n>[\s:./T%-]*){2,}", "<n> "),
    )
)


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line of one of the two logs; ``number`` counts from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first lines that differ, each None where its log had ended, and the last CONTEXT lines that both have."""

    shared: tuple[NumberedLine, ...]
    before: NumberedLine | None
    after: NumberedLine | None


def masked(text: str) -> str:
    """What of a line is the program's, not the run's."""
    for pattern, sign in _MASKS:
        text = pattern.sub(sign, text)
    return " ".join(text.split())


def diverge(before: Iterable[bytes], after: Iterable[bytes]) -> Divergence | None:
    """None where neither log says anything else than the other. Empty lines are passed over."""
    shared: list[NumberedLine] = []
    old, new = _spoken(before), _spoken(after)
    while True:
        left, right = next(old, None), next(new, None)
        if left is None and right is None:
            return None
        if left is None or right is None or masked(left.text) != masked(right.text):
            return Divergence(tuple(shared), left, right)
        shared = [*shared[-(CONTEXT - 1) :], right]


def _spoken(lines: Iterable[bytes]) -> Iterator[NumberedLine]:
    for number, line in enumerate(lines, start=1):
        visible, _ = last_state(line[: LINE_CHARS * 4].decode("utf-8", "replace"))
        text = plain(visible).strip()[:LINE_CHARS]
        if text:
            yield NumberedLine(number, text)
