"""Discovery documents: versions, groups and resource lists, in the plain (not aggregated) form."""

from aiohttp import web

from archiver.sandbox.jsontypes import JsonObject
from archiver.sandbox.resources import Catalogue

KUBERNETES_VERSION = "v1.34.4"


def open_path(path: str) -> web.Response:
    """What answers without a token."""
    if path == "/version":
        return web.json_response(
            {
                "major": "1",
                "minor": "34",
                "gitVersion": KUBERNETES_VERSION,
                "gitCommit": "",
                "gitTreeState": "clean",
                "buildDate": "2026-11-30T00:00:00Z",
                "goVersion": "go1.24.13",
                "compiler": "gc",
                "platform": "linux/amd64",
            }
        )
    return web.Response(text="ok")


def document(catalogue: Catalogue, path: str) -> JsonObject | None:
    parts = [part for part in path.split("/") if part]
    if parts == ["api"]:
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
        }
    if parts == ["api", "v1"]:
        return catalogue.resource_list("", "v1")
    if parts[:1] != ["apis"]:
        return None
    groups = catalogue.group_versions()
    if len(parts) == 1:
        rows = [_group(name, versions) for name, versions in groups.items()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": rows}
    if len(parts) == 2 and parts[1] in groups:
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1], groups[parts[1]])}
    if len(parts) == 3 and parts[2] in groups.get(parts[1], []):
        return catalogue.resource_list(parts[1], parts[2])
    return None


def _group(name: str, versions: list[str]) -> JsonObject:
    rows = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": rows, "preferredVersion": rows[0]}
