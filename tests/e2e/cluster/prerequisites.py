"""What the machine must have. Looking is one function, judging another; each lack is one sentence that names it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.cluster import layout as at
from tests.e2e.cluster.errors import Missing
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.network import kubernetes_chains

GO = (1, 25)
COLD_BYTES = 14 * 1024**3
WARM_BYTES = 5 * 1024**3
SOCKET_PATH_BYTES = 100
IP_FREEBIND = 15
SHADOWED = ("/run", "/var/lib", "/var/log")
# Debian package by the program that it brings.
PROGRAMS = {
    "etcd": "etcd-server",
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "openssl": "openssl",
    "setpriv": "util-linux",
    "nsenter": "util-linux",
}
FOLDERS = {"/usr/lib/cni": "containernetworking-plugins", "/usr/lib/postgresql": "postgresql"}


@dataclass(frozen=True, slots=True)
class Machine:
    """What was found; every field is a plain fact."""

    system: str = "linux"
    uid: int = 0
    go: tuple[int, int] | None = GO
    has_pip: bool = True
    has_overlay: bool = True
    free_bytes: int = COLD_BYTES
    needed_bytes: int = WARM_BYTES
    missing_packages: tuple[str, ...] = ()
    has_apt: bool = True
    used_ports: tuple[tuple[str, str], ...] = ()
    foreign_chains: tuple[str, ...] = ()
    foreign_routes: tuple[str, ...] = ()
    socket_holder: int | None = None
    state: Path = field(default=Path("/x/.cluster"))


def lack(machine: Machine) -> str | None:
    """The sentence for the first thing that keeps the cluster from starting; None if nothing does."""
    checks = (_platform, _tools, _disk, _neighbours)
    return next((sentence for check in checks if (sentence := check(machine))), None)


def _platform(machine: Machine) -> str | None:
    elsewhere = "set KUBECONFIG to test on another cluster"
    if machine.system != "linux":
        return f"the cluster needs Linux (namespaces, cgroups, overlayfs), and this is {machine.system}; {elsewhere}"
    if machine.uid:
        return f"the cluster needs root (it makes a bridge, mounts and cgroups), and this is user {machine.uid}; {elsewhere}"
    if not machine.has_overlay:
        return (
            f"overlayfs cannot be mounted on {machine.state}, and containerd needs it; put the checkout on ext4 or xfs"
        )
    if any(str(machine.state).startswith(f"{folder}/") for folder in SHADOWED):
        return f"{machine.state} lies where containerd and kubelet get folders of their own; move the checkout out of there"
    if len(str(machine.state / "run/containerd.sock.ttrpc")) > SOCKET_PATH_BYTES:
        return f"{machine.state} is too long a path for the sockets in it; move the checkout nearer to the root"
    return None


def _tools(machine: Machine) -> str | None:
    if machine.go is None:
        return f"Go is not installed: the cluster is built from Go modules by Go {GO[0]}.{GO[1]} or newer"
    if machine.go < GO:
        return f"Go {machine.go[0]}.{machine.go[1]} is too old: the cluster is built by Go {GO[0]}.{GO[1]} or newer"
    if not machine.has_pip:
        return f"{sys.executable} has no pip, which fetches Ray for the images"
    if machine.missing_packages and not machine.has_apt:
        return (
            f"there is no apt-get here; install what these Debian packages bring: {', '.join(machine.missing_packages)}"
        )
    return None


def _disk(machine: Machine) -> str | None:
    if machine.free_bytes >= machine.needed_bytes:
        return None
    return f"the disk has {machine.free_bytes / 1e9:.1f} GB free where the cluster needs {machine.needed_bytes / 1e9:.0f} GB"


def _neighbours(machine: Machine) -> str | None:
    if machine.socket_holder is not None:
        socket_path = machine.state / "run/containerd.sock"
        return (
            f"process {machine.socket_holder}, which is not this harness's, serves {socket_path}; stop that containerd"
        )
    if machine.foreign_chains:
        return f"iptables holds another Kubernetes' rules ({machine.foreign_chains[0]}); the two would overwrite each other"
    if machine.foreign_routes:
        return (
            f"the route `{machine.foreign_routes[0]}` leads into {at.POD_CIDR} or {at.SERVICE_CIDR}, the cluster's own"
        )
    if machine.used_ports:
        name, address = machine.used_ports[0]
        return f"port {address} is in use, and {name} needs it"
    return None


def look_at_platform(layout: Layout) -> str | None:
    """The sentence about system, user or place: what must hold before even a lock file is written."""
    return _platform(Machine(system=sys.platform, uid=os.geteuid(), state=layout.state))


def has_apt() -> bool:
    return shutil.which("apt-get") is not None


def socket_holder(path: Path) -> int | None:
    """The process that serves a Unix socket; None if nobody answers there."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(path))
        except OSError:
            return None
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[0])


