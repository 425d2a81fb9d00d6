"""How far a stream has been taken in, as it moves. The frozen form is core.segments.StreamState."""

from collections import Counter
from dataclasses import dataclass, field, replace

from archiver.core.frames import time_span
from archiver.core.lines import UNKNOWN, Block
from archiver.core.model import Gap
from archiver.core.resume import Tracker
from archiver.core.segments import Span, StreamState, add_span


@dataclass(slots=True)
class Progress:
    """Counts what goes into the parts. ``position`` is the next source byte; ``anchor`` the part's first one."""

    base: StreamState
    tracker: Tracker = field(init=False)
    position: int = field(init=False)
    anchor: int = field(init=False)
    _now: StreamState = field(init=False)
    _masked: Counter[str] = field(init=False)
    _has_news: bool = False

    def __post_init__(self) -> None:
        self._now = self.base
        self._masked = Counter(self.base.masked)
        self.tracker = Tracker(self.base.checkpoint)
        self.position = self.anchor = self.base.checkpoint.offset

    @classmethod
    def resumed(cls, anchor: int, state: StreamState) -> "Progress":
        """In the middle of a part that began at ``anchor``, and that holds what no part has."""
        progress = cls(state)
        progress.anchor, progress._has_news = anchor, True
        return progress

    @property
    def lines(self) -> int:
        """Lines so far."""
        return self._now.lines

    @property
    def ends_line(self) -> bool:
        """The text so far ends with a newline."""
        return self._now.ends_line

    @property
    def has_news(self) -> bool:
        """Something was taken in, or a gap noted, that is in no part yet."""
        return self._has_news

    @property
    def spans(self) -> tuple[Span, ...]:
        """Source bytes taken in so far."""
        return add_span(self._now.spans, Span(self.anchor, self.position))

    def take(self, raw: Block, text: bytes, masked: Counter[str]) -> None:
        """Text of the source, and what became of it by masking."""
        self._has_news = True
        self.tracker.track(raw)
        self.position += len(raw.text)
        self._masked += masked
        self._count(Block(text, raw.times), source_bytes=len(raw.text))

    def close_line(self, time: int) -> None:
        """A newline of ours ends a line whose rest is missing."""
        self.tracker.close_line()
        self._has_news = True
        self._count(Block(b"\n", [time]), source_bytes=0)

    def add_gap(self, gap: Gap) -> None:
        """A hole at this place."""
        self._has_news = True
        self._now = replace(self._now, gaps=(*self._now.gaps, replace(gap, at_line=self.lines)))

    def move(self, position: int) -> None:
        """The source goes on elsewhere. Only between two parts."""
        self._now = replace(self._now, spans=self.spans)
        self.position = self.anchor = position

    def next_part(self) -> None:
        """A part was finished."""
        self.move(self.position)
        self._has_news = False
        self._now = replace(self._now, next_sequence=self._now.next_sequence + 1)

    def state(self, *, in_key: bool) -> StreamState:
        """All of it, to be stored."""
        return replace(
            self._now,
            spans=self.spans,
            masked=dict(self._masked),
            in_key=in_key,
            checkpoint=self.tracker.checkpoint(self.position),
        )

    @property
    def sequence(self) -> int:
        """The number of the part that is being filled."""
        return self._now.next_sequence

    def _count(self, block: Block, *, source_bytes: int) -> None:
        now = self._now
        first, last = time_span(block.times)
        known = [time for time in (now.first_time, first) if time != UNKNOWN]
        self._now = replace(
            now,
            raw_bytes=now.raw_bytes + len(block.text),
            newlines=now.newlines + block.newlines,
            ends_line=block.text.endswith(b"\n"),
            source_bytes=now.source_bytes + source_bytes,
            first_time=min(known, default=UNKNOWN),
            last_time=max(now.last_time, last),
        )
