"""Takes a cluster away, whole or in pieces: what `down` does and what `up` does about a killed run."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from tests.e2e.cluster import kernel, network
from tests.e2e.cluster.commands import run
from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.process import Records, end, marked

# They come first, so that nothing is started again while the rest ends.
STARTERS = ("kubelet", "containerd", "controller")
KEPT = ("lock", "logs")
PATIENCE_SECONDS = 30


def marker(layout: Layout) -> str:
    return str(layout.state)


def exist(layout: Layout) -> bool:
    """True if anything of this checkout's cluster is on the machine."""
    files = [path for path in layout.state.glob("*") if path.name not in KEPT] if layout.state.exists() else []
    return bool(files) or network.bridge_owner() == layout.state or next(marked(marker(layout)), None) is not None


def clean(layout: Layout) -> None:
    """Leave no process, control group, rule, bridge, mount, setting or state of this checkout's cluster. Safe to repeat."""
    layout.env.unlink(missing_ok=True)
    _end_processes(layout)
    if network.bridge_owner() in (None, layout.state):  # else groups, rules and bridge are another checkout's
        _end_contained()
    kernel.restore_settings(layout.run / "settings.json")
    unmount_below(layout.state)
    gone = [str(path) for path in layout.state.glob("*") if path.name not in KEPT]
    if gone:
        run("rm", "-rf", "--one-file-system", "--", *gone)


def _end_processes(layout: Layout) -> None:
    records = Records(layout.run / "processes", marker=marker(layout))
    for name in STARTERS:
        if identity := records.identity(name):
            end(identity, grace_seconds=0)
    if identity := records.identity("postgres"):
        end(identity, grace_seconds=10, first=signal.SIGQUIT)  # it alone removes its shared memory
    deadline = time.monotonic() + PATIENCE_SECONDS
    while living := list(marked(marker(layout))):
        for identity in living:
            end(identity, grace_seconds=0)
        if time.monotonic() > deadline:
            raise ClusterError(f"process {living[0].pid} of the cluster does not die")


def _end_contained() -> None:
    """The bridge goes last: while it is there, it says whose the rest is."""
    kernel.kill_contained(time.monotonic() + PATIENCE_SECONDS)
    kernel.remove_cgroups()
    if network.bridge_owner():
        network.clean_rules()
        network.remove_bridge()


def mounts_below(mountinfo: str, folder: Path) -> list[str]:
    """Mount points at or below `folder`, deepest first, from the text of /proc/self/mountinfo."""
    points = [line.split()[4].encode().decode("unicode_escape") for line in mountinfo.splitlines()]
    return sorted((point for point in points if Path(point).is_relative_to(folder)), key=len, reverse=True)


def unmount_below(folder: Path) -> None:
    for point in mounts_below(Path("/proc/self/mountinfo").read_text(), folder):
        run("umount", "--lazy", point)
