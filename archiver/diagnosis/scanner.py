"""Which of many patterns hit a block of bytes, and where. A filter: it may report too much, never too little."""

import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

HITS_PER_BLOCK = 5000
PREPARE_AFTER_BYTES = 512 << 10

Hit = tuple[int, int]


class Scanner(Protocol):
    """Finds (pattern number, end offset) pairs, in no particular order."""

    def scan(self, block: bytes) -> list[Hit]: ...

    def prepare(self) -> None: ...


class ReScanner:
    """The slow way, for machines without the multi-pattern library."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [re.compile(pattern.encode(), re.MULTILINE) for pattern in patterns]

    def prepare(self) -> None:
        """Nothing to prepare."""

    def scan(self, block: bytes) -> list[Hit]:
        """Every match, at most the limit for each pattern."""
        return [hit for begin, piece in _pieces(block) for hit in self._scan_piece(begin, piece)]

    def _scan_piece(self, begin: int, piece: bytes) -> Iterator[Hit]:
        for number, pattern in enumerate(self._patterns):
            for found in islice(pattern.finditer(piece), HITS_PER_BLOCK):
                yield number, begin + found.end()


def _pieces(block: bytes) -> Iterator[tuple[int, bytes]]:
    """The block, or where it has very long lines pieces of it: `re` takes quadratic time within a line."""
    return cut_pieces(block) if _LONG_LINE.search(block) else iter([(0, block)])


def cut_pieces(block: bytes) -> Iterator[tuple[int, bytes]]:
    """(Begin, piece) of small pieces, at line ends where there are any."""
    begin = 0
    while begin < len(block):
        end = min(begin + PIECE_BYTES, len(block))
        cut = block.rfind(b"\n", begin, end) + 1
        end = cut if begin < cut < end and end < len(block) else end
        yield begin, block[begin:end]
        # A piece that ends within a line is read again from a little before, so that no match is cut in two.
        begin = end if end >= len(block) or block[end - 1 : end] == b"\n" else end - OVERLAP_BYTES


PIECE_BYTES = 4096
OVERLAP_BYTES = 512
_LONG_LINE = re.compile(rb"[^\n]{4096}")


class HyperscanScanner:
    """All patterns in one pass. A block with too many hits is scanned again, in small pieces, for first hits only."""

    def __init__(self, patterns: Sequence[str], hyperscan: "HyperscanModule") -> None:
        self._patterns = tuple(patterns)
        self._hyperscan = hyperscan
        self._all = _compile(patterns, hyperscan, hyperscan.HS_FLAG_MULTILINE)
        self._first: _Database | None = None  # takes a second to make, and most logs never need it

    def scan(self, block: bytes) -> list[Hit]:
        """Hits of one block; see the class for what happens beyond the limit."""
        hits: list[Hit] = []

        def collect(number: int, _start: int, end: int, _flags: int, _context: object) -> bool | None:
            hits.append((number, end))
            return True if len(hits) >= HITS_PER_BLOCK else None

        try:
            self._run(self._all, block, collect)
        except self._hyperscan.ScanTerminated:
            return self._scan_first(block)
        return hits

    def _scan_first(self, block: bytes) -> list[Hit]:
        if self._first is None:
            flags = self._hyperscan.HS_FLAG_MULTILINE | self._hyperscan.HS_FLAG_SINGLEMATCH
            self._first = _compile(self._patterns, self._hyperscan, flags)
        hits: list[Hit] = []
        for begin, piece in cut_pieces(block):

            def collect(number: int, _start: int, end: int, _flags: int, _context: object, at: int = begin) -> None:
                hits.append((number, at + end))

            self._run(self._first, piece, collect)
        return hits

    def _run(self, database: "_Database", block: bytes, collect: "_Collect") -> None:
        # A scratch of its own for each call: one that is shared must not be used by two threads.
        database.scan(block, match_event_handler=collect, scratch=self._hyperscan.Scratch(database))


_Collect = Callable[[int, int, int, int, object], bool | None]


class _Database(Protocol):
    def compile(self, *, expressions: list[bytes], ids: list[int], elements: int, flags: list[int]) -> None: ...
    def scan(self, block: bytes, *, match_event_handler: _Collect, scratch: object) -> None: ...


class HyperscanModule(Protocol):
    """The part of the hyperscan package that is used."""

    HS_FLAG_MULTILINE: int
    HS_FLAG_SINGLEMATCH: int
    HS_FLAG_PREFILTER: int
    ScanTerminated: type[Exception]
    error: type[Exception]

    def Database(self) -> _Database: ...
    def Scratch(self, database: _Database) -> object: ...


def _compile(patterns: Sequence[str], hyperscan: HyperscanModule, flags: int) -> _Database:
    # Look-around is unknown to hyperscan; as a prefilter it takes such a pattern and may report too much.
    each = [
        flags | (hyperscan.HS_FLAG_PREFILTER if "(?" in pattern and _LOOK.search(pattern) else 0)
        for pattern in patterns
    ]
    database = hyperscan.Database()
    database.compile(
        expressions=[pattern.encode() for pattern in patterns],
        ids=list(range(len(patterns))),
        elements=len(patterns),
        flags=each,
    )
    return database


_LOOK = re.compile(r"\(\?(?:[=!]|<[=!])")


class AdaptiveScanner:
    """Begins with the way that needs no preparation, and prepares the fast one when there is enough to read.

    Compiling a thousand patterns takes seconds and pays from some megabytes on; most reports are a few kilobytes.
    """

    def __init__(self, patterns: Sequence[str], hyperscan: "HyperscanModule | None") -> None:
        self._patterns = tuple(patterns)
        self._hyperscan = hyperscan if patterns else None
        self._slow: ReScanner | None = None
        self._fast: HyperscanScanner | None = None
        self._seen_bytes = 0

    def prepare(self) -> None:
        """Compile the fast way now: for a process that will read much, before it begins."""
        if self._hyperscan is not None and self._fast is None:
            self._fast = HyperscanScanner(self._patterns, self._hyperscan)

    def scan(self, block: bytes) -> list[Hit]:
        """Hits of one block."""
        self._seen_bytes += len(block)
        if self._seen_bytes > PREPARE_AFTER_BYTES:
            self.prepare()
        if self._fast is not None:
            return self._fast.scan(block)
        if self._slow is None:
            self._slow = ReScanner(self._patterns)
        return self._slow.scan(block)


def _load() -> HyperscanModule | None:
    try:
        module: HyperscanModule = importlib.import_module("hyperscan")
    except ImportError:  # no wheel for this machine
        return None
    return module


_library = _load()


def build(patterns: Sequence[str]) -> AdaptiveScanner:
    """The scanner for this machine."""
    return AdaptiveScanner(patterns, _library)
