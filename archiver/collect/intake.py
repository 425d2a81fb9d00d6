"""Takes an attempt's changes in: folds them at once, journals them behind that, and after a restart recalls what was.

The fold never waits for disk or store, so followers see at once what has become of their pods. The journal may wait for
room in the spool; then, after very many changes, whoever brings more waits too.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from archiver.collect.fold import RECALLED, Fold
from archiver.collect.journal import Journal
from archiver.collect.state import AttemptState
from archiver.collect.tools import Tools
from archiver.core.model import Kind
from archiver.core.objects import uid
from archiver.ports import Change

_WAITING = 2000
# what has to be listed before something can be known to be gone, or to be all
_NEEDED = (Kind.RAYCLUSTER, Kind.JOB, Kind.POD, Kind.EVENT)


class Intake:
    """``take`` is what the controller calls; ``recall`` once, ``write_on`` in a task, ``drain`` at the end."""

    def __init__(self, state: AttemptState, tools: Tools, journal: Journal, on_news: Callable[[], None]) -> None:
        self._state = state
        self._tools = tools
        self._journal = journal
        self._on_news = on_news
        self._early: list[Change] = []
        self._unwritten: deque[Change] = deque()
        self._wake, self._room, self._idle = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._is_recalled = False
        self._is_checked = False
        self._fold = Fold(state, tools.node)

    async def take(self, change: Change) -> None:
        """Folds a change in; waits where very many are not journaled yet."""
        if self._is_recalled:
            self._queue(self._fold.add(change))
        else:
            self._early.append(change)
        self._on_news()
        while len(self._unwritten) > _WAITING:
            self._room.clear()
            await self._room.wait()

    async def recall(self, *, is_new: bool) -> None:
        """Makes the fold of an earlier process again, then folds in what came meanwhile. ``is_new``: there was none."""
        if self._is_recalled:
            return
        recalled = [] if is_new else [change for kind in RECALLED for change in await self._journal.recall(kind)]
        for change in recalled:
            self._fold.add(change)
        early, self._early = self._early, []
        self._is_recalled = True
        for change in early:
            self._queue(self._fold.add(change))

    def check_gone(self) -> bool:
        """Once after a recall: what the cluster does not have any more is gone. True when that is known."""
        if self._is_checked:
            return True
        if not all(self._tools.is_settled(kind) for kind in _NEEDED):
            return False
        self._is_checked = True
        now, state = self._tools.now(), self._state
        for pod in state.pods.values() if self._tools.is_listed(Kind.POD) else ():
            if pod.gone_at is None and not self._tools.exists(uid(pod.object)):
                pod.gone_at = now
        is_known = self._tools.is_listed(Kind.RAYCLUSTER)
        if is_known and state.cluster and not state.cluster_deleted_seen and not self._tools.exists(uid(state.cluster)):
            state.cluster_deleted_seen = now
            state.signal(now)
        return True

    async def write_on(self) -> None:
        """Journals for ever. A change that could not be written is the next one again."""
        while True:
            while not self._unwritten:
                self._idle.set()
                self._wake.clear()
                await self._wake.wait()
            await self._write(self._unwritten[0])
            self._unwritten.popleft()
            self._room.set()

    async def drain(self) -> None:
        """Waits until all that was taken is journaled."""
        await self._idle.wait()

    @property
    def events(self) -> Mapping[str, Mapping[str, Any]]:
        """The Events that tell of the attempt, by uid."""
        return self._fold.events

    def nodes_of_the_end(self) -> list[Mapping[str, Any]]:
        """The nodes' conditions and taints of the time when the attempt ended."""
        return self._fold.nodes_of_the_end()

    def _queue(self, news: list[Change]) -> None:
        if news:
            self._unwritten.extend(news)
            self._idle.clear()
            self._wake.set()

    async def _write(self, change: Change) -> None:
        is_written = await self._journal.write(
            change.kind, change.object, how=str(change.type), seen_at=change.seen_at, relisted=change.relisted
        )
        if is_written:
            self._on_news()