def go_version(text: str) -> tuple[int, int] | None:
    """(1, 25) from the output of `go version`."""
    found = re.search(r"go(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def missing_packages() -> tuple[str, ...]:
    """Debian packages whose programs or folders are not there."""
    programs = {package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    folders = {package for folder, package in FOLDERS.items() if not any(Path(folder).glob("*"))}
    return tuple(sorted(programs | folders))


def look(layout: Layout, *, is_cold: bool, socket_holder: int | None, checks_network: bool) -> Machine:
    """The facts of this machine. With `checks_network` off (something of ours still runs) ports and rules are not judged."""
    layout.state.mkdir(parents=True, exist_ok=True)
    go = shutil.which("go")
    return Machine(
        go=go_version(_output(go, "version")) if go else None,
        has_pip=_succeeds(sys.executable, "-m", "pip", "--version"),
        has_overlay=_mounts_overlay(layout.state),
        free_bytes=shutil.disk_usage(layout.state).free,
        needed_bytes=COLD_BYTES if is_cold else WARM_BYTES,
        missing_packages=missing_packages(),
        has_apt=has_apt(),
        used_ports=_used_ports() if checks_network else (),
        foreign_chains=tuple(kubernetes_chains(_output("iptables-save"))) if checks_network else (),
        foreign_routes=foreign_routes(_output("ip", "-4", "route")) if checks_network else (),
        socket_holder=socket_holder,
        state=layout.state,
    )


def foreign_routes(routes: str) -> tuple[str, ...]:
    """Routes into our ranges that are not our bridge's, from the output of `ip -4 route`."""
    prefixes = tuple(".".join(cidr.split(".")[:2]) + "." for cidr in (at.POD_CIDR, at.SERVICE_CIDR))
    lines = (line.strip() for line in routes.splitlines())
    return tuple(line for line in lines if line.startswith(prefixes) and f"dev {at.BRIDGE}" not in line)


def install(packages: tuple[str, ...]) -> None:
    """apt-get, without recommendations and without questions."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    update = ["apt-get", "update", "-qq"]
    add = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    for command in (update, add):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            raise Missing(f"apt-get could not install {', '.join(packages)}: {' '.join(last)}")


def _used_ports() -> tuple[tuple[str, str], ...]:
    used = []
    for name, (address, number) in at.PORTS.items():
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM) if name == "coredns" else (socket.SOCK_STREAM,):
            if not _is_free(address, number, kind):
                used.append((name, f"{address}:{number}"))
    return tuple(used)


def _is_free(address: str, number: int, kind: int) -> bool:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)  # the bridge's address may not be there yet
        try:
            probe.bind((address, number))
        except OSError:
            return False
    return True


def _mounts_overlay(folder: Path) -> bool:
    script = (
        'd=$(mktemp -d -p "$1" .overlay-XXXXXX) && mkdir $d/l $d/u $d/w $d/m && '
        "mount -t overlay overlay -o lowerdir=$d/l,upperdir=$d/u,workdir=$d/w $d/m; r=$?; umount $d/m; rm -rf $d; exit $r"
    )
    return _succeeds("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "probe", str(folder))


def _succeeds(*argv: str) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, timeout=60, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _output(*argv: str) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout
    except FileNotFoundError:
        return ""
