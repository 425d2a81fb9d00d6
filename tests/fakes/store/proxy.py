"""A proxy before an object store that fails on order: error answers, delays, answers that break off."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO

import aiohttp
from aiohttp import web

_HOP = {"connection", "transfer-encoding", "content-length", "content-encoding"}


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to a request. ``after``: the store got it, only its answer is lost."""

    status: int = 0
    code: str = "InternalError"
    delay_seconds: float = 0.0
    cut: bool = False
    after: bool = False


@dataclass(slots=True)
class FaultProxy:
    """``fault`` is asked for every request (method and path) and answers None for one that passes."""

    url: str = ""
    fault: Callable[[str, str], Fault | None] = lambda method, path: None
    requests: list[tuple[str, str]] = field(default_factory=list)

    def fail_always(self, fault: Fault) -> None:
        """Every request from now on."""
        self.fault = lambda method, path: fault

    def fail(self, times: int, fault: Fault, method: str = "") -> None:
        """The next requests (of a method)."""
        left = times

        def decide(asked: str, path: str) -> Fault | None:
            nonlocal left
            if left > 0 and (not method or asked == method):
                left -= 1
                return fault
            return None

        self.fault = decide

    def heal(self) -> None:
        """All requests pass."""
        self.fault = lambda method, path: None


@asynccontextmanager
async def proxy_before(url: str) -> AsyncIterator[FaultProxy]:
    """A proxy on a port of its own."""
    proxy = FaultProxy()
    async with aiohttp.ClientSession(auto_decompress=False) as session:

        async def handle(request: web.Request) -> web.StreamResponse:
            return await _pass(request, proxy, session, url)

        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield proxy
        finally:
            await runner.cleanup()


async def _pass(
    request: web.Request, proxy: FaultProxy, session: aiohttp.ClientSession, url: str
) -> web.StreamResponse:
    proxy.requests.append((request.method, request.path))
    fault = proxy.fault(request.method, request.path)
    body = await request.read()
    if fault and fault.delay_seconds:
        await asyncio.sleep(fault.delay_seconds)
    if fault and not fault.after and fault.status:
        return _error(fault)
    answer = await _forward(request, body, session, url)
    if fault and fault.cut:
        return await _cut(request, answer)
    return _error(fault) if fault and fault.status else answer


async def _forward(request: web.Request, body: bytes, session: aiohttp.ClientSession, url: str) -> web.Response:
    # as it came: the signature covers path and host
    target = aiohttp.client.URL(f"{url}{request.raw_path}", encoded=True)
    # the body is here already: nobody has to be asked whether to send it
    headers = {name: value for name, value in request.headers.items() if name.lower() != "expect"}
    async with session.request(request.method, target, data=BytesIO(body), headers=headers) as answer:
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
        text = await answer.read()
        if request.method == "HEAD" and "Content-Length" in answer.headers:
            headers["Content-Length"] = answer.headers["Content-Length"]
        return web.Response(status=answer.status, headers=headers, body=text or None)


async def _cut(request: web.Request, answer: web.Response) -> web.StreamResponse:
    body = answer.body if isinstance(answer.body, bytes) else b""
    response = web.StreamResponse(status=answer.status, headers={"Content-Length": str(len(body) + 1)})
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    if request.transport:
        request.transport.abort()
    return response


def _error(fault: Fault) -> web.Response:
    text = f"<?xml version='1.0'?><Error><Code>{fault.code}</Code><Message>on order</Message></Error>"
    return web.Response(status=fault.status, body=text.encode(), content_type="application/xml")
