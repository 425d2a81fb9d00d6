"""Which lines of a text match a pattern, exactly and in linear time. Knows nothing of where the text comes from.

A pattern is judged line by line: it sees one line without its newline, as grep does. Regular expressions run on
hyperscan, whose time grows with the text alone; on a machine without it only plain text can be searched, because
Python's own engine can be made to take exponential time by a pattern of twenty characters.
"""

import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Protocol

from archiver.errors import UserError

MAX_PATTERN_CHARS = 500
OPEN_BYTES = 1024 * 1024  # a line without an end that is longer is searched piece by piece
OVERLAP_BYTES = 4096
EXCERPT_BYTES = 4096

# What could reach over a line's end: classes, and escapes other than these and punctuation.
_MAY_CROSS = re.compile(r"\[|\\[^dwbB\W]")
_BAD_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\[AZzGKRXC]")
_BAD_GROUP = re.compile(r"(?<!\\)\(\?(?!:|i\)|i:|P?<[A-Za-z_]\w*>)")
_REPEAT = re.compile(r"\{(\d*),?(\d*)\}")
_MOST_REPEATS = 1000


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is searched for. ``is_exact``: capitals and small letters differ."""

    text: str
    is_regex: bool = False
    is_exact: bool = False


# How a line begins to tell of a failure, whoever wrote it: levels, glog's letters, Python's exceptions, signals.
# Words like "error=0" or "errors" are none. Trusted: Python's own engine is quick with it too.
ERRORS = Pattern(
    r"Traceback \(most recent call last\)"
    r"|(?:^|[^\w=]|\x1b\[[0-9;]{0,12}m)(?:ERROR|FATAL|CRITICAL)(?:[^\w=]|$)"
    r"|(?:^|[\s)])[EF]\d{4} \d\d:\d\d:\d\d"
    r"|(?:^|[\s.:(]|\x1b\[[0-9;]{0,12}m)[A-Z][A-Za-z]{1,40}(?:Error|Exception|Interrupt):"
    r"|Segmentation fault|core dumped|CUDA error|out of memory|OutOfMemory|Fatal Python error|SIG(?:SEGV|KILL|ABRT|BUS)",
    is_regex=True,
    is_exact=True,
)


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that matches. ``excerpt`` is the line, or of a very long one the part around the match."""

    number: int
    offset: int
    excerpt: bytes
    is_cut: bool = False


class Matcher(Protocol):
    """A pattern made ready. One for each scan: not for two threads at a time."""

    def ends(self, text: bytes) -> list[int]:
        """Rising offsets, each within a line that matches or at its end; several for one line are allowed."""

    def spans(self, line: bytes) -> list[tuple[int, int]]:
        """What to mark in a line, in order and not overlapping; nothing where that cannot be told."""


def matcher(pattern: Pattern) -> Matcher:
    """Raises UserError for what is no pattern, or is one that this machine cannot search for in bounded time."""
    if not pattern.text:
        raise UserError("there is nothing to search for: give a text or a regular expression")
    if len(pattern.text) > MAX_PATTERN_CHARS:
        raise UserError(f"the pattern is too long: at most {MAX_PATTERN_CHARS} characters")
    if any(bad in pattern.text for bad in "\0\n\r") or not _is_text(pattern.text):
        raise UserError("a pattern is searched for in one line: it may hold no line end, no NUL and no half character")
    if _library is not None:
        return HyperscanMatcher(_library, pattern)
    if pattern == ERRORS:
        return ReMatcher(pattern.text, 0)
    if pattern.is_regex:
        raise UserError("this machine has no library for regular expressions in bounded time: search for plain text")
    return ReMatcher(re.escape(pattern.text), 0 if pattern.is_exact else re.IGNORECASE)


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


class ReMatcher:
    """Escaped text, and our own pattern, by Python's engine, which has nothing to go back for in them."""

    def __init__(self, text: str, flags: int) -> None:
        self._found = re.compile(text.encode(), re.MULTILINE | flags)

    def ends(self, text: bytes) -> list[int]:
        """See Matcher."""
        return [found.end() for found in self._found.finditer(text)]

    def spans(self, line: bytes) -> list[tuple[int, int]]:
        """See Matcher."""
        return [found.span() for found in self._found.finditer(line)]


