"""Requests to the API server: credentials, pacing, timeouts, and errors in our tree. Raw JSON and bytes only."""

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Self

import aiohttp

from archiver.errors import KubeUnavailable
from archiver.kube.access import Access
from archiver.kube.answers import Call, error_of, status_message
from archiver.kube.pacing import TokenBucket

_CONNECT_TIMEOUT_SECONDS = 10.0
_THROTTLED_TRIES = 5
_RETRY_AFTER_CAP_SECONDS = 15.0
_ERROR_BODY_BYTES = 64 * 1024
# A peer that vanished without a word is noticed after idle + interval × probes = 60 s.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPALIVE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


class Transport:
    """An open session. ``async with Transport(access) as transport: …``"""

    def __init__(self, access: Access, *, pace: TokenBucket | None = None) -> None:
        self.access = access
        self._pace = pace or TokenBucket(rate_per_second=100.0, burst=200.0)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # No connection limit: a followed log holds one connection for as long as its container runs.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0, socket_factory=keepalive_socket)
        self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def read_json(self, call: Call, *, timeout_seconds: float = 30.0) -> Any | None:
        """The answer's document, None on 404. KubeUnavailable where it is no JSON or the time is over."""
        with translated(call):
            async with asyncio.timeout(timeout_seconds), self._sent(call) as response:
                if response.status == 404:
                    return None
                return parsed(await response.read())

    @asynccontextmanager
    async def open(self, call: Call, *, header_timeout_seconds: float | None) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer to be read with ``next_chunk``; 404 is left to the caller (and any status of a proxied call),
        other refusals raise.

        Without ``header_timeout_seconds`` only connecting is bounded: the kubelet sends the head of a followed log
        with its first line, which may be hours away.
        """
        async with AsyncExitStack() as stack:
            with translated(call):
                async with asyncio.timeout(header_timeout_seconds):
                    response = await stack.enter_async_context(
                        self._sent(call, {"Accept-Encoding": "identity"}),
                    )
            yield response

    @asynccontextmanager
    async def _sent(self, call: Call, headers: dict[str, str] | None = None) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer of a call, after renewing refused credentials once and waiting as long as Retry-After says."""
        has_renewed = False
        for tries_left in range(_THROTTLED_TRIES, -1, -1):
            async with await self._request(call, headers or {}, renew=has_renewed) as response:
                if call.is_proxied or response.status < 400 or response.status == 404:
                    yield response
                    return
                message = status_message(await response.content.read(_ERROR_BODY_BYTES))
                wait_seconds = retry_after_seconds(response)
            if response.status == 401 and not has_renewed:
                has_renewed = True
            elif wait_seconds is not None and tries_left:
                await asyncio.sleep(wait_seconds)
            else:
                raise error_of(call, response.status, message)
        raise KubeUnavailable(f"cannot {call.intent}: the API server keeps asking to come back later")

    async def _request(self, call: Call, headers: dict[str, str], *, renew: bool) -> aiohttp.ClientResponse:
        assert self._session is not None, "the transport is not open"
        if call.is_paced:
            await self._pace.take()
        who = await self.access.credentials(renew=renew)
        content = {} if call.body is None else {"Content-Type": "application/json"}
        headers = {"Accept": "application/json", **content, **headers, **call.headers}
        if who.authorization:
            headers["Authorization"] = who.authorization
        return await self._session.request(
            call.method,
            who.base_url + call.path,
            params=list(call.params.items()) if isinstance(call.params, Mapping) else list(call.params),
            data=None if call.body is None else json.dumps(call.body),
            headers=headers,
            ssl=who.tls or True,
            server_hostname=who.server_name,
            proxy=who.proxy,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_SECONDS),
        )


async def next_chunk(call: Call, response: aiohttp.ClientResponse, *, silence_seconds: float | None = None) -> bytes:
    """The answer's next bytes, empty at its end. A cut raises KubeUnavailable, silence TimeoutError."""
    with translated(call, TimeoutError):
        async with asyncio.timeout(silence_seconds):
            return await response.content.readany()


@contextmanager
def translated(call: Call, *untouched: type[Exception]) -> Iterator[None]:
    """Foreign errors of the connection become KubeUnavailable."""
    try:
        yield
    except untouched:
        raise
    except TimeoutError as error:
        raise KubeUnavailable(f"cannot {call.intent}: no answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        detail = str(error) or type(error).__name__
        raise KubeUnavailable(f"cannot {call.intent}: {detail}") from error
    except ValueError as error:
        raise KubeUnavailable(f"cannot {call.intent}: the answer is not JSON: {error}") from error


def parsed(body: bytes) -> Any:
    """A JSON document. The cycle collector rests meanwhile: a page makes 100,000 objects, none of them cyclic, and
    looking through them again and again doubles the time (tests/bench/informer.py)."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return json.loads(body)
    finally:
        if was_enabled:
            gc.enable()


def retry_after_seconds(response: aiohttp.ClientResponse) -> float | None:
    """How long a 429 or 5xx asks us to wait, capped; None where it does not say."""
    text = response.headers.get("Retry-After", "")
    if response.status != 429 and response.status < 500:
        return None
    return min(float(text), _RETRY_AFTER_CAP_SECONDS) if text.isdecimal() else None


def keepalive_socket(address: Any) -> socket.socket:
    """A socket whose kernel probes the peer, so that a half-dead connection ends with an error."""
    family, kind, protocol = address[:3]
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return sock
