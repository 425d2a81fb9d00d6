"""What is applied to a fresh API server: DNS's rights and the KubeRay operator, in a pod of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.cluster import layout as at

Document = dict[str, Any]
RBAC = ("service_account", "role", "role_binding", "leader_election_role", "leader_election_role_binding")
OPERATOR = "kuberay-operator"


def dns() -> Iterator[Document]:
    """CoreDNS watches what it names."""
    rules = [
        {"apiGroups": [""], "resources": ["namespaces", "pods", "services"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    yield {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "coredns"},
        "rules": rules,
    }
    yield {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "coredns"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "coredns"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "coredns"}],
    }


def crds(folder: Path) -> list[str]:
    """KubeRay's own definitions, as its module carries them: a megabyte each, which only the API server parses."""
    return [path.read_text() for path in sorted((folder / "crds").glob("*.yaml"))]


def operator(folder: Path, image: str) -> Iterator[Document]:
    """The operator with the rights that its module gives it, and its release's defaults but for more workers."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": at.OPERATOR_NAMESPACE}}
    for name in RBAC:
        for document in yaml.safe_load_all((folder / "rbac" / f"{name}.yaml").read_text()):
            if document:
                yield _placed(document)
    yield _deployment(image)


def _placed(document: Document) -> Document:
    if not document["kind"].startswith("Cluster"):
        document["metadata"]["namespace"] = at.OPERATOR_NAMESPACE
    for subject in document.get("subjects", ()):
        subject["namespace"] = at.OPERATOR_NAMESPACE
    return document


def _deployment(image: str) -> Document:
    labels = {"app.kubernetes.io/name": "kuberay", "app.kubernetes.io/component": OPERATOR}
    container = {
        "name": OPERATOR,
        "image": image,
        "imagePullPolicy": "Never",
        "args": ["--reconcile-concurrency=4"],
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/metrics", "port": "http"}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {"runAsUser": 65532, "runAsNonRoot": True, "readOnlyRootFilesystem": True},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": OPERATOR, "namespace": at.OPERATOR_NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": OPERATOR,
                    "terminationGracePeriodSeconds": 5,
                    "containers": [container],
                },
            },
        },
    }
