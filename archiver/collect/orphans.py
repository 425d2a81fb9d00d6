"""Changes whose owner is not known yet: watches of different kinds are not in step. Kept for a minute, and not too many."""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from archiver.core.ownership import Ref
from archiver.ports import Change

_KEPT = 20_000
_AGE = timedelta(minutes=2)


class Orphans:
    """Found again by what they refer to, in the order they came."""

    def __init__(self) -> None:
        self._changes: OrderedDict[int, tuple[Change, tuple[Ref, ...]]] = OrderedDict()
        self._by_ref: defaultdict[Ref, list[int]] = defaultdict(list)
        self._next = 0

    def __len__(self) -> int:
        return len(self._changes)

    def keep(self, change: Change, refs: Iterable[Ref]) -> None:
        """Something that refers to nothing can never be claimed and is not kept."""
        refs = tuple(refs)
        if not refs:
            return
        self._expire(change.seen_at)
        self._changes[self._next] = (change, refs)
        for ref in refs:
            self._by_ref[ref].append(self._next)
        self._next += 1

    def claim(self, refs: Iterable[Ref], now: datetime) -> list[Change]:
        """Takes out what waits for any of the references."""
        self._expire(now)
        numbers = sorted({number for ref in refs for number in self._by_ref.get(ref, ())})
        claimed = [self._changes[number][0] for number in numbers if number in self._changes]
        for number in numbers:
            self._drop(number)
        return claimed

    def _expire(self, now: datetime) -> None:
        while self._changes:
            number, (change, _) = next(iter(self._changes.items()))
            if len(self._changes) <= _KEPT and now - change.seen_at <= _AGE:
                return
            self._drop(number)

    def _drop(self, number: int) -> None:
        entry = self._changes.pop(number, None)
        for ref in entry[1] if entry else ():
            numbers = self._by_ref.get(ref, [])
            if number in numbers:
                numbers.remove(number)
            if not numbers:
                self._by_ref.pop(ref, None)
