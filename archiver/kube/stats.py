"""Plain counters of the watches, read by metrics and readiness. Not a metrics library."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class WatchState(StrEnum):
    """What one kind's watch is doing, in words for /readyz."""

    STARTING = "starting"
    SYNCED = "synced"
    ABSENT = "absent"  # the API server does not serve the resource (no CRD yet)
    DENIED = "denied"  # no right to list or watch it
    FAILING = "failing"  # the last try failed; it is tried again


@dataclass(slots=True)
class WatchStats:
    """Counted since start, for one kind in one namespace (or all). ``last_seen_at`` is the last sign of life."""

    state: WatchState = WatchState.STARTING
    reason: str = ""
    last_seen_at: datetime | None = None
    lists: int = 0
    pages: int = 0
    objects: int = 0
    watches: int = 0
    changes: int = 0
    bookmarks: int = 0
    ignored: int = 0
    gone: int = 0
    silences: int = 0
    malformed: int = 0
    cuts: int = 0
    callback_errors: int = 0
    reconnects: dict[str, int] = field(default_factory=dict)

    def count_reconnect(self, reason: str) -> None:
        self.reconnects[reason] = self.reconnects.get(reason, 0) + 1
