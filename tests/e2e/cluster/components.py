"""The host processes of the cluster: how each is started and how one sees that it is ready."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster import layout as at
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.process import Spec


@dataclass(frozen=True, slots=True)
class Programs:
    """Folders of built and installed programs."""

    node: Path
    s3: Path
    cni: Path
    postgres: Path


@dataclass(frozen=True, slots=True)
class S3Keys:
    access: str
    secret: str


def anchor(layout: Layout) -> Spec:
    """Holds the mount namespace in which containerd and kubelet live, with /run, /var/lib and /var/log of its own.

    Whatever they mount ends with the namespace, and what they insist on writing there never reaches the machine.
    """
    script = (
        "for folder in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 rja $folder || exit 1; done; "
        f": > {layout.run}/anchored; exec sleep infinity"
    )
    return Spec(
        "anchor", ("unshare", "--mount", "--propagation", "slave", "sh", "-c", script), layout.logs / "anchor.log"
    )


def inside(anchor_pid: int, *argv: str) -> tuple[str, ...]:
    """The command that runs `argv` in the anchor's mount namespace, under the same pid."""
    return ("nsenter", f"--mount=/proc/{anchor_pid}/ns/mnt", "--", *argv)


def specs(layout: Layout, programs: Programs, keys: S3Keys, anchor_pid: int) -> list[Spec]:
    """Every component but the anchor, in the order in which they are started."""
    kube = str(programs.node / "kube")
    environment = {"PATH": f"{programs.node}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

    def spec(name: str, *argv: str, **env: str) -> Spec:
        return Spec(name, argv, layout.logs / f"{name}.log", environment | env)

    return [
        spec("containerd", *inside(anchor_pid, f"{programs.node}/containerd", "-c", f"{layout.run}/containerd.toml")),
        spec("etcd", "etcd", *_etcd(layout)),
        spec("s3", *_s3(layout, programs), S3_ACCESS_KEY=keys.access, S3_SECRET_KEY=keys.secret),
        spec("postgres", *_postgres(layout, programs)),
        spec("apiserver", kube, "apiserver", *_apiserver(layout)),
        spec("controller", kube, "controller", *_controller(layout)),
        spec("scheduler", kube, "scheduler", *_scheduler(layout)),
        spec("proxy", kube, "proxy", f"--config={layout.run}/proxy.yaml"),
        spec("coredns", f"{programs.node}/coredns", "-conf", f"{layout.run}/Corefile"),
        spec("kubelet", *inside(anchor_pid, kube, "kubelet", *_kubelet(layout))),
    ]


def _etcd(layout: Layout) -> tuple[str, ...]:
    client, peer = f"http://{at.at('etcd')}", f"http://{at.at('etcd-peer')}"
    return (
        f"--data-dir={layout.state}/etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
        "--logger=zap",
        "--snapshot-count=10000",
    )


def _s3(layout: Layout, programs: Programs) -> tuple[str, ...]:
    folders = (f"{layout.state}/s3/objects", f"{layout.state}/s3/versions")
    return (f"{programs.s3}/s3", f"{layout.run}/s3-fault", *folders, at.at("s3"), at.at("s3-local"))


def _postgres(layout: Layout, programs: Programs) -> tuple[str, ...]:
    return (*as_postgres(f"{programs.postgres}/postgres"), "-D", f"{layout.state}/postgres")


def as_postgres(*argv: str) -> tuple[str, ...]:
    """Postgres refuses root; its user may lack the way into the checkout, hence the one ambient capability."""
    user = ("--reuid=postgres", "--regid=postgres", "--clear-groups")
    return ("setpriv", *user, "--inh-caps=+dac_override", "--ambient-caps=+dac_override", "--", *argv)


def _apiserver(layout: Layout) -> tuple[str, ...]:
    return (
        f"--etcd-servers=http://{at.at('etcd')}",
        f"--bind-address={at.ADDRESS}",
        f"--advertise-address={at.ADDRESS}",
        f"--secure-port={at.PORTS['apiserver'][1]}",
        f"--cert-dir={layout.pki}",
        f"--token-auth-file={layout.pki}/tokens.csv",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--service-cluster-ip-range={at.SERVICE_CIDR}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.pki}/accounts.key",
        f"--service-account-signing-key-file={layout.pki}/accounts.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--profiling=false",
    )


def _controller(layout: Layout) -> tuple[str, ...]:
    return (
        f"--kubeconfig={layout.run}/controller.kubeconfig",
        f"--service-account-private-key-file={layout.pki}/accounts.key",
        f"--root-ca-file={layout.pki}/apiserver.crt",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={at.PORTS['controller'][1]}",
        f"--cert-dir={layout.pki}/controller",
        "--concurrent-gc-syncs=5",
        "--profiling=false",
    )


def _scheduler(layout: Layout) -> tuple[str, ...]:
    return (
        f"--kubeconfig={layout.run}/scheduler.kubeconfig",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={at.PORTS['scheduler'][1]}",
        f"--cert-dir={layout.pki}/scheduler",
        "--profiling=false",
    )


def _kubelet(layout: Layout) -> tuple[str, ...]:
    return (
        f"--config={layout.run}/kubelet.yaml",
        f"--kubeconfig={layout.run}/kubelet.kubeconfig",
        f"--root-dir={layout.state}/kubelet",
        f"--cert-dir={layout.pki}/kubelet",
        f"--hostname-override={at.NODE}",
        f"--node-ip={at.ADDRESS}",
    )


def readiness(name: str, layout: Layout) -> Callable[[], bool]:
    """A probe that answers at once whether the component serves."""
    probes: dict[str, Callable[[], bool]] = {
        "anchor": (layout.run / "anchored").exists,
        "containerd": lambda: _answers_socket(layout.containerd_socket),
        "etcd": lambda: _answers("etcd", "/health"),
        "s3": lambda: _answers("s3", "/healthz") and _answers("s3-local", "/healthz"),
        "postgres": lambda: _accepts("postgres") and _accepts("postgres-local"),
        "apiserver": lambda: _answers("apiserver", "/readyz", tls=True),
        "controller": lambda: _answers("controller", "/healthz", tls=True),
        "scheduler": lambda: _answers("scheduler", "/healthz", tls=True),
        "proxy": lambda: _answers("proxy-health", "/healthz"),
        "coredns": lambda: _answers("coredns-ready", "/ready"),
        "kubelet": lambda: _answers("kubelet-health", "/healthz"),
    }
    return probes[name]


def _answers(port: str, path: str, *, tls: bool = False) -> bool:
    address, number = at.PORTS[port]
    if tls:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # readiness only: nothing is sent and nothing is believed
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            address, number, timeout=2, context=context
        )
    else:
        connection = http.client.HTTPConnection(address, number, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _accepts(port: str) -> bool:
    try:
        socket.create_connection(at.PORTS[port], timeout=2).close()
    except OSError:
        return False
    return True


def _answers_socket(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(2)
        try:
            connection.connect(str(path))
        except OSError:
            return False
    return True
