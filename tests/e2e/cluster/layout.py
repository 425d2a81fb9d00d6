"""Where everything lives: folders, addresses, ports and names. No file is touched here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "1.34.4"
KUBERAY = {"1.6": "1.6.2", "1.5": "1.5.1", "1.4": "1.4.2"}
RAY = ("2.52.1", "2.60.0")

BRIDGE = "rja0"
ADDRESS = "10.89.0.1"
POD_CIDR = "10.89.0.0/16"
SERVICE_CIDR = "10.90.0.0/16"
KUBERNETES_SERVICE = "10.90.0.1"
NODE = "node-1"
CGROUP = "rayjob-archiver"
OPERATOR_NAMESPACE = "kuberay-system"
REGISTRY = "cluster.local"
BUCKET = "archiver-e2e"
GPU_RESOURCE = "nvidia.com/gpu"
GPU_COUNT = 8

PORTS = {
    "apiserver": (ADDRESS, 6443),
    "kubelet": (ADDRESS, 10250),
    "coredns": (ADDRESS, 53),
    "s3": (ADDRESS, 39000),
    "postgres": (ADDRESS, 35432),
    "s3-local": ("127.0.0.1", 39000),
    "postgres-local": ("127.0.0.1", 35432),
    "etcd": ("127.0.0.1", 32379),
    "etcd-peer": ("127.0.0.1", 32380),
    "controller": ("127.0.0.1", 32257),
    "scheduler": ("127.0.0.1", 32259),
    "kubelet-health": ("127.0.0.1", 32248),
    "proxy-health": ("127.0.0.1", 32256),
    "coredns-ready": ("127.0.0.1", 32181),
}


def at(port: str) -> str:
    """`address:port` of one of the PORTS."""
    address, number = PORTS[port]
    return f"{address}:{number}"


@dataclass(frozen=True, slots=True)
class Layout:
    """Folders of one checkout's cluster. `state` and `cache` are all that the harness writes to."""

    root: Path
    cache: Path

    @classmethod
    def here(cls) -> Layout:
        """The layout of this checkout, with the cache that the environment names."""
        root = Path(__file__).resolve().parents[3]
        named = os.environ.get("ARCHIVER_CLUSTER_CACHE")
        return cls(root, Path(named).resolve() if named else Path.home() / ".cache/rayjob-archiver/cluster")

    @property
    def package(self) -> Path:
        return self.root / "tests/e2e/cluster"

    @property
    def build(self) -> Path:
        return self.package / "build"

    @property
    def state(self) -> Path:
        return self.root / ".cluster"

    @property
    def run(self) -> Path:
        """Process records, sockets, rendered configuration."""
        return self.state / "run"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def lock(self) -> Path:
        return self.state / "lock"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def kubeconfig_norights(self) -> Path:
        return self.state / "kubeconfig-norights"

    @property
    def env(self) -> Path:
        """Written last: its presence says that `up` came to its end."""
        return self.state / "env.json"

    @property
    def containerd_socket(self) -> Path:
        return self.run / "containerd.sock"

    @property
    def go_build_cache(self) -> Path:
        return self.cache / "go-build"
