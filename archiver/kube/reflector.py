"""Keeps one cache equal to the API server: list, watch, relist, and every difference handed out exactly once."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

import structlog

from archiver.errors import KubeDenied, KubeError, KubeGone, UserError
from archiver.kube.cache import Cache, Difference
from archiver.kube.discovery import find_resource
from archiver.kube.listwatch import ListWatch, Page, Target, Timing
from archiver.kube.pacing import Backoff
from archiver.kube.resources import CANDIDATES, OPTIONAL_KINDS
from archiver.kube.stats import WatchState, WatchStats
from archiver.kube.transport import Transport
from archiver.kube.trim import is_ours, without_managed_fields
from archiver.kube.watchlines import MalformedWatch, WatchEvent
from archiver.ports import Change, ChangeType

OnChange = Callable[[Change], Awaitable[None]]

_EVENT_BODY_LIMIT = 20_000
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Listener:
    """Who hears of changes, and the clock that dates them."""

    on_change: OnChange
    now: Callable[[], datetime]


class Reflector:
    """``run`` goes on until it is cancelled. ``settled`` is set once the first list is complete, or is known to be
    impossible for now (no CRD, no right): then ``stats.state`` says which."""

    def __init__(self, transport: Transport, target: Target, listener: Listener, timing: Timing) -> None:
        self.target = target
        self.cache = Cache(target.kind, body_limit=_EVENT_BODY_LIMIT if target.kind == "events" else None)
        self.stats = WatchStats()
        self.settled = asyncio.Event()
        self._transport = transport
        self._listener = listener
        self._timing = timing
        self._backoff = Backoff(timing.backoff_base_seconds, timing.backoff_cap_seconds)
        self._listwatch: ListWatch | None = None
        self._version: str | None = None
        self._expired_lists = 0
        self._silences = 0

    async def run(self) -> None:
        while True:
            try:
                wait_seconds = await self.step()
            except Exception:
                # The top of the task: whatever a broken object did to us, the other watches and the next try go on.
                _log.exception("watch failed", watch=self.target.name)
                wait_seconds = self._again("failed", relist=True)
            await asyncio.sleep(wait_seconds)

    async def step(self) -> float:
        """One discovery, list or watch; returns the seconds to wait before the next."""
        try:
            if self._listwatch is None:
                return await self._discover()
            if self._version is None:
                return await self._relist(self._listwatch)
            return await self._follow(self._listwatch, self._version)
        except KubeGone:
            self.stats.gone += 1
            return self._again("gone", relist=True)
        except KubeDenied as error:
            return self._unavailable(WatchState.DENIED, str(error), self._timing.denied_seconds)
        except TimeoutError:
            return self._after_silence()
        except MalformedWatch as error:
            self.stats.malformed += 1
            return self._again("malformed", error=str(error))
        except (KubeError, UserError) as error:
            self.stats.cuts += 1
            return self._again("cut", error=str(error))

    async def _discover(self) -> float:
        resource = await find_resource(self._transport, self.target.kind)
        if resource is None:
            label = CANDIDATES[self.target.kind][0].label
            reason = f"the API server does not serve {label}: waiting for its CRD"
            return self._unavailable(WatchState.ABSENT, reason, self._timing.absent_seconds)
        self._listwatch = ListWatch(self._transport, resource, self.target, self._timing)
        return 0.0

    async def _relist(self, listwatch: ListWatch) -> float:
        """The whole list, page by page, so that only one page of full objects is in memory."""
        self.stats.lists += 1
        seen: set[str] = set()
        try:
            page = await listwatch.page(limit=self._page_limit())
            while page is not None:
                await self._take_page(page, seen)
                if not page.next_token:
                    return await self._finish_list(page, seen)
                page = await listwatch.page(page.next_token, limit=self._page_limit())
        except KubeGone:
            self._expired_lists += 1
            raise
        self._listwatch = None  # 404: the resource is not served any more
        return 0.0

    async def _finish_list(self, page: Page, seen: set[str]) -> float:
        await self._deliver(self.cache.forget_unseen(seen, page.version), is_relisted=True)
        self._version = page.version
        self._expired_lists = 0
        self._synced()
        return 0.0

    def _page_limit(self) -> int:
        """After a 410 in the middle of paging the next list takes fewer, larger pages, at last a single one."""
        return self._timing.page_limit * 10**self._expired_lists if self._expired_lists < 2 else 0

    async def _take_page(self, page: Page, seen: set[str]) -> None:
        self.stats.pages += 1
        self._alive()
        ours = [without_managed_fields(item) for item in page.items if is_ours(self.target.kind, item)]
        self.stats.ignored += len(page.items) - len(ours)
        await self._deliver(self.cache.relist(ours, seen), is_relisted=True)

    async def _follow(self, listwatch: ListWatch, version: str) -> float:
        self.stats.watches += 1
        started_at = asyncio.get_running_loop().time()
        async with aclosing(listwatch.watch(version, self._alive)) as events:
            async for event in events:
                await self._take_event(event)
        lasted_seconds = asyncio.get_running_loop().time() - started_at
        if lasted_seconds >= 1.0:
            self._backoff.reset()
        self.stats.count_reconnect("ended")
        return self._backoff.next_seconds()

    async def _take_event(self, event: WatchEvent) -> None:
        self._alive()
        self._backoff.reset()
        self._silences = 0
        if event.type == "BOOKMARK":
            self.stats.bookmarks += 1
        elif is_ours(self.target.kind, event.object):
            document = without_managed_fields(event.object)
            await self._deliver(self.cache.apply(ChangeType(event.type), document), is_relisted=False)
        else:
            self.stats.ignored += 1
        self._version = event.object["metadata"]["resourceVersion"]

    async def _deliver(self, differences: Iterable[Difference], *, is_relisted: bool) -> None:
        for type_, document in differences:
            self.stats.changes += 1
            self.stats.objects = len(self.cache)
            change = Change(self.target.kind, type_, document, self._listener.now(), relisted=is_relisted)
            try:
                await self._listener.on_change(change)
            except Exception:
                # The top of a task: one object that the services cannot digest must not end the watch of all others.
                self.stats.callback_errors += 1
                metadata = document["metadata"]
                where = {"namespace": metadata.get("namespace"), "name": metadata.get("name")}
                _log.exception("change not taken", kind=self.target.kind.value, **where)

    def _after_silence(self) -> float:
        """No failure: a quiet resource is silent too. Watch again from where we are; after several in a row, list."""
        self.stats.silences += 1
        self.stats.count_reconnect("silence")
        self._silences += 1
        if self._silences >= self._timing.silences_before_relist:
            self._silences, self._version = 0, None
        return self._timing.backoff_base_seconds * random.random()

    def _alive(self) -> None:
        self.stats.last_seen_at = self._listener.now()
        if self.stats.state is WatchState.FAILING and self._version is not None:
            self._synced()

    def _synced(self) -> None:
        self._backoff.reset()
        if self.stats.state is not WatchState.SYNCED:
            self.stats.state, self.stats.reason = WatchState.SYNCED, ""
            _log.info("watch synced", watch=self.target.name, objects=len(self.cache))
        self.settled.set()

    def _unavailable(self, state: WatchState, reason: str, wait_seconds: float) -> float:
        """No CRD or no right: said once, asked again at a slow pace, because both get mended."""
        if self.stats.state is not state:
            say = _log.info if self.target.kind in OPTIONAL_KINDS else _log.warning
            say("watch not possible", watch=self.target.name, reason=reason)
        self.stats.state, self.stats.reason = state, reason
        self._version = None
        self.settled.set()
        return wait_seconds

    def _again(self, reason: str, *, relist: bool = False, error: str = "") -> float:
        self.stats.count_reconnect(reason)
        if error and self.stats.reason != error:
            # A first cut is everyday life (an API server rolls over); a second one in a row is not.
            say = _log.warning if self._backoff.failures else _log.info
            say("watch interrupted", watch=self.target.name, reason=error)
        self.stats.reason = error
        if relist:
            self._version = None
        if self._backoff.failures >= 2:
            self.stats.state = WatchState.FAILING
        return self._backoff.next_seconds()
