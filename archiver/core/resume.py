"""Going on with a log where an earlier read ended: the checkpoint, and the exact drop of what is stored already.

What proves continuity. The API server's ``sinceTime`` has a precision of seconds, and the kubelet leaves out the lines
before it one by one. A read that begins at or before the checkpoint's second therefore shows the last stored line
again, as long as that line is still in the newest file. So:

- the stored line appears: everything up to it is dropped, what follows is new, nothing is missing;
- a later line comes first, or the stream ends without the stored line: the file was rotated in between. A read without
  ``sinceTime`` begins at the same later line, and the log endpoint serves no older file: it cannot be known whether
  anything stood between the two. That is a Gap from the checkpoint's time to the first line's;
- other lines of the same nanosecond appear, but not the stored one: the same.

Lines are recognised by time, order and a 32-bit checksum of their beginning. Times alone are not enough: several lines
share one, and stdout and stderr are stamped by two goroutines, so that a line can be older than the one before it.
The checksum is short on purpose: it cannot carry a secret that was masked.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from zlib import crc32

from archiver.core.lines import SECOND, UNKNOWN, Block, to_time

TAIL_LINES = 4096
_DIGEST_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a source has been stored.

    ``time`` is the newest time seen, ``tail`` the checksums of all lines from the first one of that time on, in order
    (older ones among them are jitter), ``forgotten`` how many more came before these, ``oldest`` the smallest time
    among them. A line that is not complete yet counts by ``open_bytes``. ``offset`` is the next byte of a
    byte-addressed source.
    """

    time: int = UNKNOWN
    oldest: int = UNKNOWN
    tail: tuple[int, ...] = ()
    forgotten: int = 0
    open_bytes: int = 0
    open_time: int = UNKNOWN
    open_digest: int = 0
    offset: int = 0

    @property
    def is_empty(self) -> bool:
        """Nothing of a log with times is stored."""
        return not (self.tail or self.forgotten or self.open_bytes)

    @property
    def since(self) -> datetime | None:
        """What to ask the log endpoint for: a whole second, at least one before the oldest line to find again.

        That one second is for lines that were stamped earlier than others before them: the kubelet judges each line by
        itself, and would leave a new one out.
        """
        moment = to_time(self.oldest - SECOND)
        return moment.replace(microsecond=0) if moment and not self.is_empty else None


