"""What `deploy/` promises: whole files, least rights with a reason each, restricted pods, pinned images.

What a cluster makes of them is proved on the real one.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from archiver.cli import main
from archiver.kube.preflight import Features, wanted_rights
from archiver.settings import PREFIX, Settings, load_settings

DEPLOY = Path(__file__).parents[2] / "deploy"
KUSTOMIZE = DEPLOY / "kustomize"
YAML_FILES = sorted(KUSTOMIZE.rglob("*.yaml"))
READING = {"get", "list", "watch"}
# what runs without `archiver.settings`' knowledge of rights: optional, but asked for where installed
EXTRA = {
    ("kueue.x-k8s.io", "workloads", "list"),
    ("kueue.x-k8s.io", "workloads", "watch"),
    ("apps", "deployments", "list"),
}

Document = dict[str, Any]


def documents(*files: Path) -> Iterator[Document]:
    for file in files or YAML_FILES:
        yield from (document for document in yaml.safe_load_all(file.read_text()) if document)


def of_kind(*kinds: str) -> list[Document]:
    return [document for document in documents() if document["kind"] in kinds]


def rights(file: Path) -> set[tuple[str, str, str]]:
    """(group, resource, verb) that the roles of a file grant."""
    return {
        (group, resource, verb)
        for role in documents(file)
        for rule in role.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def needed(features: Features, *, cluster_wide: bool) -> set[tuple[str, str, str]]:
    return {
        (right.group, f"{right.resource}/{right.subresource}" if right.subresource else right.resource, right.verb)
        for right in wanted_rights(features)
        if cluster_wide or not right.is_cluster_wide
    }


def pods() -> dict[str, Document]:
    return {document["metadata"]["name"]: document["spec"]["template"] for document in of_kind("Deployment", "Job")}


@pytest.mark.parametrize("file", YAML_FILES, ids=lambda file: str(file.relative_to(KUSTOMIZE)))
def test_every_file_is_one_or_more_objects(file: Path) -> None:
    found = list(documents(file))
    assert found
    assert all({"apiVersion", "kind"} <= document.keys() for document in found)


def test_every_file_is_used_by_a_kustomization() -> None:
    used = {KUSTOMIZE / "secret.example.yaml"}
    for file in KUSTOMIZE.rglob("kustomization.yaml"):
        (content,) = documents(file)
        for resource in content["resources"]:
            target = (file.parent / resource).resolve()
            assert target.exists(), f"{file} names {resource}"
            used |= {file, target}
    assert set(YAML_FILES) <= used


def test_every_patch_names_an_object_that_exists() -> None:
    known = {(document["kind"], document["metadata"]["name"]) for document in documents() if "metadata" in document}
    for file in KUSTOMIZE.rglob("kustomization.yaml"):
        for patch in next(documents(file)).get("patches", ()):
            target = yaml.safe_load(patch["patch"])
            assert (target["kind"], target["metadata"]["name"]) in known


@pytest.mark.parametrize(
    "file",
    [file for file in YAML_FILES if "rules:" in file.read_text()],
    ids=lambda file: str(file.relative_to(KUSTOMIZE)),
)
def test_every_rule_says_why_it_is_there(file: Path) -> None:
    lines = file.read_text().splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("  - apiGroups:")]
    assert rules
    assert [lines[number] for number in rules if not lines[number - 1].startswith("  # ")] == []


def test_cluster_mode_grants_what_the_watcher_asks_for_and_nothing_else() -> None:
    granted = rights(KUSTOMIZE / "cluster/rbac.yaml")
    assert granted == needed(Features(), cluster_wide=True) | EXTRA


def test_namespaced_mode_grants_the_same_without_cluster_rights() -> None:
    granted = rights(KUSTOMIZE / "namespaced/rbac.yaml")
    assert granted == needed(Features(), cluster_wide=False) | (EXTRA - {("apps", "deployments", "list")})
    assert {document["kind"] for document in documents(KUSTOMIZE / "namespaced/rbac.yaml")} == {"Role", "RoleBinding"}


def test_the_hold_alone_may_change_something_and_stands_apart() -> None:
    assert rights(KUSTOMIZE / "components/hold/rbac.yaml") == needed(Features(hold=True), cluster_wide=True) - needed(
        Features(), cluster_wide=True
    )
    others = set().union(*(rights(file) for file in YAML_FILES if "components" not in file.parts))
    assert {(resource, verb) for _, resource, verb in others if verb not in READING} == {
        ("leases", "create"),
        ("leases", "update"),
    }


def test_tokens_of_ray_are_read_only_by_the_one_who_asks_for_it() -> None:
    assert rights(KUSTOMIZE / "components/ray-tokens/rbac.yaml") == {("", "secrets", "get")}
    readers = [file for file in YAML_FILES if any(resource == "secrets" for _, resource, _ in rights(file))]
    assert readers == [KUSTOMIZE / "components/ray-tokens/rbac.yaml"]


def test_no_rule_is_about_everything() -> None:
    for role in of_kind("Role", "ClusterRole"):
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


def test_every_binding_is_to_the_watcher_and_a_role_that_exists() -> None:
    roles = {(role["kind"], role["metadata"]["name"]) for role in of_kind("Role", "ClusterRole")}
    for binding in of_kind("RoleBinding", "ClusterRoleBinding"):
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in roles
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "rayjob-archiver-watcher", "namespace": "rayjob-archiver"}
        ]


@pytest.mark.parametrize("name", pods())
def test_every_pod_meets_the_restricted_standard(name: str) -> None:
    spec = pods()[name]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 10001
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", pods())
def test_every_command_is_one_of_the_command_line(name: str) -> None:
    (container,) = pods()[name]["spec"]["containers"]
    (command,) = container["args"]
    assert command in main.commands


@pytest.mark.parametrize("name", pods())
def test_no_service_of_a_cluster_can_look_like_a_setting(name: str) -> None:
    assert pods()[name]["spec"]["enableServiceLinks"] is False


def test_only_the_watcher_gets_a_token_of_the_cluster() -> None:
    tokens = {name: pod["spec"]["automountServiceAccountToken"] for name, pod in pods().items()}
    assert [name for name, has_token in tokens.items() if has_token] == ["rayjob-archiver-watcher"]


@pytest.mark.parametrize("name", ["rayjob-archiver-watcher", "rayjob-archiver-web"])
def test_daemons_are_probed_for_life_and_for_readiness(name: str) -> None:
    (container,) = pods()[name]["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"]["path"] == path
        assert container[probe]["httpGet"]["port"] in ports


def test_the_watcher_has_more_time_to_stop_than_it_takes() -> None:
    assert pods()["rayjob-archiver-watcher"]["spec"]["terminationGracePeriodSeconds"] > 25


def test_the_spool_folder_has_room_for_the_spool() -> None:
    pod = pods()["rayjob-archiver-watcher"]["spec"]
    (spool,) = (volume for volume in pod["volumes"] if volume["name"] == "spool")
    limit = int(spool["emptyDir"]["sizeLimit"].removesuffix("Mi")) << 20
    assert limit > Settings.model_fields["spool_limit_bytes"].default


def test_services_select_pods_that_exist() -> None:
    labels = [pod["metadata"]["labels"] for pod in pods().values()]
    for service in of_kind("Service"):
        assert any(service["spec"]["selector"].items() <= each.items() for each in labels)


@pytest.mark.parametrize("name", pods())
def test_every_setting_of_a_pod_is_a_setting(name: str, tmp_path: Path) -> None:
    (settings,) = of_kind("ConfigMap")
    secret = tmp_path / "secret"
    secret.write_text("postgresql://u:p@h/d")
    environ = dict(settings["data"])
    for variable in pods()[name]["spec"]["containers"][0]["env"]:
        environ[variable["name"]] = (
            str(secret) if variable["name"].endswith("_FILE") else str(variable.get("value", "x"))
        )
    for patch in (
        patch for file in KUSTOMIZE.rglob("kustomization.yaml") for patch in next(documents(file)).get("patches", ())
    ):
        environ |= yaml.safe_load(patch["patch"]).get("data", {})
    assert all(variable.startswith(PREFIX) for variable in environ)
    assert load_settings(environ).store == "s3://rayjob-archiver"


def test_every_volume_that_is_mounted_exists_and_every_other_one_is_gone() -> None:
    for pod in pods().values():
        mounted = {mount["name"] for container in pod["spec"]["containers"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]}


def test_every_image_is_pinned() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    images = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    images += [container["image"] for pod in pods().values() for container in pod["spec"]["containers"]]
    assert len(images) == 5
    assert [image for image in images if not re.search(r":v?\d+\.\d+", image)] == []


def test_the_image_runs_as_nobody_in_particular() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    stages = dockerfile.split("\nFROM ")
    assert len(stages) == 3
    assert "USER 10001:10001" in stages[-1]
    assert "--require-hashes" in stages[1]


def test_the_image_is_made_of_what_is_not_ignored() -> None:
    kept = set(re.findall(r"^!(\S+)", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE))
    copied = set(re.findall(r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE))
    assert {name for line in copied for name in line.split()} == kept