class HyperscanMatcher:
    """Any pattern by the multi-pattern library: one report a line where the pattern can be followed to the line's end.

    Prepared patterns are kept and shared; the scratch space, which no two threads may use, is each matcher's own.
    """

    def __init__(self, library: "Library", pattern: Pattern) -> None:
        self._library = library
        self._pattern = pattern
        self._prepared = _prepare(library, pattern)
        self._scratches: dict[int, object] = {}

    def ends(self, text: bytes) -> list[int]:
        """See Matcher."""
        prepared = self._prepared
        found = [end for _, end in self._scan(prepared.lines, text)]
        return [end for end in found if self._is_within(text, end)] if prepared.may_cross else found

    def spans(self, line: bytes) -> list[tuple[int, int]]:
        """See Matcher."""
        marking = _prepare_marking(self._library, self._pattern)
        return _merged(sorted(self._scan(marking, line))) if marking is not None else []

    def _is_within(self, text: bytes, end: int) -> bool:
        """Whether the line matches also without its neighbours."""
        start = text.rfind(b"\n", 0, end) + 1
        stop = text.find(b"\n", end)
        return bool(self._scan(self._prepared.alone, text[start : stop if stop >= 0 else len(text)]))

    def _scan(self, database: "_Database", text: bytes) -> list[tuple[int, int]]:
        hits: list[tuple[int, int]] = []

        def collect(_number: int, start: int, end: int, _flags: int, _context: object) -> None:
            hits.append((start, end))

        scratch = self._scratches.get(id(database))
        if scratch is None:
            scratch = self._scratches[id(database)] = self._library.Scratch(database)
        database.scan(text, match_event_handler=collect, scratch=scratch)
        return hits


@dataclass(frozen=True, slots=True)
class _Prepared:
    """``lines`` reports once a line, at its end, where that can be had; ``alone`` at the end of every match."""

    alone: "_Database"
    lines: "_Database"
    may_cross: bool


@lru_cache(maxsize=64)
def _prepare(library: "Library", pattern: Pattern) -> _Prepared:
    if pattern.is_regex:
        _refuse_unbounded(pattern.text)
    text, flags = _expression(library, pattern)
    alone = lines = _compile(library, text, flags)
    with suppress(UserError):  # an anchor inside, or too large with more behind it
        lines = _compile(library, b"(?:" + text + rb")[^\n]*$", flags)
    return _Prepared(alone, lines, pattern.is_regex and _MAY_CROSS.search(pattern.text) is not None)


@lru_cache(maxsize=64)
def _prepare_marking(library: "Library", pattern: Pattern) -> "_Database | None":
    """None where the library cannot tell where such a match begins."""
    text, flags = _expression(library, pattern)
    try:
        return _compile(library, text, flags | library.HS_FLAG_SOM_LEFTMOST)
    except UserError:
        return None


def _expression(library: "Library", pattern: Pattern) -> tuple[bytes, int]:
    flags = library.HS_FLAG_MULTILINE | library.HS_FLAG_ALLOWEMPTY
    flags |= 0 if pattern.is_exact else library.HS_FLAG_CASELESS
    return (pattern.text if pattern.is_regex else re.escape(pattern.text)).encode(), flags


def _compile(library: "Library", text: bytes, flags: int) -> "_Database":
    database = library.Database()
    try:
        database.compile(expressions=[text], ids=[0], elements=1, flags=[flags])
    except library.error as error:
        raise UserError(f"this is no regular expression that can be searched for: {error}") from error
    return database


def _refuse_unbounded(text: str) -> None:
    """What the library would take differently than it is meant, or would take long to prepare."""
    if _BAD_ESCAPE.search(text):
        raise UserError("a line begins at ^ and ends at $; \\A, \\Z and their like cannot be searched for")
    if _BAD_GROUP.search(text):
        raise UserError("look-around and inline flags other than (?i) cannot be searched for")
    counts = [int(number) for found in _REPEAT.findall(text) for number in found if number]
    if counts and max(accumulate(counts, lambda one, other: one * max(1, other))) > _MOST_REPEATS:
        raise UserError(f"repetitions like {{2,10}} may come to at most {_MOST_REPEATS} together")


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        elif end > start:
            merged.append((start, end))
    return merged


