"""Runs other programs: their words reach the reader when they fail, and never otherwise."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.cluster.errors import ClusterError

LAST_LINES = 15
# Long commands run in process and mount namespaces of their own, and die with us: whatever they start and mount goes too.
CAGE = ("setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--")

_running: set[subprocess.Popen[str]] = set()
_lock = threading.Lock()


def run(
    *argv: str,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdin: str | None = None,
    timeout: float = 3600,
) -> str:
    """Standard output of `argv`; ClusterError with the end of its output when it fails or takes too long."""
    process = _start(argv, cwd, env)
    try:
        out, err = process.communicate(stdin, timeout)
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"`{_short(argv)}` did not end within {timeout:.0f} s") from error
    finally:
        _finish(process)
    if process.returncode:
        raise ClusterError(f"`{_short(argv)}` ended with {process.returncode}:\n{_tail(out + err)}")
    return out


def run_caged(*argv: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Like `run`, for long work that must leave no process and no mount, even if we are killed."""
    return run(*CAGE, *argv, cwd=cwd, env=env)


def abort() -> None:
    """End what other threads are running, so that they fail at once."""
    with _lock:
        for process in _running:
            process.kill()


def _start(argv: Sequence[str], cwd: Path | None, env: dict[str, str] | None) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=os.environ | (env or {}),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            errors="replace",
        )
    except FileNotFoundError as error:
        what = f"the program {argv[0]} is not installed" if error.filename == argv[0] else f"there is no folder {cwd}"
        raise ClusterError(what) from error
    with _lock:
        _running.add(process)
    return process


def _finish(process: subprocess.Popen[str]) -> None:
    with _lock:
        _running.discard(process)
    if process.poll() is None:
        process.kill()
        process.communicate()


def _short(argv: Sequence[str]) -> str:
    text = " ".join(argv[len(CAGE) :] if tuple(argv[: len(CAGE)]) == CAGE else argv)
    return text if len(text) <= 160 else text[:159] + "…"


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-LAST_LINES:])
