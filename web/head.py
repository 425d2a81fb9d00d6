"""HEAD for every address that has GET: the same headers, and nothing behind them. Plain ASGI, so that no stream is read."""

from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class _EnoughError(Exception):
    """The headers are out: whatever made the body may stop."""


class AnswerHead:
    """Asks the application as for GET and keeps what it says to itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
            elif message["type"] == "http.response.body":
                await send({"type": "http.response.body", "body": b""})
                raise _EnoughError

        with suppress(_EnoughError):
            await self._app({**scope, "method": "GET"}, receive, send_head)
