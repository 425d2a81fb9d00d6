"""Says what is being done and how long it took: one line a phase, and a table at the end."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Phases:
    """Times named phases, which may overlap in threads."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        self.say(f"{name} …")
        try:
            yield
        finally:
            self.seconds[name] = time.monotonic() - start
            self.say(f"{name}: {self.seconds[name]:.1f} s")

    def say(self, text: str) -> None:
        with self._lock:
            print(f"[{time.monotonic() - self._start:7.1f} s] {text}", file=self._out, flush=True)

    def summary(self) -> str:
        rows = [f"  {seconds:7.1f} s  {name}" for name, seconds in self.seconds.items()]
        return "\n".join([*rows, f"  {time.monotonic() - self._start:7.1f} s  in all"])
