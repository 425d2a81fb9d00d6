"""A TCP proxy in front of an API server that breaks connections byte by byte. It knows nothing of HTTP."""

import asyncio
from types import TracebackType
from typing import Self


class TcpFaults:
    """``cut_at`` holds byte counts: each new connection takes the next one and dies after so many answered bytes."""

    def __init__(self, upstream_port: int) -> None:
        self.cut_at: list[int] = []
        self.cuts = 0
        self.bytes_per_second: float | None = None
        self._upstream_port = upstream_port
        self._server: asyncio.Server | None = None
        self._is_frozen = False
        self._thawed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def freeze(self) -> None:
        """Connections stay open and nothing comes through: what a load balancer that forgot a flow does."""
        self._is_frozen = True
        self._thawed.clear()

    def thaw(self) -> None:
        self._is_frozen = False
        self._thawed.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        limit = self.cut_at.pop(0) if self.cut_at else None
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        except OSError:
            writer.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(reader, up_writer, None))
                group.create_task(self._forward(up_reader, writer, limit))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()
            up_writer.transport.abort()

    async def _forward(self, source: asyncio.StreamReader, to: asyncio.StreamWriter, limit: int | None) -> None:
        passed = 0
        while chunk := await source.read(16 * 1024):
            if self._is_frozen:
                await self._thawed.wait()
            if self.bytes_per_second is not None and limit is None:
                await asyncio.sleep(len(chunk) / self.bytes_per_second)
            if limit is not None and passed + len(chunk) >= limit:
                to.write(chunk[: limit - passed])
                await to.drain()
                self.cuts += 1
                raise ConnectionResetError("cut on order")
            to.write(chunk)
            await to.drain()
            passed += len(chunk)
        raise ConnectionResetError("closed by the other side")
