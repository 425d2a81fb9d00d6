"""Control groups and kernel settings that a kubelet changes: made, remembered and put back."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.cluster import layout as at
from tests.e2e.cluster.errors import ClusterError

CGROUPS = Path("/sys/fs/cgroup")
# Every pod together counts as much as eight processes beside them: on a busy machine Ray's dashboard gives up after 30 s.
CPU_SHARE = {"cpu.shares": "8192", "cpu.weight": "800"}
# What kubelet writes at its start, machine-wide.
SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


def cgroup_roots() -> list[Path]:
    """Our group in every hierarchy: one with cgroup v2, one a controller with v1."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS / at.CGROUP]
    return [folder / at.CGROUP for folder in sorted(CGROUPS.iterdir()) if (folder / "cgroup.procs").exists()]


def make_cgroups() -> None:
    """kubelet wants its root group to exist; with v2 the controllers must be handed down to it."""
    for group in cgroup_roots():
        group.mkdir(exist_ok=True)
        for parent in (group.parent, group):
            available = parent / "cgroup.controllers"
            if available.exists():
                _hand_down(parent, available.read_text().split())
    for group, name in ((CGROUPS / "cpu" / at.CGROUP, "cpu.shares"), (CGROUPS / at.CGROUP, "cpu.weight")):
        if (group / name).exists():
            (group / name).write_text(CPU_SHARE[name])
    for name in ("cpuset.cpus", "cpuset.mems"):
        ours = CGROUPS / "cpuset" / at.CGROUP / name
        if ours.exists():
            ours.write_text((CGROUPS / "cpuset" / name).read_text())


def _hand_down(group: Path, controllers: list[str]) -> None:
    for controller in controllers:
        try:
            (group / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError:
            continue  # one that this machine keeps for itself: kubelet says which it misses


def contained() -> Iterator[int]:
    """Every process in a container of ours, whatever its name and parent."""
    seen: set[int] = set()
    for root in cgroup_roots():
        for procs in root.rglob("cgroup.procs") if root.exists() else ():
            try:
                seen.update(int(pid) for pid in procs.read_text().split())
            except OSError:
                continue  # the group went away while we looked
    yield from seen - {0, os.getpid()}


def kill_contained(deadline: float) -> None:
    """SIGKILL every contained process until none is left."""
    while pids := list(contained()):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            raise ClusterError(f"processes {pids[:5]} of the cluster's containers do not die")
        time.sleep(0.05)


def remove_cgroups() -> None:
    """Empty groups, leaves first. A dying process keeps its group busy for a moment."""
    deadline = time.monotonic() + 10
    while True:
        left = [
            group for root in cgroup_roots() if root.exists() for group in _leaves_first(root) if not _removed(group)
        ]
        if not left:
            return
        if time.monotonic() > deadline:
            raise ClusterError(f"the control group {left[0]} is still in use")
        time.sleep(0.1)


def _leaves_first(root: Path) -> list[Path]:
    below = [path for path in root.rglob("*") if path.is_dir()]
    return [*sorted(below, key=lambda path: len(path.parts), reverse=True), root]


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


def remember_settings(path: Path) -> None:
    """Keep the machine's values; an earlier run's file is the truth, as by now the kubelet has changed them."""
    if path.exists():
        return
    values = {name: (Path("/proc/sys") / name).read_text().strip() for name in SETTINGS}
    path.write_text(json.dumps(values))


def restore_settings(path: Path) -> None:
    if not path.exists():
        return
    for name, value in json.loads(path.read_text()).items():
        setting = Path("/proc/sys") / name
        if setting.read_text().strip() != value:
            setting.write_text(value)
    path.unlink()
