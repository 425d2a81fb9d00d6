"""Brings the built goods to life, in the order in which they need each other."""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tests.e2e.cluster import components, config, kernel, manifests, network
from tests.e2e.cluster import layout as at
from tests.e2e.cluster.api import Api, Document, until
from tests.e2e.cluster.bucket import make_bucket
from tests.e2e.cluster.commands import run
from tests.e2e.cluster.connection import S3, Connection, Postgres
from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.goods import Goods
from tests.e2e.cluster.images import Image, write_archive
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.leftovers import marker
from tests.e2e.cluster.phases import Phases
from tests.e2e.cluster.process import Records

READY_SECONDS = 90
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GPU_PATH = "/status/capacity/" + at.GPU_RESOURCE.replace("/", "~1")
LAST_LINES = 8


def records_of(layout: Layout) -> Records:
    return Records(layout.run / "processes", marker=marker(layout))


def start_all(layout: Layout, goods: Goods, phases: Phases) -> Connection:
    """From a clean machine to a cluster in which a RayJob can be applied."""
    keys = components.S3Keys("archiver", secrets.token_hex(16))
    tokens = {role: secrets.token_hex(16) for role in config.ROLES}
    password = secrets.token_hex(16)
    with phases.phase("bridge, groups, configuration"):
        _lay_ground(layout, goods, tokens)
    starter = _Starter(layout, goods, keys, phases)
    with ThreadPoolExecutor(3) as pool:
        imported = pool.submit(starter.node_images)
        stored = pool.submit(starter.stores, password)
        api = starter.control_plane(tokens)
        installed = pool.submit(starter.definitions, api)
        starter.workers(api)
        _all((imported, stored, installed))
    with phases.phase("node and operator"):
        node_ready(api)
        operator_ready(api)
    return _connection(layout, goods, keys, password)


def _all(futures: tuple[Future[None], ...]) -> None:
    for future in futures:
        future.result()


class _Starter:
    """Starts components by name and waits for each."""

    def __init__(self, layout: Layout, goods: Goods, keys: components.S3Keys, phases: Phases) -> None:
        self._layout, self._goods, self._phases = layout, goods, phases
        records = records_of(layout)
        anchor = records.start(components.anchor(layout))
        wait_ready(layout, "anchor")
        self._specs = {spec.name: spec for spec in components.specs(layout, goods.programs, keys, anchor.pid)}
        self._records = records

    def start(self, *names: str) -> None:
        for name in names:
            self._records.start(self._specs[name])
        for name in names:
            wait_ready(self._layout, name)

    def node_images(self) -> None:
        with self._phases.phase("containerd and images"):
            self.start("containerd")
            load(self._layout, self._goods.programs.node, list(self._goods.images.values()))

    def stores(self, password: str) -> None:
        with self._phases.phase("S3 and Postgres"):
            self._records.start(self._specs["s3"])
            init_postgres(self._layout, self._goods.programs.postgres, password)
            self.start("postgres")
            create_database(self._goods.programs.postgres, password)
            wait_ready(self._layout, "s3")
            spec = self._specs["s3"].env
            status = make_bucket(at.at("s3"), at.BUCKET, access=spec["S3_ACCESS_KEY"], secret=spec["S3_SECRET_KEY"])
            if status not in (200, 409):
                raise ClusterError(f"the S3 server answered {status} to the creation of bucket {at.BUCKET}")

    def control_plane(self, tokens: dict[str, str]) -> Api:
        with self._phases.phase("etcd and API server"):
            self.start("etcd")
            self.start("apiserver")
            authority = (self._layout.pki / "apiserver.crt").read_bytes()
            for path, role in ((self._layout.kubeconfig, "admin"), (self._layout.kubeconfig_norights, "norights")):
                write_private(path, config.kubeconfig(tokens[role], authority))
        return admin(self._layout)

    def definitions(self, api: Api) -> None:
        with self._phases.phase("KubeRay's definitions"):
            install(api, self._goods)

    def workers(self, api: Api) -> None:
        """kube-proxy comes last: without its node it waits, longer each time."""
        with self._phases.phase("controllers, scheduler, DNS, kubelet, proxy"):
            self.start("controller", "scheduler", "coredns", "kubelet")
            until("the node is not registered", lambda: api.get(f"/api/v1/nodes/{at.NODE}"), seconds=READY_SECONDS)
            self.start("proxy")


def _lay_ground(layout: Layout, goods: Goods, tokens: dict[str, str]) -> None:
    for folder in ("run/cni", "run/processes", "run/containerd", "pki", "logs", "pods", "s3/objects", "s3/versions"):
        (layout.state / folder).mkdir(parents=True, exist_ok=True)
    for log in layout.logs.glob("*.log"):
        log.unlink()
    kernel.remember_settings(layout.run / "settings.json")
    network.add_bridge(layout.state)
    kernel.make_cgroups()
    (layout.run / "containerd.toml").write_text(config.containerd(layout, goods.programs.cni))
    (layout.run / "cni/10-bridge.conflist").write_text(config.cni(layout))
    (layout.run / "kubelet.yaml").write_text(config.kubelet(layout))
    (layout.run / "proxy.yaml").write_text(config.proxy(layout))
    (layout.run / "Corefile").write_text(config.corefile(layout))
    write_private(layout.pki / "tokens.csv", config.token_file(tokens))
    write_private(layout.pki / "accounts.key", run("openssl", "genrsa", "2048"))
    for role in ("controller", "scheduler", "kubelet", "proxy", "coredns"):
        write_private(layout.run / f"{role}.kubeconfig", config.kubeconfig(tokens[role], None))


