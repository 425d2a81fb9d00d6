"""Which keys need a look, and when: deduplicated, delayed, backed off per key. As controller-runtime's, in asyncio."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import structlog

from archiver.errors import ArchiverError
from archiver.kube.pacing import Backoff

K = TypeVar("K", bound=Hashable)
Reconcile = Callable[[K], Awaitable[float | None]]

_log = structlog.get_logger()


class WorkQueue(Generic[K]):
    """A key is in work at most once at a time; added while in work, it comes again afterwards.

    Bounded by the number of different keys. Used from one event loop.
    """

    def __init__(self, *, backoff_base_seconds: float = 0.1, backoff_cap_seconds: float = 60.0) -> None:
        self._base_seconds = backoff_base_seconds
        self._cap_seconds = backoff_cap_seconds
        self._ready: dict[K, None] = {}  # in order of arrival
        self._working: set[K] = set()
        self._dirty: set[K] = set()
        self._due_at: dict[K, float] = {}
        self._delayed: list[tuple[float, int, K]] = []
        self._count = 0
        self._backoffs: dict[K, Backoff] = {}
        self._wakeup = asyncio.Event()

    def __len__(self) -> int:
        return len(self._ready) + len(self._dirty)

    def add(self, key: K) -> None:
        """Now, before anything that was planned for the key."""
        self._due_at.pop(key, None)
        if key in self._working:
            self._dirty.add(key)
        else:
            self._ready.setdefault(key)
            self._wakeup.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Later; the earliest of several plans for a key holds, and a key that is ready stays so."""
        if seconds <= 0:
            self.add(key)
            return
        if key in self._ready or key in self._dirty:
            return
        due_at = asyncio.get_running_loop().time() + seconds
        if due_at < self._due_at.get(key, float("inf")):
            self._due_at[key] = due_at
            self._count += 1
            heapq.heappush(self._delayed, (due_at, self._count, key))
            self._wakeup.set()

    def add_with_backoff(self, key: K) -> None:
        """Later, after a failure: each further one waits longer until ``forget``."""
        backoff = self._backoffs.setdefault(key, Backoff(self._base_seconds, self._cap_seconds))
        self.add_after(key, backoff.next_seconds())

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure waits shortly again."""
        self._backoffs.pop(key, None)

    def failures(self, key: K) -> int:
        backoff = self._backoffs.get(key)
        return backoff.failures if backoff else 0

    async def get(self) -> K:
        """Waits for a key. The caller must call ``done`` with it, whatever happens."""
        while True:
            next_due_seconds = self._release_due()
            if self._ready:
                key = next(iter(self._ready))
                del self._ready[key]
                self._working.add(key)
                if self._ready:
                    self._wakeup.set()
                return key
            self._wakeup.clear()
            try:
                async with asyncio.timeout(next_due_seconds):
                    await self._wakeup.wait()
            except TimeoutError:
                continue

    def done(self, key: K) -> None:
        self._working.discard(key)
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def _release_due(self) -> float | None:
        """Makes due keys ready; returns the seconds until the next one, None where there is none."""
        now = asyncio.get_running_loop().time()
        while self._delayed:
            due_at, _, key = self._delayed[0]
            if self._due_at.get(key) != due_at:
                heapq.heappop(self._delayed)  # replaced by an earlier plan, or done already
            elif due_at <= now:
                heapq.heappop(self._delayed)
                self.add(key)
            else:
                return due_at - now
        return None


async def run_workers(queue: WorkQueue[K], reconcile: Reconcile[K], *, workers: int, name: str) -> None:
    """Works until it is cancelled. ``reconcile`` returns seconds after which it wants the key again, or None.

    What it raises is logged, counted by ``queue.failures`` and tried again with backoff.
    """
    async with asyncio.TaskGroup() as group:
        for number in range(workers):
            group.create_task(_work(queue, reconcile), name=f"{name} {number}")


async def _work(queue: WorkQueue[K], reconcile: Reconcile[K]) -> None:
    while True:
        key = await queue.get()
        try:
            after_seconds = await reconcile(key)
        except ArchiverError as error:
            _log.warning("reconcile failed", key=str(key), reason=str(error), failures=queue.failures(key) + 1)
            queue.add_with_backoff(key)
        except Exception:
            # The top of the worker's task: one key must not end the work on all others.
            _log.exception("reconcile failed", key=str(key), failures=queue.failures(key) + 1)
            queue.add_with_backoff(key)
        else:
            queue.forget(key)
            if after_seconds is not None:
                queue.add_after(key, after_seconds)
        finally:
            queue.done(key)
