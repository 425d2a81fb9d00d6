"""Failures over time as bars stacked by category of cause, and as small lines of a number a day. Pictures of counts.

Plain values for ``partials/bars.html``: places in a view box of WIDTH by HEIGHT. The same numbers stand in a table.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from archiver.read.statistics import Slot, Statistics
from web.pages import words

WIDTH, HEIGHT = 1000, 100
MAX_BARS = 200
_GAP = 0.15  # of a bar's width


@dataclass(frozen=True, slots=True)
class Piece:
    """One category in one bar."""

    category: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One bucket of time: its address narrows the list to it."""

    label: str
    title: str
    href: str
    x: float
    width: float
    total: int
    pieces: tuple[Piece, ...]
    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class BarChart:
    """``categories`` most frequent first; ``most`` is the height of the highest bar."""

    bars: tuple[Bar, ...]
    categories: tuple[str, ...]
    most: int
    unit: str
    first: str
    middle: str
    last: str


def draw(statistics: Statistics, address: Callable[[datetime, datetime], str], *, now: datetime) -> BarChart | None:
    """None where nothing failed. ``address`` gives where a click on a bucket leads."""
    if not statistics.slots:
        return None
    width = _width(statistics, now)
    slots = _merged(statistics.slots, width)
    starts = _starts(statistics, slots, width, now)
    most = max(sum(counts.values()) for counts in slots.values())
    categories = _by_size(slots.values())
    step = WIDTH / len(starts)
    bars = [
        _bar(start, width, slots.get(start, {}), (categories, step * number, step, most), address)
        for number, start in enumerate(starts)
    ]
    is_fine = width < timedelta(days=1)
    middle = starts[len(starts) // 2]
    ends = (_label(each, is_fine=is_fine) for each in (starts[0], middle, starts[-1] + width))
    return BarChart(tuple(bars), categories, most, _unit(width), *ends)


def spark(counts: Sequence[int]) -> str:
    """The points of a polyline in a view box of 100 by 20."""
    most = max(counts, default=0) or 1
    step = 100 / max(1, len(counts) - 1)
    return " ".join(f"{number * step:.1f},{19 - 18 * count / most:.1f}" for number, count in enumerate(counts))


def _width(statistics: Statistics, now: datetime) -> timedelta:
    """Buckets as they were counted; days become weeks where there would be too many."""
    width = timedelta(seconds=statistics.bucket_seconds)
    first = statistics.since or statistics.slots[0].start
    return width if (now - first) / width <= MAX_BARS else width * 7


def _merged(slots: Sequence[Slot], width: timedelta) -> dict[datetime, dict[str, int]]:
    merged: dict[datetime, dict[str, int]] = {}
    for slot in slots:
        counts = merged.setdefault(_start(slot.start, width), {})
        counts[slot.category] = counts.get(slot.category, 0) + slot.failed
    return merged


def _start(moment: datetime, width: timedelta) -> datetime:
    epoch = datetime(1970, 1, 5, tzinfo=UTC)  # a Monday
    return epoch + (moment - epoch) // width * width


def _starts(
    statistics: Statistics, slots: dict[datetime, dict[str, int]], width: timedelta, now: datetime
) -> list[datetime]:
    """Every bucket of the range, also the empty ones; the newest MAX_BARS where the archive is older than that."""
    first = _start(statistics.since, width) if statistics.since else min(slots)
    last = max(_start(min(statistics.until or now, now), width), max(slots))
    count = min((last - first) // width + 1, MAX_BARS)
    return [last - width * number for number in reversed(range(count))]


def _by_size(buckets: Iterable[Mapping[str, int]]) -> tuple[str, ...]:
    sums: dict[str, int] = {}
    for each in buckets:
        for category, count in each.items():
            sums[category] = sums.get(category, 0) + count
    return tuple(sorted(sums, key=lambda category: (-sums[category], category)))


def _bar(
    start: datetime,
    width: timedelta,
    counts: dict[str, int],
    place: tuple[tuple[str, ...], float, float, int],
    address: Callable[[datetime, datetime], str],
) -> Bar:
    categories, x, step, most = place
    pieces, top = [], float(HEIGHT)
    for category in categories:
        height = HEIGHT * counts.get(category, 0) / most
        if height:
            top -= height
            pieces.append(Piece(category, round(x, 2), round(top, 2), round(step * (1 - _GAP), 2), round(height, 2)))
    total = sum(counts.values())
    label = _label(start, is_fine=width < timedelta(days=1))
    said = tuple((category, counts[category]) for category in categories if counts.get(category))
    listed = ", ".join(f"{count} {words.category(category)}" for category, count in said)
    title = f"{label}: {words.plural(total, 'failure')}" + (f" ({listed})" if listed else "")
    href = address(start, start + width)
    return Bar(label, title, href, round(x, 2), round(step, 2), total, tuple(pieces), said)


def _label(moment: datetime, *, is_fine: bool) -> str:
    return f"{moment:%d %b %H:%M}" if is_fine else f"{moment:%d %b}"


def _unit(width: timedelta) -> str:
    if width < timedelta(days=1):
        return "hour"
    return "day" if width == timedelta(days=1) else "week"
