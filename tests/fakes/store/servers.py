"""S3 servers over HTTP on this machine: moto's always, versitygw and one of the user's where there are such."""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from moto.server import ThreadedMotoServer

from archiver.store.bucket import init_bucket
from archiver.store.s3 import S3Options

VERSITYGW = os.environ.get("ARCHIVER_TEST_VERSITYGW") or shutil.which("versitygw")
USERS_ENDPOINT = os.environ.get("ARCHIVER_TEST_S3_ENDPOINT")
_DEADLINE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where it listens and with which keys."""

    url: str
    access_key: str = "archiver"
    secret_key: str = "archiver-secret"

    def options(self, **changes: object) -> S3Options:
        """A bucket of its own, made ready."""
        options = S3Options(**({"bucket": f"test-{uuid4().hex[:16]}", **self.access()} | changes))  # type: ignore[arg-type]
        init_bucket(options)
        return options

    def access(self) -> dict[str, object]:
        """Everything but the bucket."""
        return {
            "endpoint_url": self.url,
            "access_key": self.access_key,
            "secret_key": self.secret_key,
            "path_style": True,
            "connect_timeout_seconds": 2.0,
            "read_timeout_seconds": 5.0,
            "call_timeout_seconds": 10.0,
        }


def kinds() -> list[str]:
    """The servers that this machine can run."""
    return ["moto", *(["versitygw"] if VERSITYGW else []), *(["users"] if USERS_ENDPOINT else [])]


@contextmanager
def running(kind: str, folder: Path) -> Iterator[S3Server]:
    """A server of a kind, until the end of the block."""
    if kind == "moto":
        with _moto() as server:
            yield server
    elif kind == "versitygw":
        with _versitygw(folder) as server:
            yield server
    else:
        keys = (os.environ.get("ARCHIVER_TEST_S3_ACCESS_KEY", ""), os.environ.get("ARCHIVER_TEST_S3_SECRET_KEY", ""))
        yield S3Server(USERS_ENDPOINT or "", *keys)


@contextmanager
def _moto() -> Iterator[S3Server]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3Server(f"http://{host}:{port}")
    finally:
        server.stop()


@contextmanager
def _versitygw(folder: Path) -> Iterator[S3Server]:
    port = _free_port()
    server = S3Server(f"http://127.0.0.1:{port}")
    command = [
        str(VERSITYGW),
        "--port",
        f"127.0.0.1:{port}",
        "--access",
        server.access_key,
        "--secret",
        server.secret_key,
    ]
    process = subprocess.Popen([*command, "--quiet", "posix", str(folder)], stdout=subprocess.DEVNULL)
    try:
        asyncio.run(_until_open(port))
        yield server
    finally:
        process.terminate()
        process.wait(_DEADLINE_SECONDS)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


async def _until_open(port: int) -> None:
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                await writer.wait_closed()
                return
