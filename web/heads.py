"""HEAD for every address that GET has (RFC 9110, 9.3.2): the same status and headers, and no byte of the body is made."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class _HeadersSent(Exception):
    """The answer is complete; what would come is not wanted."""


class Heads:
    """Plain ASGI: the handler is stopped at the first byte of its body, so that nobody reads a log of 10 GB for a HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                raise _HeadersSent
            raise AssertionError("a body comes after its headers")

        try:
            await self._app({**scope, "method": "GET"}, receive, send_head)
        except _HeadersSent:
            return
        except BaseExceptionGroup as group:
            _, others = group.split(_HeadersSent)
            if others is not None:
                raise
