"""The pages on a real server on a free port of this machine."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import uvicorn
from fastapi import FastAPI

from archiver.read.service import Reader
from tests.web.sample_reader import SampleReader
from web.main import create_app


def application(reader: SampleReader) -> FastAPI:
    """The whole application, on hand-built views instead of an opened archive."""
    return create_app(cast(Reader, reader))


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """The server's address while it runs."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    ready = threading.Event()

    async def serve() -> None:
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.startup()
        ready.set()
        await server.main_loop()
        await server.shutdown()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="pages")
    thread.start()
    try:
        assert ready.wait(10), "the page server did not start"
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)
