"""Which rights are missing, asked of the API server itself, in sentences for the one who can grant them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archiver.kube.answers import Call
from archiver.kube.resources import ACCESS_REVIEWS
from archiver.kube.transport import Transport
from archiver.kube.trim import part


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource. ``is_needed`` False: without it something is missing, but capture works."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    why: str = ""
    is_needed: bool = True
    is_cluster_wide: bool = False

    @property
    def label(self) -> str:
        name = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{name}.{self.group}" if self.group else name


@dataclass(frozen=True, slots=True)
class MissingRight:
    right: Right
    namespace: str | None
    said: str

    @property
    def sentence(self) -> str:
        where = f"in namespace {self.namespace}" if self.namespace else "in all namespaces"
        weight = "needed" if self.right.is_needed else "optional"
        why = f" ({weight}: {self.right.why})" if self.right.why else f" ({weight})"
        kind = "a Role" if self.namespace else "a ClusterRole"
        grant = f'grant the verb "{self.right.verb}" on "{self._resource}" of API group "{self.right.group}" in {kind}'
        return f"cannot {self.right.verb} {self.right.label} {where}{why}: {grant}"

    @property
    def _resource(self) -> str:
        return f"{self.right.resource}/{self.right.subresource}" if self.right.subresource else self.right.resource


@dataclass(frozen=True, slots=True)
class Features:
    """Opt-in parts of the product that need more rights than reading."""

    hold: bool = False
    ray_tokens: bool = False
    lease_namespace: str | None = None


def wanted_rights(features: Features) -> list[Right]:
    """What this way of running needs beside the leases."""
    watched = (
        ("ray.io", "rayjobs"),
        ("ray.io", "rayclusters"),
        ("batch", "jobs"),
        ("", "pods"),
        ("", "events"),
    )
    rights = [Right(verb, group, name, why="watching") for group, name in watched for verb in ("list", "watch")]
    rights.append(Right("get", "", "pods", "log", why="following logs"))
    for verb in ("list", "watch"):
        rights.append(Right(verb, "", "nodes", why="node conditions", is_needed=False, is_cluster_wide=True))
    for name in ("pods", "services"):
        why = "reaching Ray where pod addresses cannot be reached"
        rights.append(Right("get", "", name, "proxy", why=why, is_needed=False))
    if features.hold:
        rights += [Right(verb, "ray.io", "rayclusters", why="the hold") for verb in ("get", "patch")]
        # a Role in a namespace grants it for that namespace alone; without it the cap must do
        rights.append(Right("get", "", "namespaces", why="no hold where a namespace is going", is_needed=False))
    if features.ray_tokens:
        rights.append(Right("get", "", "secrets", why="Ray token authentication"))
    return rights


async def missing_rights(
    transport: Transport, features: Features, *, namespaces: Sequence[str] = ()
) -> list[MissingRight]:
    """Asks for each right where it is needed: in each namespace, or everywhere."""
    missing: list[MissingRight] = []
    for right in wanted_rights(features):
        for namespace in (() if right.is_cluster_wide else namespaces) or (None,):
            missing += await _missing(transport, right, namespace)
    if features.lease_namespace:
        for verb in ("get", "create", "update"):
            right = Right(verb, "coordination.k8s.io", "leases", why="leader election")
            missing += await _missing(transport, right, features.lease_namespace)
    return missing


async def _missing(transport: Transport, right: Right, namespace: str | None) -> list[MissingRight]:
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
        "subresource": right.subresource,
        "namespace": namespace or "",
    }
    body = {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
    }
    call = Call("create", ACCESS_REVIEWS.label, ACCESS_REVIEWS.path(), method="POST", body=body)
    answer: Mapping[str, Any] = await transport.read_json(call) or {}
    status = part(answer, "status")
    return [] if status.get("allowed") else [MissingRight(right, namespace, str(status.get("reason", "")))]
