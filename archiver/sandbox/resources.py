"""Which resources the sandbox serves, as discovery tells them. Not their objects."""

from dataclasses import dataclass

from archiver.sandbox.jsontypes import JsonObject

_ALL_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of one API group version. ``typed`` ones leave kind and apiVersion out of list items."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    typed: bool = True
    has_status: bool = False
    short_names: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"


RAY_GROUP = "ray.io"
EVENTS_GROUP = "events.k8s.io"

RESOURCES: tuple[Resource, ...] = (
    Resource("", "v1", "pods", "Pod", has_status=True, short_names=("po",)),
    Resource("", "v1", "events", "Event", short_names=("ev",)),
    Resource("", "v1", "nodes", "Node", namespaced=False, has_status=True, short_names=("no",)),
    Resource("", "v1", "namespaces", "Namespace", namespaced=False, has_status=True, short_names=("ns",)),
    Resource("", "v1", "secrets", "Secret"),
    Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",)),
    Resource("", "v1", "services", "Service", has_status=True, short_names=("svc",)),
    Resource("apps", "v1", "deployments", "Deployment", has_status=True, short_names=("deploy",)),
    Resource("batch", "v1", "jobs", "Job", has_status=True),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource(EVENTS_GROUP, "v1", "events", "Event", short_names=("ev",)),
    Resource(RAY_GROUP, "v1", "rayjobs", "RayJob", typed=False, has_status=True),
    Resource(RAY_GROUP, "v1", "rayclusters", "RayCluster", typed=False, has_status=True),
    Resource("kueue.x-k8s.io", "v1beta1", "workloads", "Workload", typed=False, has_status=True, short_names=("wl",)),
)


class Catalogue:
    """The resources served right now: custom ones can be installed and removed, as CRDs are.

    Every object lives under one storage resource; the others are views of it (``events.k8s.io`` shows core Events,
    ``ray.io/v1alpha1`` shows ``ray.io/v1``).
    """

    def __init__(self, resources: tuple[Resource, ...] = RESOURCES) -> None:
        self._served = {(r.group, r.version, r.plural): r for r in resources if r.group != "kueue.x-k8s.io"}
        self._known = resources

    def install(self, group: str, *versions: str) -> None:
        """Serves the known resources of a group, in these versions (the stored one by default)."""
        known = [r for r in self._known if r.group == group]
        for r in known:
            for version in versions or (r.version,):
                served = Resource(group, version, r.plural, r.kind, r.namespaced, r.typed, r.has_status, r.short_names)
                self._served[(group, version, r.plural)] = served

    def uninstall(self, group: str) -> None:
        self._served = {key: r for key, r in self._served.items() if r.group != group}

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._served.get((group, version, plural))

    def by_plural(self, plural: str, *, group: str | None = None) -> Resource | None:
        """The first served resource of that name; core Events come before events.k8s.io."""
        for r in self._served.values():
            if r.plural == plural and group in (None, r.group):
                return r
        return None

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        for r in self._served.values():
            if r.kind == kind and r.api_version == api_version:
                return r
        return None

    def has_version(self, group: str, version: str) -> bool:
        return any(r.group == group and r.version == version for r in self._served.values())

    def group_versions(self) -> dict[str, list[str]]:
        """Every named group with its versions, the preferred first."""
        groups: dict[str, list[str]] = {"authorization.k8s.io": ["v1"]}
        for r in self._served.values():
            if r.group and r.version not in groups.setdefault(r.group, []):
                groups[r.group].append(r.version)
        return groups

    def resource_list(self, group: str, version: str) -> JsonObject:
        """The APIResourceList document."""
        rows: list[JsonObject] = []
        for r in sorted(self._served.values(), key=lambda r: r.plural):
            if (r.group, r.version) == (group, version):
                rows.append(_resource_row(r))
                if r.has_status:
                    rows.append({**_row(f"{r.plural}/status", r), "verbs": ["get", "patch", "update"]})
        if (group, version) == ("", "v1"):
            rows.extend(_CORE_SUBRESOURCES)
        if group == "authorization.k8s.io":
            rows.append(_ACCESS_REVIEW)
        group_version = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": rows}


def _row(name: str, resource: Resource) -> JsonObject:
    return {"name": name, "singularName": "", "namespaced": resource.namespaced, "kind": resource.kind}


def _resource_row(resource: Resource) -> JsonObject:
    row = {**_row(resource.plural, resource), "singularName": resource.kind.lower(), "verbs": list(_ALL_VERBS)}
    if resource.short_names:
        row["shortNames"] = list(resource.short_names)
    return row


_CORE_SUBRESOURCES: tuple[JsonObject, ...] = (
    {"name": "pods/log", "singularName": "", "namespaced": True, "kind": "Pod", "verbs": ["get"]},
    {"name": "pods/proxy", "singularName": "", "namespaced": True, "kind": "PodProxyOptions", "verbs": ["get"]},
    {"name": "services/proxy", "singularName": "", "namespaced": True, "kind": "ServiceProxyOptions", "verbs": ["get"]},
)
_ACCESS_REVIEW: JsonObject = {
    "name": "selfsubjectaccessreviews",
    "singularName": "selfsubjectaccessreview",
    "namespaced": False,
    "kind": "SelfSubjectAccessReview",
    "verbs": ["create"],
}
