"""One resource's list pages and watch events, as the API server sends them. Keeps no state and retries nothing."""

import random
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

from archiver.errors import KubeGone, KubeUnavailable
from archiver.kube.answers import Call, error_of
from archiver.kube.resources import Resource
from archiver.kube.transport import Transport, next_chunk
from archiver.kube.watchlines import WatchEvent, WatchLines, has_identity
from archiver.ports import Kind


@dataclass(frozen=True, slots=True)
class Timing:
    """How patient the watches are, in seconds. The defaults are for real API servers; tests use shorter ones."""

    page_limit: int = 500
    page_timeout_seconds: float = 60.0
    watch_timeout_seconds: int = 300
    # Bookmarks come every 60 s where there is news to mark, so a watch that is silent for longer may be dead behind
    # some load balancer. Or just quiet: an API server sends no bookmark while nothing of the whole resource changes,
    # unless its etcd notifies of progress (seen on 1.34). A new watch from the same version tells, at no cost.
    silence_seconds: float = 70.0
    silences_before_relist: int = 5  # the versions themselves may be void: an etcd restored from its backup is silent
    backoff_base_seconds: float = 0.2
    backoff_cap_seconds: float = 15.0
    absent_seconds: float = 30.0
    denied_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Target:
    """What one watch covers: a kind in one namespace (None: all), narrowed by selectors on the server's side."""

    kind: Kind
    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""

    @property
    def name(self) -> str:
        where = self.namespace or "*"
        return " ".join(word for word in ("watch", self.kind.value, where, self.label_selector) if word)

    def params(self) -> dict[str, str]:
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {key: value for key, value in selectors.items() if value}


@dataclass(frozen=True, slots=True)
class Page:
    """One piece of a list. ``next_token`` is empty on the last one; ``version`` is where a watch can start."""

    items: list[dict[str, Any]]
    version: str
    next_token: str


class ListWatch:
    """Lists and watches one target through one served resource."""

    def __init__(self, transport: Transport, resource: Resource, target: Target, timing: Timing) -> None:
        self._transport = transport
        self._resource = resource
        self._target = target
        self._timing = timing

    async def page(self, token: str = "", *, limit: int) -> Page | None:
        """The page at a continue token; None where the resource is not served (any more).

        No ``resourceVersion``: the list must not be older than what was watched before, even from another server.
        """
        params = {"limit": str(limit)} if limit else {}
        call = self._call("list", params | ({"continue": token} if token else {}))
        answer = await self._transport.read_json(call, timeout_seconds=self._timing.page_timeout_seconds)
        return None if answer is None else self._parse_page(call, answer)

    async def watch(self, version: str, on_open: Callable[[], None] = lambda: None) -> AsyncGenerator[WatchEvent, None]:
        """Watch events after a resource version until the server ends the watch; ``on_open`` when it has begun.

        Raises KubeGone (by status or by ERROR event), KubeUnavailable on a cut, MalformedWatch on broken lines and
        TimeoutError where nothing at all came for ``silence_seconds``.
        """
        # Spread, so that watches which began together do not end together.
        timeout_seconds = int(self._timing.watch_timeout_seconds * random.uniform(1.0, 2.0))
        params = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        call = self._call("watch", params | {"timeoutSeconds": str(max(1, timeout_seconds))})
        lines = WatchLines()
        silence_seconds = self._timing.silence_seconds
        async with self._transport.open(call, header_timeout_seconds=silence_seconds) as response:
            if response.status == 404:
                raise KubeGone(f"cannot {call.intent}: the resource is not served any more")
            on_open()
            while chunk := await next_chunk(call, response, silence_seconds=silence_seconds):
                for event in lines.feed(chunk):
                    if event.type == "ERROR":
                        raise error_of(call, _code(event), str(event.object.get("message", "")))
                    yield self._described(event)
            lines.flush()

    def _call(self, verb: str, params: dict[str, str]) -> Call:
        namespace = self._target.namespace
        path = self._resource.path(namespace)
        return Call(verb, self._resource.label, path, namespace, params=self._target.params() | params)

    def _parse_page(self, call: Call, answer: Any) -> Page:
        metadata = answer.get("metadata") if isinstance(answer, dict) else None
        if not isinstance(metadata, dict) or not metadata.get("resourceVersion"):
            raise KubeUnavailable(f"cannot {call.intent}: the answer is no list")
        items = answer.get("items") or []
        if not isinstance(items, list) or not all(has_identity(item) for item in items):
            raise KubeUnavailable(f"cannot {call.intent}: the answer lists what is no object")
        items = [self._describe(item) for item in items]
        return Page(items, str(metadata["resourceVersion"]), str(metadata.get("continue") or ""))

    def _described(self, event: WatchEvent) -> WatchEvent:
        self._describe(event.object)
        return event

    def _describe(self, document: dict[str, Any]) -> dict[str, Any]:
        """Items of a list do not say what they are; archived ones must."""
        document.setdefault("apiVersion", self._resource.api_version)
        document.setdefault("kind", self._resource.kind)
        return document


def _code(event: WatchEvent) -> int:
    code = event.object.get("code")
    return code if isinstance(code, int) and code >= 400 else 500
