"""One command at a time on one folder: an advisory file lock that dies with its holder."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.cluster.errors import ClusterError

POLL_SECONDS = 0.2


@contextmanager
def held(path: Path, *, wait_seconds: float, say: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Hold `path` for the block. Waits for another holder up to `wait_seconds`, then raises ClusterError with its pid."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _acquire(descriptor, path, time.monotonic() + wait_seconds, say)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, deadline: float, say: Callable[[str], None]) -> None:
    said = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode().strip() or "unknown"
        if time.monotonic() >= deadline:
            raise ClusterError(f"process {holder} is working on this cluster (lock {path}); wait for it, or stop it")
        if not said:
            say(f"waiting for process {holder}, which holds {path}")
            said = True
        time.sleep(POLL_SECONDS)
