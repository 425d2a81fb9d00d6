"""A TCP proxy in front of an API server that breaks connections byte by byte. It knows nothing of HTTP."""

import asyncio
from types import TracebackType
from typing import Self

_PIECE = 16 * 1024


class TcpFaults:
    """``cut_at`` holds byte counts: each new connection takes the next one and dies after so many answered bytes.

    ``garble`` holds pairs of equally long texts: the first answer that holds the one gets the other instead.
    """

    def __init__(self, upstream_port: int) -> None:
        self.cut_at: list[int] = []
        self.garble: list[tuple[bytes, bytes]] = []
        self.cuts = 0
        self.bytes_per_second: float | None = None
        self._upstream_port = upstream_port
        self._server: asyncio.Server | None = None
        self._thawed: dict[asyncio.Task[None], asyncio.Event] = {}
        self._is_refusing = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        tasks = list(self._thawed)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def freeze(self, *, also_new: bool = False) -> None:
        """Connections of now stay open and nothing comes through: a load balancer that forgot its flows.

        ``also_new``: new ones get no answer either.
        """
        for thawed in self._thawed.values():
            thawed.clear()
        self._is_refusing = also_new

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        thawed = self._thawed[task] = asyncio.Event()
        if not self._is_refusing:
            thawed.set()
        limit = self.cut_at.pop(0) if self.cut_at else None
        up_writer = None
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(reader, up_writer, None, thawed))
                group.create_task(self._forward(up_reader, writer, limit, thawed))
        except* OSError:
            pass
        finally:
            del self._thawed[task]
            writer.transport.abort()
            if up_writer is not None:
                up_writer.transport.abort()

    async def _forward(
        self, source: asyncio.StreamReader, to: asyncio.StreamWriter, limit: int | None, thawed: asyncio.Event
    ) -> None:
        passed = 0
        while chunk := self._garbled(await source.read(_PIECE)):
            await thawed.wait()
            if self.bytes_per_second is not None:
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

    def _garbled(self, chunk: bytes) -> bytes:
        for pair in self.garble:
            if pair[0] in chunk:
                self.garble.remove(pair)
                return chunk.replace(pair[0], pair[1], 1)
        return chunk
