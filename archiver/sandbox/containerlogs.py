"""The log files of container runs on a node, as containerd writes and the kubelet rotates and reads them.

Lines are entries of a file; a line that is longer than 16 KiB is several. Only the newest file is read, which is
how evidence gets lost on real nodes. Nothing here knows HTTP.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from weakref import WeakSet

from archiver.sandbox.signals import Signal

ENTRY_BYTES = 16 * 1024  # containerd's longest piece of a line
_FRAMING_BYTES = len("2026-11-30T21:15:13.000000000Z stdout F \n")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the file on the node. Not ``full``: the line goes on in the next entry."""

    stamp_ns: int
    data: bytes
    full: bool


class LogFile:
    __slots__ = ("entries", "size_bytes")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.size_bytes = 0


class ContainerLog:
    """The log of one container run. Older files than the newest are kept only by who still reads them.

    ``check_seconds``: how often the size is looked at, so that a burst makes one large file, as with a kubelet. A
    rotation by size waits for readers that are still on an older file: a kubelet's readers are never ten megabytes
    behind, but ours share one event loop with the container. ``rotate`` itself waits for nobody.
    """

    def __init__(self, *, rotate_at_bytes: int, check_seconds: float = 0.0) -> None:
        self.file = LogFile()
        self.signal = Signal()
        self.is_finished = False
        self.is_removed = False
        self.rotations = 0
        self._pending = bytearray()
        self._rotate_at_bytes = rotate_at_bytes
        self._check_seconds = check_seconds
        self._checked_at = time.monotonic()
        self._readers: WeakSet[LogReader] = WeakSet()

    def write(self, data: bytes, *, stamp_ns: int | None = None) -> None:
        """What the container printed. Text after the last newline stays in the pipe, as in reality."""
        self._pending += data
        start = 0
        while (end := self._pending.find(b"\n", start)) >= 0:
            self._line(bytes(self._pending[start:end]), stamp_ns)
            start = end + 1
        del self._pending[:start]
        while len(self._pending) > ENTRY_BYTES:
            self._append(bytes(self._pending[:ENTRY_BYTES]), stamp_ns, full=False)
            del self._pending[:ENTRY_BYTES]
        self.signal.fire()

    def _line(self, line: bytes, stamp_ns: int | None) -> None:
        while len(line) > ENTRY_BYTES:
            self._append(line[:ENTRY_BYTES], stamp_ns, full=False)
            line = line[ENTRY_BYTES:]
        self._append(line, stamp_ns, full=True)

    def _append(self, data: bytes, stamp_ns: int | None, *, full: bool) -> None:
        size = len(data) + _FRAMING_BYTES
        if self.file.entries and self.file.size_bytes + size > self._rotate_at_bytes and self._is_check_due():
            self.rotate()
        self.file.entries.append(Entry(time.time_ns() if stamp_ns is None else stamp_ns, data, full))
        self.file.size_bytes += size

    def _is_check_due(self) -> bool:
        now = time.monotonic()
        if now - self._checked_at < self._check_seconds or any(reader.is_behind for reader in self._readers):
            return False
        self._checked_at = now
        return True

    def attach(self, reader: "LogReader") -> None:
        self._readers.add(reader)

    def rotate(self) -> None:
        """From now on the file until here can be read only by who has it open."""
        self.file = LogFile()
        self.rotations += 1

    def finish(self, *, stamp_ns: int | None = None) -> None:
        """The container ended: the rest of an unfinished line is written as such."""
        if self._pending:
            self._append(bytes(self._pending), stamp_ns, full=False)
            self._pending.clear()
        self.is_finished = True
        self.signal.fire()

    def remove(self) -> None:
        """The files are gone with their pod or by the kubelet's garbage collection."""
        self.is_finished = True
        self.is_removed = True
        self.file = LogFile()
        self.signal.fire()


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The kubelet's options. ``since_ns`` is on whole seconds by the time it reaches a kubelet."""

    timestamps: bool = False
    since_ns: int = 0
    tail_lines: int | None = None


class LogReader:
    """One reading of a log from its newest file on; ``pieces`` can be called again when there is more."""

    def __init__(self, log: ContainerLog, options: ReadOptions) -> None:
        self._log = log
        self._file = log.file
        self._options = options
        self._at_line_start = True
        tail = options.tail_lines
        self._index = 0 if tail is None else max(0, len(self._file.entries) - tail)
        log.attach(self)

    @property
    def is_behind(self) -> bool:
        """Still on a file that was rotated away."""
        return self._file is not self._log.file

    def pieces(self, *, at_least_bytes: int = 64 * 1024) -> Iterator[bytes]:
        """What is there, in pieces. A file that was rotated away is read to its end, then the newest is opened."""
        buffer = bytearray()
        while (entry := self._next()) is not None:
            if entry.stamp_ns >= self._options.since_ns:
                buffer += self._rendered(entry)
            if len(buffer) >= at_least_bytes:
                yield bytes(buffer)
                buffer.clear()
        if buffer:
            yield bytes(buffer)

    def _next(self) -> Entry | None:
        if self._index >= len(self._file.entries):
            if self._file is self._log.file:
                return None
            self._file, self._index = self._log.file, 0
            return self._next() if self._file.entries else None
        self._index += 1
        return self._file.entries[self._index - 1]

    def _rendered(self, entry: Entry) -> bytes:
        prefix = f"{nano_time(entry.stamp_ns)} ".encode() if self._options.timestamps and self._at_line_start else b""
        self._at_line_start = entry.full
        return prefix + entry.data + (b"\n" if entry.full else b"")


def nano_time(stamp_ns: int) -> str:
    """The kubelet's form: nine digits, Z."""
    seconds, nanos = divmod(stamp_ns, 1_000_000_000)
    return f"{_whole_second(seconds)}.{nanos:09d}Z"


@lru_cache(maxsize=1024)
def _whole_second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
