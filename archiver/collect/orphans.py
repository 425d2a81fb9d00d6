"""Changes whose owner is not known yet: watches of different kinds are not in step. Kept for two minutes, and not too many.

Bounded by objects and by versions of one object: of an object that changes and changes, the newest versions stay.
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic

from archiver.core.objects import uid
from archiver.core.ownership import Ref
from archiver.ports import Change

_KEPT = 20_000
_VERSIONS = 16
_AGE_SECONDS = 120.0
_Key = tuple[str, str]


@dataclass(slots=True)
class _Waiting:
    """One object's changes, oldest first, and the references that they wait for."""

    number: int
    since: float
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=_VERSIONS))
    refs: set[Ref] = field(default_factory=set)


class Orphans:
    """Found again by what they refer to, object by object in the order they came."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._waiting: OrderedDict[_Key, _Waiting] = OrderedDict()
        self._by_ref: defaultdict[Ref, dict[_Key, None]] = defaultdict(dict)
        self._count = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def keep(self, change: Change, refs: Iterable[Ref]) -> None:
        """Something that refers to nothing can never be claimed and is not kept."""
        refs = tuple(refs)
        if not refs:
            return
        now = self._clock()
        self._expire(now)
        key = (str(change.kind), uid(change.object))
        if key not in self._waiting:
            self._count += 1
            self._waiting[key] = _Waiting(self._count, now)
        entry = self._waiting[key]
        entry.changes.append(change)
        entry.refs |= set(refs)
        for ref in refs:
            self._by_ref[ref][key] = None

    def claim(self, refs: Iterable[Ref], now: float) -> list[Change]:
        """Takes out what waits for any of the references."""
        self._expire(now)
        keys = {key for ref in refs for key in self._by_ref.get(ref, ())}
        claimed = sorted((self._waiting[key] for key in keys), key=lambda entry: entry.number)
        for key in keys:
            self._drop(key)
        return [change for entry in claimed for change in entry.changes]

    def _expire(self, now: float) -> None:
        while self._waiting:
            key, entry = next(iter(self._waiting.items()))
            if len(self._waiting) <= _KEPT and now - entry.since <= _AGE_SECONDS:
                return
            self._drop(key)

    def _drop(self, key: _Key) -> None:
        entry = self._waiting.pop(key)
        for ref in entry.refs:
            keys = self._by_ref.get(ref, {})
            keys.pop(key, None)
            if not keys:
                self._by_ref.pop(ref, None)
