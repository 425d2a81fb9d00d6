"""The opt-in hold: a finalizer on a RayCluster that keeps its head alive until the evidence is safe, for seconds at most.

Measured with KubeRay 1.6: with a foreign finalizer on the RayCluster the head stays up and answers after the deletion, the
RayJob keeps its status, and 13 ms after the finalizer is gone the retry goes on. So it is put on while the cluster runs,
taken off as soon as the evidence is safe, and swept at start and stop. Never on pods or RayJobs: there it harms.
"""

from collections.abc import Mapping
from typing import Any

import structlog

from archiver.core.model import Kind
from archiver.core.objects import at, name, namespace
from archiver.errors import KubeConflict, KubeError
from archiver.ports import KubeObjects

FINALIZER = "archiver.ray.io/evidence"
_TRIES = 4
_log = structlog.get_logger()


def finalizers(obj: Mapping[str, Any]) -> list[str]:
    found = at(obj, "metadata", "finalizers")
    return [entry for entry in found if isinstance(entry, str)] if isinstance(found, list) else []


def is_held(obj: Mapping[str, Any]) -> bool:
    return FINALIZER in finalizers(obj)


async def put_on(objects: KubeObjects, cluster: Mapping[str, Any]) -> bool:
    """Adds the finalizer to a RayCluster that is not being deleted. Returns whether it is there now."""
    if is_held(cluster):
        return True
    if at(cluster, "metadata", "deletionTimestamp"):
        return False
    return await _rewrite(objects, namespace(cluster), name(cluster), hold=True)


async def take_off(objects: KubeObjects, cluster_namespace: str, cluster_name: str) -> bool:
    """Removes the finalizer. True once it is gone, also where the RayCluster is gone."""
    return await _rewrite(objects, cluster_namespace, cluster_name, hold=False)


async def _rewrite(objects: KubeObjects, ns: str, cluster: str, *, hold: bool) -> bool:
    """Reads, changes and writes with the read resourceVersion, so that another's finalizer is never lost."""
    for _ in range(_TRIES):
        current = await objects.get(Kind.RAYCLUSTER, ns, cluster)
        if current is None:
            return not hold
        if is_held(current) == hold:
            return True
        if hold and at(current, "metadata", "deletionTimestamp"):
            return False
        rest = [entry for entry in finalizers(current) if entry != FINALIZER]
        wanted = [*rest, FINALIZER] if hold else rest
        patch = {
            "metadata": {"finalizers": wanted or None, "resourceVersion": at(current, "metadata", "resourceVersion")}
        }
        try:
            await objects.patch(Kind.RAYCLUSTER, ns, cluster, patch)
        except KubeConflict:
            continue
        return True
    _log.warning("hold contended", namespace=ns, ray_cluster=cluster, hold=hold)
    return False


async def sweep(objects: KubeObjects, clusters: list[Mapping[str, Any]]) -> int:
    """Takes the finalizer off every RayCluster that has it. Returns how many were freed; goes on after an error."""
    freed = 0
    for cluster in clusters:
        if not is_held(cluster):
            continue
        try:
            freed += await take_off(objects, namespace(cluster), name(cluster))
        except KubeError as error:
            _log.error("hold not released", namespace=namespace(cluster), ray_cluster=name(cluster), error=str(error))
    return freed
