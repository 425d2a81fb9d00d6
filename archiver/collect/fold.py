"""Folds the changes of one attempt: its state, the Events that tell of it, and the nodes of its time. Waits for nothing."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from archiver.collect.lifetime import AFTER, NodeHistory, is_about_node, is_of_its_time
from archiver.collect.state import AttemptState
from archiver.core.model import Kind
from archiver.core.objects import name, text, uid
from archiver.ports import Change, ChangeType

# the order in which a journal is folded again
RECALLED = (Kind.RAYJOB, Kind.RAYCLUSTER, Kind.POD, Kind.NODE, Kind.EVENT)
_EVENTS_KEPT = 1000


class Fold:
    """``node`` gives the last version of a Node that the cluster has shown, None where it has shown none."""

    def __init__(self, state: AttemptState, node: Callable[[str], Mapping[str, Any] | None]) -> None:
        self._state = state
        self._node = node
        self.events: dict[str, Mapping[str, Any]] = {}
        self.nodes = NodeHistory()

    def add(self, change: Change) -> list[Change]:
        """The changes that are to be journaled: none for what is not of the attempt's time, more where a node is new."""
        if change.kind is Kind.NODE:
            is_news = self._is_in_time(change.seen_at) and self.nodes.add(
                name(change.object), change.object, change.seen_at
            )
            return [change] if is_news else []
        if change.kind is Kind.EVENT:
            return [change] if self._add_event(change) else []
        self._state.apply(change)
        found = [change]
        if change.kind is Kind.POD:
            found += self._note_node(text(change.object, "spec", "nodeName"), change.seen_at)
        return found

    def nodes_of_the_end(self) -> list[Mapping[str, Any]]:
        """The nodes' conditions and taints of the time when the attempt ended."""
        return self.nodes.around(self._state.first_signal_seen or self._state.ended_seen)

    def _add_event(self, change: Change) -> bool:
        event, state = change.object, self._state
        if change.type is ChangeType.DELETED:
            return False  # the API server forgets Events after an hour; that is no news
        if is_about_node(event) and not is_of_its_time(event, state.nodes_since(), state.ended_seen):
            return False
        self.events.pop(uid(event), None)
        self.events[uid(event)] = event
        while len(self.events) > _EVENTS_KEPT:
            del self.events[next(iter(self.events))]
        return True

    def _note_node(self, node: str, seen_at: datetime) -> list[Change]:
        """The node's conditions and taints as they were when the pod came to it."""
        if not node or node in self.nodes or (seen := self._node(node)) is None:
            return []
        self.nodes.add(node, seen, seen_at)
        return [Change(Kind.NODE, ChangeType.ADDED, seen, seen_at, relisted=True)]

    def _is_in_time(self, seen_at: datetime) -> bool:
        ended = self._state.ended_seen
        return ended is None or seen_at <= ended + AFTER