def write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def wait_ready(layout: Layout, name: str, *, seconds: float = READY_SECONDS) -> None:
    """Wait for the component's own sign of readiness; a process that died is reported with its last lines."""
    records, probe = records_of(layout), components.readiness(name, layout)

    def holds() -> bool:
        if records.identity(name) is None:
            raise _Dead
        return probe()

    try:
        until(f"{name} is not ready", holds, seconds=seconds, poll_seconds=0.05)
    except _Dead:
        raise ClusterError(f"{name} ended at its start:\n{_last_lines(layout.logs / f'{name}.log')}") from None


class _Dead(Exception):
    """The process that is waited for is gone."""


def _last_lines(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-LAST_LINES:])


def load(layout: Layout, node_programs: Path, images: list[Image]) -> None:
    """Stream the images into containerd."""
    argv = (f"{node_programs}/imageload", str(layout.containerd_socket))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # its own words say why it stopped reading
            write_archive(images, process.stdin)
            process.stdin.close()
        said = process.stdout.read().decode(errors="replace")
    if process.returncode:
        raise ClusterError(f"the images could not be loaded: {said.strip()}")


def init_postgres(layout: Layout, programs: Path, password: str) -> None:
    data = layout.state / "postgres"
    data.mkdir()
    run("chown", "postgres:postgres", str(data))
    secret = layout.run / "postgres.password"
    write_private(secret, password)
    run("chown", "postgres:postgres", str(secret))
    options = (
        "--username=archiver",
        "--auth=scram-sha-256",
        f"--pwfile={secret}",
        "--encoding=UTF8",
        "--locale=C.UTF-8",
    )
    run(*components.as_postgres(f"{programs}/initdb", "-D", str(data), *options, "--no-sync"), cwd=Path("/"))
    with (data / "postgresql.conf").open("a") as file:
        file.write(config.postgres())
    (data / "pg_hba.conf").write_text(config.host_based_access())


def create_database(programs: Path, password: str) -> None:
    address, port = at.PORTS["postgres-local"]
    options = ("--host", address, "--port", str(port), "--username", "archiver")
    until(
        "Postgres",
        lambda: run(f"{programs}/psql", *options, "-c", "select 1", "postgres", env={"PGPASSWORD": password}),
        seconds=30,
    )
    run(f"{programs}/createdb", *options, "archiver", env={"PGPASSWORD": password})


def install(api: Api, goods: Goods) -> None:
    """DNS's rights, KubeRay's definitions and its operator."""
    until("the API server keeps no roles", lambda: list(map(api.apply, manifests.dns())), seconds=30)
    for text in manifests.crds(goods.operator):
        api.create(CRDS, text)
    kinds = ("rayclusters", "rayjobs", "rayservices")
    until(
        "KubeRay's definitions are not served",
        lambda: all(api.get(f"/apis/ray.io/v1/{kind}") for kind in kinds),
        seconds=60,
    )
    for document in manifests.operator(goods.operator, goods.images["operator"].name):
        api.apply(document)


def node_ready(api: Api) -> None:
    """Wait for the node and give it its fake GPUs: kubelet keeps a resource that it does not know."""
    path = f"/api/v1/nodes/{at.NODE}"
    until("the node is not ready", lambda: _condition(api.get(path), "Ready"), seconds=READY_SECONDS)
    advertise_gpus(api)


def advertise_gpus(api: Api) -> None:
    amounts = {at.GPU_RESOURCE: str(at.GPU_COUNT)}
    api.patch(f"/api/v1/nodes/{at.NODE}/status", {"status": {"capacity": amounts, "allocatable": amounts}})


def operator_ready(api: Api) -> None:
    path = f"/apis/apps/v1/namespaces/{at.OPERATOR_NAMESPACE}/deployments/{manifests.OPERATOR}"
    until(
        "the KubeRay operator is not available", lambda: _condition(api.get(path), "Available"), seconds=READY_SECONDS
    )


def _condition(found: Document | None, kind: str) -> bool:
    conditions = (found or {}).get("status", {}).get("conditions", [])
    return any(condition["type"] == kind and condition["status"] == "True" for condition in conditions)


def admin(layout: Layout) -> Api:
    """The API server as the administrator."""
    tokens = (layout.pki / "tokens.csv").read_text().splitlines()
    token = next(line.split(",")[0] for line in tokens if line.split(",")[2] == "admin")
    return Api(f"https://{at.at('apiserver')}", token, authority=(layout.pki / "apiserver.crt").read_text())


def _connection(layout: Layout, goods: Goods, keys: components.S3Keys, password: str) -> Connection:
    def dsn(port: str) -> str:
        return f"postgresql://archiver:{password}@{at.at(port)}/archiver"

    return Connection(
        kubeconfig=layout.kubeconfig,
        kubeconfig_norights=layout.kubeconfig_norights,
        s3=S3(f"http://{at.at('s3-local')}", f"http://{at.at('s3')}", keys.access, keys.secret, at.BUCKET),
        postgres=Postgres(dsn("postgres-local"), dsn("postgres")),
        images={name: image.name for name, image in goods.images.items()},
        gpu_resource=at.GPU_RESOURCE,
        is_harness=True,
    )


def write_env(layout: Layout, content: Mapping[str, object]) -> None:
    """Whole or not at all: its presence means that the cluster is up."""
    temporary = layout.run / "env.json"
    write_private(temporary, json.dumps(content, indent=1))
    temporary.rename(layout.env)
