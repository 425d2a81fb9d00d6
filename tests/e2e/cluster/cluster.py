"""The cluster as one object: up, down, status, and each component stopped, started and restarted by name."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.e2e.cluster import cache, goods, leftovers, manifests, network, prerequisites, starting
from tests.e2e.cluster import layout as at
from tests.e2e.cluster.api import Api, until
from tests.e2e.cluster.connection import Connection, connect
from tests.e2e.cluster.errors import ClusterError, Missing, NotRunning
from tests.e2e.cluster.goods import Goods
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.lock import held
from tests.e2e.cluster.phases import Phases
from tests.e2e.cluster.process import end, identify, marked

LOCK_SECONDS = 3600
HOST_COMPONENTS = (
    "etcd", "apiserver", "controller", "scheduler", "containerd", "kubelet", "proxy", "coredns", "s3", "postgres",
)  # fmt: skip
COMPONENTS = (*HOST_COMPONENTS, "operator")
GENTLE = {"postgres": signal.SIGINT}  # Postgres waits for its clients on SIGTERM
GRACE_SECONDS = 15
IDENTITY_FILES = ("config.py", "components.py", "layout.py", "manifests.py", "starting.py", "kernel.py", "network.py")


class Cluster:
    """One checkout's cluster. Every method can be called from any process; `up` and `down` exclude each other."""

    def __init__(self, layout: Layout | None = None, phases: Phases | None = None) -> None:
        self.layout = layout or Layout.here()
        self._phases = phases or Phases()

    def up(self, kuberay: str = "1.6") -> Connection:
        """Bring the cluster up, reusing what runs. Missing: the machine lacks something. ClusterError: it did not start."""
        if kuberay not in at.KUBERAY:
            raise Missing(f"KubeRay {kuberay} is not known here; choose one of {', '.join(at.KUBERAY)}")
        self._refuse_if(prerequisites.look_at_platform(self.layout))
        with held(self.layout.lock, wait_seconds=LOCK_SECONDS, say=self._phases.say):
            return self._up(kuberay)

    def _up(self, kuberay: str) -> Connection:
        self._release_bridge()
        is_reusable = self._identity_running() == self._identity(kuberay) and not self._dead()
        self._check_machine(checks_network=not leftovers.exist(self.layout))
        wares = goods.prepare(self.layout, kuberay, self._phases)
        if is_reusable:
            return self._refresh(wares)
        if leftovers.exist(self.layout):
            with self._phases.phase("clean what an earlier run left"):
                leftovers.clean(self.layout)
            self._check_machine(checks_network=True)
        with self._whole_or_nothing():
            connection = replace(starting.start_all(self.layout, wares, self._phases), kuberay=at.KUBERAY[kuberay])
            self._write_env(connection, wares, self._identity(kuberay))
        return connection

    def down(self) -> None:
        """Take everything away that `up` made, but for the logs and the cache."""
        self._refuse_if(prerequisites.look_at_platform(self.layout))
        with held(self.layout.lock, wait_seconds=LOCK_SECONDS, say=self._phases.say):
            leftovers.clean(self.layout)

    def status(self) -> dict[str, int | None]:
        """The pid of every process on the host, None for one that does not run."""
        records = starting.records_of(self.layout)
        alive = {name: records.identity(name) for name in HOST_COMPONENTS}
        return {name: identity.pid if identity else None for name, identity in alive.items()}

    def stop(self, component: str, *, is_kill: bool = False) -> None:
        """End one component and wait until it is gone; with `is_kill` by SIGKILL. Containers outlive containerd."""
        self._known(component)
        if component == "operator":
            self._scale_operator(0, force=is_kill)
        elif identity := starting.records_of(self.layout).identity(component):
            grace = 0 if is_kill else GRACE_SECONDS
            end(identity, grace_seconds=grace, first=GENTLE.get(component, signal.SIGTERM))

    def start(self, component: str) -> None:
        """Start one component as `up` did and wait until it serves. Starting what runs is nothing."""
        self._known(component)
        if component == "operator":
            self._scale_operator(1, force=False)
            return starting.operator_ready(self.api())
        records = starting.records_of(self.layout)
        if records.identity(component) is None:
            records.start(records.spec(component))
        starting.wait_ready(self.layout, component)
        if component == "kubelet":
            starting.node_ready(self.api())
        return None

    def restart(self, component: str, *, is_kill: bool = False) -> None:
        self.stop(component, is_kill=is_kill)
        self.start(component)

    def s3_fault(self, is_on: bool) -> None:
        """While on, the S3 server answers every request with 503 SlowDown."""
        file = self.layout.run / "s3-fault"
        file.touch() if is_on else file.unlink(missing_ok=True)

    def api(self) -> Api:
        """The API server as the administrator."""
        if not self.layout.kubeconfig.exists():
            raise NotRunning("no cluster runs here; start one with `make cluster`")
        return starting.admin(self.layout)

    def connection(self) -> Connection:
        return connect(self.layout, environ={})

    def _known(self, component: str) -> None:
        if component not in COMPONENTS:
            raise ClusterError(f"there is no component {component}; choose one of {', '.join(COMPONENTS)}")
        if not (self.layout.run / "processes").is_dir():
            raise NotRunning("no cluster runs here; start one with `make cluster`")

    def _dead(self) -> list[str]:
        return [name for name, pid in self.status().items() if pid is None]

    def _scale_operator(self, replicas: int, *, force: bool) -> None:
        api, pods = self.api(), f"/api/v1/namespaces/{at.OPERATOR_NAMESPACE}/pods"
        deployment = f"/apis/apps/v1/namespaces/{at.OPERATOR_NAMESPACE}/deployments/{manifests.OPERATOR}"
        api.patch(deployment, {"spec": {"replicas": replicas}})
        for pod in (api.get(pods) or {}).get("items", []) if force else ():
            api.call("DELETE", f"{pods}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
        if not replicas:
            until("the operator's pod ends", lambda: not (api.get(pods) or {}).get("items"), seconds=30)

    def _check_machine(self, *, checks_network: bool) -> None:
        packages = prerequisites.missing_packages()
        if packages and prerequisites.has_apt():
            with self._phases.phase(f"apt-get install {' '.join(packages)}"):
                prerequisites.install(packages)
        machine = prerequisites.look(
            self.layout,
            is_cold=goods.is_cold(self.layout),
            socket_holder=self._foreign_containerd(),
            checks_network=checks_network,
        )
        self._refuse_if(prerequisites.lack(machine))

    @staticmethod
    def _refuse_if(sentence: str | None) -> None:
        if sentence:
            raise Missing(sentence)

    def _foreign_containerd(self) -> int | None:
        """The pid that serves our socket without being ours."""
        holder = prerequisites.socket_holder(self.layout.containerd_socket)
        if holder is None or identify(holder) in set(marked(leftovers.marker(self.layout))):
            return None
        return holder

    def _release_bridge(self) -> None:
        """A bridge of another checkout: in use, it is that one's; otherwise a killed run left it, and it goes."""
        owner = network.bridge_owner()
        if owner is None or owner == self.layout.state:
            return
        if owner.name != self.layout.state.name or next(marked(str(owner)), None):
            raise Missing(f"the bridge {at.BRIDGE} belongs to the cluster of {owner.parent}; take that one down first")
        with self._phases.phase(f"clean what a dead run left in {owner}"):
            leftovers.clean(replace(self.layout, root=owner.parent))

    def _identity(self, kuberay: str) -> str:
        package = self.layout.package
        files = [package / name for name in IDENTITY_FILES]
        return cache.input_hash(texts=(kuberay, str(self.layout.root)), files=files, folders=(self.layout.build,))

    def _env(self) -> dict[str, Any]:
        return json.loads(self.layout.env.read_text()) if self.layout.env.exists() else {}

    def _identity_running(self) -> str:
        return str(self._env().get("identity", ""))

    def _refresh(self, wares: Goods) -> Connection:
        """Load images that changed since; everything else runs on."""
        env = self._env()
        changed = {name: image for name, image in wares.images.items() if env["image_ids"].get(name) != image.id}
        if changed:
            with self._phases.phase(f"load {', '.join(changed)}"):
                starting.load(self.layout, wares.programs.node, list(changed.values()))
        images = {name: image.name for name, image in wares.images.items()}
        connection = replace(self.connection(), images=images)
        self._write_env(connection, wares, env["identity"])
        self._phases.say("the cluster was up already")
        return connection

    def _write_env(self, connection: Connection, wares: Goods, identity: str) -> None:
        ids = {name: image.id for name, image in wares.images.items()}
        content = {
            "identity": identity,
            "kubernetes": at.KUBERNETES,
            "connection": connection.to_json(),
            "image_ids": ids,
        }
        starting.write_env(self.layout, content)

    @contextmanager
    def _whole_or_nothing(self) -> Iterator[None]:
        """On any failure, Ctrl-C included, take back what was started; the logs stay."""
        try:
            yield
        except BaseException:
            with self._phases.phase("take back what was started"):
                leftovers.clean(self.layout)
            raise
