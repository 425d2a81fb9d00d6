"""Versions read from what clusters say of themselves, and which watches that leads to."""

from typing import Any

import pytest

from archiver.kube.discovery import operator_version
from archiver.kube.informer import targets
from archiver.kube.resources import CANDIDATES, Resource
from archiver.ports import Kind


def deployment(image: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": {"template": {"spec": {"containers": [{"image": image}]}}}}


@pytest.mark.parametrize(
    ("document", "version"),
    [
        (deployment("quay.io/kuberay/operator:v1.6.2"), "1.6.2"),
        (deployment("registry:5000/mirror/kuberay/operator:v1.5.1-rc.0@sha256:ab"), "1.5.1-rc.0"),
        (deployment("kuberay/operator@sha256:ab", **{"app.kubernetes.io/version": "v1.4.2"}), "1.4.2"),
        (deployment("quay.io/kuberay/operator:nightly"), None),
        ({}, None),
    ],
)
def test_reads_the_operators_version(document: dict[str, Any], version: str | None) -> None:
    assert operator_version(document) == version


def test_prefers_the_newest_served_version() -> None:
    assert [candidate.version for candidate in CANDIDATES[Kind.RAYJOB]] == ["v1", "v1alpha1"]


def test_builds_paths() -> None:
    pods = CANDIDATES[Kind.POD][0]
    assert pods.path() == "/api/v1/pods"
    assert pods.path("team-a", "p", "log") == "/api/v1/namespaces/team-a/pods/p/log"
    assert CANDIDATES[Kind.NODE][0].path("ignored", "n/1") == "/api/v1/nodes/n%2F1"
    assert Resource("ray.io", "v1", "rayjobs", "RayJob").path() == "/apis/ray.io/v1/rayjobs"


def test_watches_the_whole_cluster_or_each_namespace() -> None:
    wide = targets(Kind, ())
    narrow = targets(Kind, ("a", "b"))
    assert {target.namespace for target in wide} == {None}
    assert len([target for target in wide if target.kind is Kind.POD]) == 2, "Ray's pods and submitters"
    assert {target.namespace for target in narrow if target.kind is Kind.RAYJOB} == {"a", "b"}
    assert [target.namespace for target in narrow if target.kind is Kind.NODE] == [None]
    assert len({target.name for target in narrow}) == len(narrow)
