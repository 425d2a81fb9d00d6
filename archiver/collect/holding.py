"""One attempt's hold: put on while its RayCluster runs, let go as soon as the evidence is safe, or at the hard cap.

And the keeper, which counts the holds that nobody counts any more: those of a process that was killed, or of an attempt
that is archived. It lets go of them, so that no finalizer is ever left behind.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import structlog

from archiver.collect import hold
from archiver.collect.state import AttemptState
from archiver.collect.tools import Tools
from archiver.core.objects import moment, name, namespace, uid
from archiver.errors import KubeDenied, KubeError
from archiver.ports import Change, ChangeType

_RELEASE_SECONDS = 5.0
_LOOK_SECONDS = 1.0
# an attempt that takes a hold over from an earlier process has so long to be opened
_TAKEOVER_SECONDS = 30.0
_log = structlog.get_logger()


class Hold:
    """``step`` puts it on or takes it off as the state demands. Nothing here raises for what Kubernetes refuses."""

    def __init__(self, state: AttemptState, tools: Tools, is_safe: Callable[[], bool]) -> None:
        self._state = state
        self._tools = tools
        self._is_safe = is_safe
        self._since: float | None = None
        self._deleting: float | None = None
        self._is_over = False
        self._refused = 0.0

    @property
    def is_on(self) -> bool:
        return self._since is not None

    async def step(self) -> None:
        """One look."""
        if self.is_on:
            if self._is_safe() or self._is_at_cap():
                await self.release()
        elif self._may_begin():
            await self._begin()

    async def release(self) -> None:
        """Lets go; tried again by the next ``step`` where Kubernetes does not answer."""
        if self._since is None:
            return
        ns, cluster = self._state.attempt.rayjob.namespace, self._state.ray_cluster
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                is_off = await hold.take_off(self._tools.objects, ns, cluster)
        except (KubeError, TimeoutError) as error:
            _log.error("hold not released, trying again", error=str(error) or "no answer")
            return
        if is_off:
            self._tools.metrics.finalizers_held.dec()
            self._tools.metrics.hold_seconds.observe(self._tools.monotonic() - self._since)
            self._since, self._is_over = None, True

    def _is_at_cap(self) -> bool:
        """Counted from when we saw the deletion, by a clock that does not jump, and by the deletion's own time."""
        deleting, cap = moment(self._state.cluster, "metadata", "deletionTimestamp"), self._tools.settings.hold_seconds
        if deleting is None:
            return False
        now = self._tools.monotonic()
        self._deleting = now if self._deleting is None else self._deleting
        return now - self._deleting > cap or (self._tools.now() - deleting).total_seconds() > cap

    def _may_begin(self) -> bool:
        state = self._state
        return (
            self._tools.settings.hold_seconds > 0
            and not self._is_over
            and bool(state.cluster)
            and not state.cluster_deleted_seen
            and not state.is_shared_cluster
            and not self._is_safe()
            and self._tools.is_store_healthy()
            and self._tools.monotonic() >= self._refused
            # a RayJob that is being deleted may be one of a whole namespace: that must not wait for us
            and (hold.is_held(state.cluster) or not moment(state.rayjob, "metadata", "deletionTimestamp"))
        )

    async def _begin(self) -> None:
        self._refused = self._tools.monotonic() + _TAKEOVER_SECONDS
        try:
            is_on = not await self._is_namespace_going() and await hold.put_on(self._tools.objects, self._state.cluster)
        except KubeError as error:
            _log.warning("hold not possible", error=str(error))
            return
        if is_on:
            self._since = self._tools.monotonic()
            self._tools.metrics.finalizers_held.inc()

    async def _is_namespace_going(self) -> bool:
        """A namespace that is being deleted must not wait for us. Without the right to ask, the cap must do."""
        try:
            phase = await self._tools.objects.namespace_phase(self._state.attempt.rayjob.namespace)
        except KubeDenied:
            return False
        return phase == "Terminating"


class HoldKeeper:
    """Watches RayClusters with our finalizer. ``is_counted`` says whether an open attempt holds one, by its uid."""

    def __init__(self, tools: Tools, is_counted: Callable[[str], bool]) -> None:
        self._tools = tools
        self._is_counted = is_counted
        self._held: dict[str, tuple[Mapping[str, Any], float]] = {}

    def note(self, change: Change) -> None:
        """A change of a RayCluster."""
        cluster = uid(change.object)
        if change.type is ChangeType.DELETED or not hold.is_held(change.object):
            self._held.pop(cluster, None)
            return
        since = self._held[cluster][1] if cluster in self._held else self._tools.monotonic()
        self._held[cluster] = (change.object, since)

    async def run(self) -> None:
        """Lets go for ever of what nobody counts."""
        while True:
            for cluster, (obj, since) in list(self._held.items()):
                if self._is_left_behind(cluster, obj, since):
                    await self._let_go(cluster, obj)
            await asyncio.sleep(_LOOK_SECONDS)

    def _is_left_behind(self, cluster: str, obj: Mapping[str, Any], since: float) -> bool:
        if self._is_counted(cluster):
            return False
        cap = self._tools.settings.hold_seconds
        deleting: datetime | None = moment(obj, "metadata", "deletionTimestamp")
        if deleting and (self._tools.now() - deleting).total_seconds() > cap:
            return True
        return self._tools.monotonic() - since > min(cap, _TAKEOVER_SECONDS)

    async def _let_go(self, cluster: str, obj: Mapping[str, Any]) -> None:
        try:
            if await hold.take_off(self._tools.objects, namespace(obj), name(obj)):
                self._held.pop(cluster, None)
                _log.warning("released a hold that nobody counted", namespace=namespace(obj), ray_cluster=name(obj))
        except KubeError as error:
            _log.error("hold not released, trying again", ray_cluster=name(obj), error=str(error))
