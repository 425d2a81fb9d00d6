"""What the API server serves: versions, group versions of our kinds, KubeRay's own version. Asks, never waits."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from archiver.errors import KubeDenied
from archiver.kube.answers import Call
from archiver.kube.resources import CANDIDATES, DEPLOYMENTS, Resource
from archiver.kube.transport import Transport
from archiver.kube.trim import part, parts
from archiver.ports import Kind

_OPERATOR_LABEL = "app.kubernetes.io/name=kuberay-operator"
_OPERATOR_IMAGE = re.compile(r"(?:^|/)(?:kuberay/)?operator:v?(?P<version>[0-9][\w.+-]*)")


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """The API server's version; ``git`` is the whole text (``v1.34.4``)."""

    major: int
    minor: int
    git: str


async def server_version(transport: Transport) -> ServerVersion:
    """Asks ``/version``."""
    answer = await transport.read_json(Call("get", "version", "/version")) or {}
    # A vendor's minor can be "29+".
    numbers = [re.match(r"\d*", str(answer.get(key, ""))) for key in ("major", "minor")]
    major, minor = (int(number.group() or 0) if number else 0 for number in numbers)
    return ServerVersion(major, minor, str(answer.get("gitVersion", "")))


async def find_resource(transport: Transport, kind: Kind) -> Resource | None:
    """The best version of a kind that is served now; None where there is none (no CRD yet)."""
    for candidate in CANDIDATES[kind]:
        prefix = "/apis/" + candidate.group if candidate.group else "/api"
        call = Call("get", f"{candidate.group or 'core'} (discovery)", f"{prefix}/{candidate.version}")
        answer = await transport.read_json(call)
        if answer is not None and _names(answer, candidate.plural):
            return candidate
    return None


async def kuberay_version(transport: Transport, namespaces: tuple[str, ...] = ()) -> str | None:
    """The operator's version from its Deployment; None where we may not read Deployments or find none."""
    for namespace in namespaces or (None,):
        path = DEPLOYMENTS.path(namespace)
        call = Call("list", DEPLOYMENTS.label, path, namespace, params={"labelSelector": _OPERATOR_LABEL, "limit": "5"})
        try:
            answer = await transport.read_json(call)
        except KubeDenied:
            continue
        for deployment in parts(answer or {}, "items"):
            version = operator_version(deployment)
            if version is not None:
                return version
    return None


def operator_version(deployment: Mapping[str, Any]) -> str | None:
    """From the operator's image tag, else from the version label that Helm sets."""
    template = part(part(deployment, "spec"), "template")
    for container in parts(part(template, "spec"), "containers"):
        match = _OPERATOR_IMAGE.search(str(container.get("image", "")))
        if match:
            return match["version"]
    label = part(part(deployment, "metadata"), "labels").get("app.kubernetes.io/version")
    return label.removeprefix("v") if isinstance(label, str) and label else None


def _names(answer: Any, plural: str) -> bool:
    return isinstance(answer, dict) and any(item.get("name") == plural for item in parts(answer, "resources"))
