"""Where in a text a secret may be: all triggers in one pass. May report too much, never too little."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol

from archiver.core.redact_rules import KEY_LITERAL, KEY_TRIGGER, RULES

try:
    import hyperscan
except ImportError:  # no wheel for this machine
    _library: "Library | None" = None
else:
    _library = hyperscan

KEY = -1
Hit = tuple[int, int]
_NEIGHBOURS = re.compile(rb"[^\n]*")


class Prefilter(Protocol):
    """Gives (rule number, an offset inside or at the end of the hit) pairs; ``KEY`` for a private key's first line."""

    def find(self, text: bytes) -> list[Hit]: ...


class LiteralPrefilter:
    """Literals, then the triggers on the lines that have one: for machines without the multi-pattern library."""

    def __init__(self) -> None:
        self._rules = [(number, rule.literals, re.compile(rule.trigger.encode())) for number, rule in enumerate(RULES)]
        self._rules.append((KEY, (KEY_LITERAL,), re.compile(KEY_TRIGGER.encode())))

    def find(self, text: bytes) -> list[Hit]:
        """See Prefilter."""
        lower = text.lower()
        hits: list[Hit] = []
        for number, literals, trigger in self._rules:
            if any(literal in lower for literal in literals):
                hits.extend((number, found.end()) for found in trigger.finditer(text))
        return hits


class HyperscanPrefilter:
    """All triggers by the multi-pattern library."""

    def __init__(self, library: "Library") -> None:
        self._database = _compile(library, [*(rule.trigger for rule in RULES), KEY_TRIGGER])

    def find(self, text: bytes) -> list[Hit]:
        """See Prefilter."""
        hits: list[Hit] = []

        def collect(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            hits.append((number if number < len(RULES) else KEY, end))

        self._database.scan(text, match_event_handler=collect)
        return hits


@cache
def prefilter() -> Prefilter:
    """The fastest that this machine has. Not for several threads at once."""
    return HyperscanPrefilter(_library) if _library is not None else LiteralPrefilter()


class _Database(Protocol):
    def compile(self, *, expressions: list[bytes], ids: list[int], elements: int, flags: list[int]) -> None: ...
    def scan(self, block: bytes, *, match_event_handler: Callable[[int, int, int, int, object], None]) -> None: ...


class Library(Protocol):
    """The part of the hyperscan package that is used."""

    def Database(self) -> _Database: ...


def _compile(library: Library, triggers: Sequence[str]) -> _Database:
    database = library.Database()
    numbers = list(range(len(triggers)))
    expressions = [trigger.encode() for trigger in triggers]
    database.compile(expressions=expressions, ids=numbers, elements=len(numbers), flags=[0] * len(numbers))
    return database
