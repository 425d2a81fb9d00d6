"""Serves an ASGI application inside a running event loop, on a port that is known before the first request."""

import asyncio
import socket
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Any, Self

import uvicorn

from archiver.errors import UserError

_STOP_SECONDS = 5


class WebServer:
    """``async with WebServer(app, host, port) as server: print(server.url)``. Port 0 takes any free one."""

    def __init__(self, app: Any, host: str, port: int) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_STOP_SECONDS,
            server_header=False,
        )
        self._server = _Server(config)
        self._host = host
        self._socket = _bound(host, port)
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    @property
    def url(self) -> str:
        host = "localhost" if self._host in ("127.0.0.1", "0.0.0.0", "::") else self._host  # noqa: S104
        return f"http://{host}:{self.port}"

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]), name="web server")
        listening = asyncio.create_task(self._server.is_up.wait(), name="web server is up")
        await asyncio.wait((self._task, listening), return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task
        self._socket.close()


class _Server(uvicorn.Server):
    """Signals are the caller's business."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    def install_signal_handlers(self) -> None:
        """None of ours."""

    def capture_signals(self) -> Any:
        """None of ours."""
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


def free_port(host: str, wanted: int) -> int:
    """The wanted port, or any free one where it is taken."""
    try:
        _bound(host, wanted).close()
    except UserError:
        return 0
    return wanted


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UserError(
            f"port {port} on {host} cannot be used: {error.strerror}; choose another with --port"
        ) from error
    return listener
