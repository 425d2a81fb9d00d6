"""Names of the API's resources and their paths. Not which of them a cluster serves: see discovery."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import quote

from archiver.ports import Kind


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource in one version of its group; ``group`` is empty for the core API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def label(self) -> str:
        """As RBAC messages name it: ``rayjobs.ray.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, of one object, or of its subresource."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(name, safe="")] if name else []
        parts += [subresource] if subresource else []
        return "/" + "/".join(parts)


# The versions that we can read, best first. Their fields that we use are the same in all of them.
CANDIDATES: Mapping[Kind, tuple[Resource, ...]] = MappingProxyType(
    {
        Kind.RAYJOB: tuple(Resource("ray.io", v, "rayjobs", "RayJob") for v in ("v1", "v1alpha1")),
        Kind.RAYCLUSTER: tuple(Resource("ray.io", v, "rayclusters", "RayCluster") for v in ("v1", "v1alpha1")),
        Kind.JOB: (Resource("batch", "v1", "jobs", "Job"),),
        Kind.POD: (Resource("", "v1", "pods", "Pod"),),
        Kind.EVENT: (Resource("", "v1", "events", "Event"),),
        Kind.NODE: (Resource("", "v1", "nodes", "Node", namespaced=False),),
        Kind.WORKLOAD: tuple(
            Resource("kueue.x-k8s.io", v, "workloads", "Workload") for v in ("v1", "v1beta2", "v1beta1")
        ),
    }
)

# Kinds that a cluster may lack or refuse without harm to the capture.
OPTIONAL_KINDS = frozenset({Kind.NODE, Kind.WORKLOAD})

SECRETS = Resource("", "v1", "secrets", "Secret")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
SERVICES = Resource("", "v1", "services", "Service")
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