class Tracker:
    """Keeps the checkpoint of a log with times up to date, block by block."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._time = checkpoint.time
        self._oldest = checkpoint.oldest
        self._tail = list(checkpoint.tail)
        self._forgotten = checkpoint.forgotten
        self._open_bytes = checkpoint.open_bytes
        self._open_time = checkpoint.open_time
        self._open_digest = checkpoint.open_digest

    def checkpoint(self, offset: int) -> Checkpoint:
        """The state now."""
        return Checkpoint(
            time=self._time,
            oldest=self._oldest,
            tail=tuple(self._tail),
            forgotten=self._forgotten,
            open_bytes=self._open_bytes,
            open_time=self._open_time,
            open_digest=self._open_digest,
            offset=offset,
        )

    def close_line(self) -> None:
        """The open line ends here for us, whatever the source still has of it."""
        if self._open_bytes:
            self._append([self._open_digest], [self._open_time])
            self._open_bytes = 0

    def track(self, block: Block) -> None:
        """Takes a block in, before masking."""
        text, times, first = block.text, block.times, 0
        if self._open_bytes and text:
            first = text.find(b"\n") + 1 or len(text)
            self._grow(text[:first])
            times = times[1:]
        end = text.rfind(b"\n") + 1
        rest = text[max(first, end) :]
        complete = times[:-1] if rest else times
        if complete:
            self._add(text[first:end], list(complete))
        if rest:
            self._begin(rest, times[-1])

    def _grow(self, piece: bytes) -> None:
        body = piece.removesuffix(b"\n")
        room = max(0, _DIGEST_BYTES - self._open_bytes)
        self._open_digest = crc32(body[:room], self._open_digest)
        self._open_bytes += len(body)
        if len(body) < len(piece):
            self.close_line()

    def _begin(self, piece: bytes, time: int) -> None:
        self._rise(time)
        self._oldest = min(self._oldest, time)
        self._open_bytes, self._open_time = len(piece), time
        self._open_digest = digest(piece, time)

    def _rise(self, time: int) -> None:
        if time > self._time:
            self._time = self._oldest = time
            self._tail, self._forgotten = [], 0
        elif not self._tail and not self._forgotten:
            self._oldest = self._time = time

    def _add(self, text: bytes, times: list[int]) -> None:
        start = 0
        newest = max(times)
        if newest > self._time:
            start = times.index(newest)
            self._rise(newest)
        elif not self._tail and not self._forgotten:
            self._time = self._oldest = newest
            start = times.index(newest)
        kept = times[start:]
        lines = text.rsplit(b"\n", len(kept) + 1)[-len(kept) - 1 : -1]
        self._append([digest(line, time) for line, time in zip(lines, kept, strict=True)], kept)

    def _append(self, digests: list[int], times: list[int]) -> None:
        self._tail.extend(digests)
        self._oldest = min(self._oldest, *times)
        surplus = len(self._tail) - TAIL_LINES
        if surplus > 0:
            del self._tail[:surplus]
            self._forgotten += surplus


def digest(line: bytes, time: int) -> int:
    """What a line is recognised by: its time and its first 32 KiB."""
    return crc32(line[:_DIGEST_BYTES], crc32(time.to_bytes(8, "little", signed=True)))


class SeamState(Enum):
    SEEKING = "seeking"  # lines older than the checkpoint
    MATCHING = "matching"  # lines of the checkpoint's tail
    JOINED = "joined"  # continuity is proven
    BROKEN = "broken"  # it cannot be shown: record a Gap before writing on


class Seam:
    """Drops what is stored already from the beginning of a resumed log."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._next = 0  # lines of the tail seen, the forgotten ones included
        self._drops_open_line = False
        self._skip_bytes = 0
        self.state = SeamState.JOINED if checkpoint.is_empty else SeamState.SEEKING
        self.broken_at: datetime | None = None

    @property
    def is_broken(self) -> bool:
        """Continuity could not be shown. Also true for a stream that has ended without the stored line."""
        return self.state is SeamState.BROKEN

    def drop(self, block: Block) -> Block | None:
        """The part of the block that is new, None where nothing is."""
        if self.state in (SeamState.JOINED, SeamState.BROKEN) and not self._drops_open_line and not self._skip_bytes:
            return block
        if self.state is SeamState.SEEKING and block.times and max(block.times) < self._checkpoint.time:
            self._drops_open_line = not block.text.endswith(b"\n")
            return None
        return self._drop_lines(block)

    def finish(self) -> None:
        """The stream has ended: a stored line that never came is a break."""
        if self.state is SeamState.SEEKING or (self.state is SeamState.MATCHING and not self._next):
            self.state = SeamState.BROKEN

    def _drop_lines(self, block: Block) -> Block | None:
        position = 0
        for number, time in enumerate(block.times):
            end = block.text.find(b"\n", position) + 1 or len(block.text)
            kept = self._judge(block.text[position:end], time)
            if kept is not None:
                return Block(block.text[position + kept :], block.times[number:])
            position = end
        return None

    def _judge(self, piece: bytes, time: int) -> int | None:
        """How many bytes at the front of a piece are stored already; None: all of it."""
        is_ended = piece.endswith(b"\n")
        if self._drops_open_line:
            self._drops_open_line = not is_ended
            return None
        if self._skip_bytes:
            return self._skip(piece)
        if self.state is SeamState.SEEKING and time < self._checkpoint.time:
            self._drops_open_line = not is_ended
            return None
        return self._match(piece, time)

    def _match(self, piece: bytes, time: int) -> int | None:
        if self.state in (SeamState.JOINED, SeamState.BROKEN):
            return 0
        cp = self._checkpoint
        if self.state is SeamState.SEEKING and time > cp.time:
            return self._break(time)
        self.state = SeamState.MATCHING
        line = piece.removesuffix(b"\n")
        found = self._find(digest(line, time))
        if found is not None:
            self._next = found + 1
            self._drops_open_line = not piece.endswith(b"\n")
            if self._next == cp.forgotten + len(cp.tail) and not cp.open_bytes:
                self.state = SeamState.JOINED
            return None
        if self._is_open_line(line, time):
            self.state = SeamState.JOINED
            self._skip_bytes = cp.open_bytes
            return self._skip(piece)
        return self._break(time)

    def _find(self, wanted: int) -> int | None:
        cp = self._checkpoint
        if self._next < cp.forgotten:
            return self._next
        try:
            return cp.forgotten + cp.tail.index(wanted, self._next - cp.forgotten)
        except ValueError:
            return None

    def _is_open_line(self, line: bytes, time: int) -> bool:
        cp = self._checkpoint
        if not cp.open_bytes or time != cp.open_time:
            return False
        stored = min(cp.open_bytes, _DIGEST_BYTES)
        return len(line) >= stored and digest(line[:stored], time) == cp.open_digest

    def _skip(self, piece: bytes) -> int | None:
        skipped = min(self._skip_bytes, len(piece))
        self._skip_bytes -= skipped
        return skipped if skipped < len(piece) else None

    def _break(self, time: int) -> int:
        self.state = SeamState.BROKEN
        self.broken_at = to_time(time)
        return 0
