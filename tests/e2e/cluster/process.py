"""The cluster's processes: started detached, recorded by pid and start time, ended by exactly that identity.

A pid alone may belong to somebody else by the time it is used; pid, start time and boot together cannot.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MARKER = "RAYJOB_ARCHIVER_CLUSTER"
INHERITED = ("PATH", "HOME", "LANG", "TMPDIR")


@dataclass(frozen=True, slots=True)
class Spec:
    """How to start one process. `env` is added to the few inherited variables; `log` receives both streams."""

    name: str
    argv: tuple[str, ...]
    log: Path
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for ever: the kernel's start tick tells it from a later one with the same pid."""

    pid: int
    start_ticks: int
    boot_id: str


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> Identity | None:
    """The identity of a living process; None for a dead one.

    A zombie whose threads are still ending lives: it may hold its sockets for some milliseconds more.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" and threads <= 1 else Identity(pid, int(fields[19]), boot_id())


def is_alive(identity: Identity) -> bool:
    """True while exactly this process runs. Reaps it if it is our own dead child."""
    with contextlib.suppress(ChildProcessError):  # somebody else's child: init reaps it
        os.waitpid(identity.pid, os.WNOHANG)
    return identify(identity.pid) == identity


def spawn(spec: Spec, *, marker: str) -> Identity:
    """Start in a session of its own, marked in its environment so that a lost record cannot lose the process."""
    program = shutil.which(spec.argv[0])
    if program is None:
        raise FileNotFoundError(spec.argv[0])
    spec.log.parent.mkdir(parents=True, exist_ok=True)
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ} | spec.env | {MARKER: marker}
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.fspath(spec.log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    defaults = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM)
    pid = os.posix_spawn(
        program, spec.argv, environment, file_actions=actions, setsid=True, setsigmask=(), setsigdef=defaults
    )
    return identify(pid) or Identity(pid, 0, boot_id())


def end(identity: Identity, *, grace_seconds: float, first: signal.Signals = signal.SIGTERM) -> bool:
    """`first`, then SIGKILL after the grace; with no grace, SIGKILL at once. True when it is gone."""
    for signal_number, patience in ((first, grace_seconds), (signal.SIGKILL, 10.0)):
        if patience and is_alive(identity):
            _send(identity.pid, signal_number)
            _await_death(identity, time.monotonic() + patience)
    return not is_alive(identity)


def _send(pid: int, signal_number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal_number)


def _await_death(identity: Identity, deadline: float) -> None:
    while is_alive(identity) and time.monotonic() < deadline:
        time.sleep(0.02)


def marked(marker: str) -> Iterator[Identity]:
    """Every living process that carries `marker`, by its own or an inherited environment; never this one."""
    wanted = f"{MARKER}={marker}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        found = identify(int(entry.name)) if wanted in variables else None
        if found:
            yield found


class Records:
    """What runs, on disk: one JSON file a process, so that any later command can find, end and restart it."""

    def __init__(self, folder: Path, *, marker: str) -> None:
        self._folder = folder
        self._marker = marker

    def start(self, spec: Spec) -> Identity:
        """Spawn and record. The spec is kept so that `spec(name)` can start it again."""
        self._folder.mkdir(parents=True, exist_ok=True)
        identity = spawn(spec, marker=self._marker)
        record = {"spec": asdict(spec) | {"log": os.fspath(spec.log)}, "identity": asdict(identity)}
        temporary = self._folder / f".{spec.name}.json"
        temporary.write_text(json.dumps(record, indent=1))
        temporary.rename(self._folder / f"{spec.name}.json")
        return identity

    def names(self) -> list[str]:
        return sorted(path.stem for path in self._folder.glob("[!.]*.json"))

    def spec(self, name: str) -> Spec:
        kept = self._read(name)["spec"]
        return Spec(kept["name"], tuple(kept["argv"]), Path(kept["log"]), kept["env"])

    def identity(self, name: str) -> Identity | None:
        """The recorded process if it still lives."""
        if not (self._folder / f"{name}.json").exists():
            return None
        identity = Identity(**self._read(name)["identity"])
        return identity if is_alive(identity) else None

    def _read(self, name: str) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self._folder / f"{name}.json").read_text())
        return record
