"""The three ways to a Ray node's HTTP port, in the order of what works: pod IP, head service, API-server proxy.

The way that worked is remembered per head pod, because a cluster where the pod network is closed stays closed. A way
counts as not working when it cannot connect; an HTTP status of any kind is an answer.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import aiohttp
from yarl import URL

from archiver.errors import KubeError, RayUnavailable
from archiver.ports import HttpAnswer, KubeProxy, RayHead

_REMEMBERED_HEADS = 4096
# a roundabout way is no way for ever: a head that was just starting may be reached directly a minute later
_ROUNDABOUT_SECONDS = 60.0


class Way(StrEnum):
    POD_IP = "pod-ip"
    SERVICE = "service"
    PROXY = "proxy"


class Routes:
    """GET over whichever way works. ``answer_limit_bytes`` bounds what one answer may hold in memory."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        proxy: KubeProxy | None,
        *,
        connect_seconds: float = 1.0,
        answer_limit_bytes: int = 64 << 20,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._proxy = proxy
        self._connect_seconds = connect_seconds
        self._limit_bytes = answer_limit_bytes
        self._clock = clock
        self._working: OrderedDict[str, tuple[Way, float]] = OrderedDict()

    async def get(
        self,
        head: RayHead,
        port: int,
        path: str,
        *,
        timeout_seconds: float,
        headers: Mapping[str, str] | None = None,
        node_ip: str | None = None,
    ) -> HttpAnswer:
        """One answer from a port of the head, or of the worker node with ``node_ip``: by its IP, or by the API server's
        proxy where ``head.workers`` knows its pod.

        Raises RayUnavailable where no way leads there in time.
        """
        question = _Question(head, port, path, {**_authorization(head), **(headers or {})}, timeout_seconds, node_ip)
        failures: list[str] = []
        for way in self._order(head, node_ip):
            try:
                answer = await self._get_by(way, question)
            except (TimeoutError, aiohttp.ClientError, OSError, KubeError) as error:
                failures.append(f"{way}: {type(error).__name__} {error}".strip())
                self._working.pop(_node_key(head, node_ip), None)
                continue
            self._remember(head, way, node_ip)
            return answer
        tried = "; ".join(failures) or "no address"
        raise RayUnavailable(f"no way to port {port} of {head.namespace}/{head.pod}: {tried}")

    def _order(self, head: RayHead, node_ip: str | None) -> list[Way]:
        if node_ip is not None:
            ways = [Way.POD_IP]
            ways += [Way.PROXY] if self._proxy and node_ip in head.workers else []
        else:
            ways = [Way.POD_IP] if head.pod_ip else []
            ways += [Way.SERVICE] if head.service else []
            ways += [Way.PROXY] if self._proxy else []
        # what works for the head is the best guess for a worker that was not asked yet
        known = self._known(_node_key(head, node_ip)) or self._known(head.pod_uid)
        return sorted(ways, key=lambda way: way != known)

    def _known(self, key: str) -> Way | None:
        way, since = self._working.get(key, (None, 0.0))
        is_old = way is not Way.POD_IP and self._clock() - since > _ROUNDABOUT_SECONDS
        return None if is_old else way

    def _remember(self, head: RayHead, way: Way, node_ip: str | None) -> None:
        key = _node_key(head, node_ip)
        if self._known(key) is not way:
            self._working[key] = (way, self._clock())
        self._working.move_to_end(key)
        if len(self._working) > _REMEMBERED_HEADS:
            self._working.popitem(last=False)

    async def _get_by(self, way: Way, asked: "_Question") -> HttpAnswer:
        head = asked.head
        if way is Way.PROXY and self._proxy is not None:
            pod = head.workers[asked.node_ip] if asked.node_ip else head.pod
            return await self._proxy.proxy_get(
                head.namespace,
                f"pods/{pod}:{asked.port}",
                asked.path,
                headers=asked.headers,
                timeout_seconds=asked.timeout_seconds,
            )
        host = asked.node_ip or head.pod_ip if way is Way.POD_IP else f"{head.service}.{head.namespace}.svc"
        return await self._direct(f"http://{_bracketed(host or '')}:{asked.port}{asked.path}", asked)

    async def _direct(self, url: str, asked: "_Question") -> HttpAnswer:
        connect_seconds = min(self._connect_seconds, asked.timeout_seconds)
        timeout = aiohttp.ClientTimeout(total=asked.timeout_seconds, sock_connect=connect_seconds)
        # the path is encoded already: encoding it again would turn %20 into %2520
        place = URL(url, encoded=True)
        async with self._session.get(place, headers=asked.headers, timeout=timeout, allow_redirects=False) as response:
            body = await _bounded(response, self._limit_bytes)
            return HttpAnswer(response.status, {k.lower(): v for k, v in response.headers.items()}, body)


@dataclass(frozen=True, slots=True)
class _Question:
    """A GET that any of the ways can ask."""

    head: RayHead
    port: int
    path: str
    headers: Mapping[str, str]
    timeout_seconds: float
    node_ip: str | None


def _node_key(head: RayHead, node_ip: str | None) -> str:
    return f"{head.pod_uid}/{node_ip}" if node_ip else head.pod_uid


async def _bounded(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(1 << 18):
        body += chunk
        if len(body) > limit_bytes:
            raise RayUnavailable(f"the answer of {response.url.path} is larger than {limit_bytes} bytes")
    return bytes(body)


def _authorization(head: RayHead) -> dict[str, str]:
    # the second header passes proxies that eat Authorization (KubeRay's own client sends it too)
    return {"X-Ray-Authorization": f"Bearer {head.token}"} if head.token else {}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
