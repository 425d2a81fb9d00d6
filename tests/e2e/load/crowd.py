"""Who runs in the mass test: RayJobs of every mode, each different and each known beforehand. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.e2e.scenarios import rayjob
from tests.e2e.scenarios.kube import Document
from tests.e2e.scenarios.scenario import Scenario, Workers

IMAGE = "ray-standin"
RAY_VERSION = "2.60.0"
SHARED_MODE = "clusterSelector"
# of every twenty; who shares a cluster submits in HTTPMode and K8sJobMode in turn
MODES = ("K8sJobMode",) * 6 + ("HTTPMode",) * 6 + ("SidecarMode",) * 3 + ("InteractiveMode",) * 2 + (SHARED_MODE,) * 3
RETRYING = frozenset({"K8sJobMode", "HTTPMode", "SidecarMode"})  # KubeRay refuses a backoffLimit in the others
SHAPES = ("text", "text", "burst", "binary", "unended")
SMALL_BYTES, LARGE_BYTES = (200, 200_000), (2_000_000, 6_000_000)
# A sidecar that ends before KubeRay has seen its head ready leaves the RayJob at Initializing for ever (KubeRay 1.6), and
# it ends at the first byte that is not UTF-8.
SIDECAR_SECONDS = 8.0
DELETED_SECONDS = 20.0  # whoever is deleted in mid-run must still run by then
# the head goes a second after it is told to, as Ray did before 2.60; and it is ready as soon as it answers
HEAD = {
    "env": [
        {"name": name, "value": value}
        for name, value in (rayjob.RAY_ENV | {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "1"}).items()
    ],
    "readinessProbe": {
        "httpGet": {"path": "/api/healthz", "port": 52365},
        "initialDelaySeconds": 1,
        "periodSeconds": 1,
        "timeoutSeconds": 5,
        "failureThreshold": 60,
    },
}


@dataclass(frozen=True, slots=True)
class Member:
    """One RayJob. `exits` are its driver's exit codes, an attempt each; the last one holds for all further attempts."""

    name: str
    mode: str
    seed: int
    seconds: float
    bytes: int
    shape: str
    exits: tuple[int, ...] = (0,)
    backoff_limit: int = 0
    is_deleted: bool = False
    has_worker: bool = False

    @property
    def submission_mode(self) -> str:
        return self.mode if self.mode != SHARED_MODE else ("HTTPMode", "K8sJobMode")[self.seed % 2]

    @property
    def entrypoint(self) -> str:
        exits = ",".join(map(str, self.exits))
        return (
            f"standin-driver --job {self.name} --seed {self.seed} --bytes {self.bytes} "
            f"--seconds {self.seconds:.1f} --shape {self.shape} --exits {exits}"
        )

    @property
    def attempts(self) -> int:
        """How many there are where nobody interferes."""
        failures = next((number for number, code in enumerate(self.exits) if code == 0), self.backoff_limit + 1)
        return min(failures, self.backoff_limit) + 1


def crowd(count: int, seed: int = 1) -> list[Member]:
    """The same members for the same arguments, in the order in which they start."""
    dice = random.Random(seed)
    return [_member(number, dice) for number in range(count)]


def _member(number: int, dice: random.Random) -> Member:
    mode = MODES[(number * 7) % len(MODES)]  # 7 and 20 have no common factor: modes alternate
    is_deleted = mode != SHARED_MODE and number % 11 == 5
    retries = mode in RETRYING and not is_deleted and number % 5 < 3  # 3 of 5 of three quarters
    is_large = number % 15 == 3
    seconds, shape = round(0.2 + 19.8 * dice.random() ** 4, 1), dice.choice(SHAPES)
    if mode == "SidecarMode":
        seconds, shape = max(seconds, SIDECAR_SECONDS), shape.replace("binary", "text")
    return Member(
        name=f"load-{number:03}",
        mode=mode,
        seed=1000 * number + dice.randrange(1000),
        seconds=DELETED_SECONDS if is_deleted else seconds,
        bytes=dice.randint(*(LARGE_BYTES if is_large else SMALL_BYTES)),
        shape=shape,
        exits=dice.choice(((1, 0), (7, 3), (2, 2))) if retries else (dice.choice((0, 0, 1, 137)),),
        backoff_limit=1 if retries else 0,
        is_deleted=is_deleted,
        has_worker=mode not in (SHARED_MODE, "SidecarMode") and number % 13 == 2,
    )


def setting(namespace: str, images: Mapping[str, str]) -> Iterator[Document]:
    """What is there before the crowd: its namespace, and the cluster that some of them share."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    metadata = {"name": "driver", "namespace": namespace}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}
    cluster = rayjob.ray_cluster(
        _scenario(Member(rayjob.SHARED, SHARED_MODE, 0, 0, 0, "text")), namespace, *_of(images)
    )
    metadata = {"name": rayjob.SHARED, "namespace": namespace}
    yield {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": cluster}


def document(member: Member, namespace: str, images: Mapping[str, str]) -> Document:
    """The member as the RayJob that is applied."""
    scenario, (image, gpus) = _scenario(member), _of(images)
    return rayjob.rayjob(scenario, namespace, rayjob.ray_cluster(scenario, namespace, image, gpus), image)


def _of(images: Mapping[str, str]) -> tuple[str, str]:
    return images[IMAGE], ""


def _scenario(member: Member) -> Scenario:
    spec: dict[str, Any] = {"backoffLimit": member.backoff_limit} if member.backoff_limit else {}
    return Scenario(
        name=member.name,
        title="",
        mode=member.submission_mode,
        expected=(),
        entrypoint=member.entrypoint,
        ray=RAY_VERSION,
        workers=Workers(memory="256Mi") if member.has_worker else None,
        shares_cluster=member.mode == SHARED_MODE,
        head=HEAD,
        spec=spec,
    )