class LineSearch:
    """Takes a text bit by bit, from byte ``offset`` on, which is in line ``line``; gives the lines that match, in order.

    Holds at most ``OPEN_BYTES`` of a line that has not ended. Of a longer line a match is found that is no longer than
    ``OVERLAP_BYTES``.
    """

    def __init__(self, wanted: Matcher, *, line: int = 1, offset: int = 0) -> None:
        self._matcher = wanted
        self._line = line
        self._offset = offset
        self._held = b""
        self._is_told = False  # the line that is open has been given out already

    def feed(self, text: bytes) -> list[Hit]:
        """Hits of the lines that have ended."""
        text = self._held + text
        end = text.rfind(b"\n") + 1
        hits = list(self._hits(text[:end])) if end else []
        if end:
            self._line += text.count(b"\n", 0, end)
            self._is_told = False
        self._offset += end
        self._held = text[end:]
        return hits + (self._open_hits() if len(self._held) > OPEN_BYTES else [])

    def flush(self) -> list[Hit]:
        """Hits of the last line, which has no end."""
        hits = list(self._hits(self._held)) if self._held else []
        self._held = b""
        return hits

    @property
    def line(self) -> int:
        """The line that is open: all before it have been searched."""
        return self._line

    def _open_hits(self) -> list[Hit]:
        hits = list(self._hits(self._held))
        self._is_told = self._is_told or bool(hits)
        dropped = len(self._held) - OVERLAP_BYTES
        self._offset, self._held = self._offset + dropped, self._held[dropped:]
        return hits

    def _hits(self, text: bytes) -> Iterator[Hit]:
        number, counted, line_end = self._line, 0, -1
        for end in self._matcher.ends(text):
            if end <= line_end or (end == len(text) and text.endswith(b"\n")):
                continue  # told already, or behind the last line
            start = text.rfind(b"\n", 0, end) + 1
            found = text.find(b"\n", end)
            line_end = found if found >= 0 else len(text)
            number += text.count(b"\n", counted, start)
            counted = start
            if not (self._is_told and start == 0):
                yield self._hit(number, text, (start, line_end), end)

    def _hit(self, number: int, text: bytes, line: tuple[int, int], end: int) -> Hit:
        start, line_end = line
        if line_end - start <= EXCERPT_BYTES:
            return Hit(number, self._offset + start, text[start:line_end])
        # reports stand at the line's end where the pattern was followed there: look for the first match itself
        spans = self._matcher.spans(text[start : min(line_end, start + OPEN_BYTES)])
        at = start + spans[0][0] if spans else min(end, line_end)
        begin = max(start, min(at - EXCERPT_BYTES // 2, line_end - EXCERPT_BYTES))
        return Hit(number, self._offset + start, text[begin : begin + EXCERPT_BYTES], is_cut=True)


_Collect = Callable[[int, int, int, int, object], None]


class _Database(Protocol):
    def compile(self, *, expressions: list[bytes], ids: list[int], elements: int, flags: list[int]) -> None: ...
    def scan(self, block: bytes, *, match_event_handler: _Collect, scratch: object) -> None: ...


class Library(Protocol):
    """The part of the hyperscan package that is used."""

    HS_FLAG_MULTILINE: int
    HS_FLAG_CASELESS: int
    HS_FLAG_ALLOWEMPTY: int
    HS_FLAG_SOM_LEFTMOST: int
    error: type[Exception]

    def Database(self) -> _Database: ...
    def Scratch(self, database: _Database) -> object: ...
    def __hash__(self) -> int: ...


def _load() -> Library | None:
    try:
        module: Library = importlib.import_module("hyperscan")
    except ImportError:  # no wheel for this machine
        return None
    return module


_library = _load()
