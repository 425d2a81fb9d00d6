"""The archiver as its users deploy it: deploy/kustomize's documents, in pods with their own accounts and least rights.

Changed are only names (a namespace of the run's own), the image, one replica of each, and the settings' values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import yaml

from tests.e2e.cluster.connection import Connection
from tests.e2e.scenarios.kube import RESOURCES, Document, Kube, until

KUSTOMIZE = Path(__file__).parents[2] / "deploy/kustomize"
ORIGINAL = "rayjob-archiver"
READY_SECONDS = 300
API = "/api/v1"


def rendered(folder: Path) -> Iterator[Document]:
    """The documents of a kustomization of ours: its resources, its bases' first. Patches are none of its business."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    for resource in kustomization["resources"]:
        path = folder / resource
        if path.is_dir():
            yield from rendered(path)
        else:
            yield from (document for document in yaml.safe_load_all(path.read_text()) if document)


class ArchiverPod:
    """The deployed archiver of one test run. `cluster` is its name in keys and rows, also its namespace."""

    def __init__(self, kube: Kube, connection: Connection, *, run: str, image: str, database_url: str) -> None:
        self.cluster = f"archiver-{run}"
        self.bucket = f"{connection.s3.bucket}-{run}"
        self._kube, self._connection, self._image = kube, connection, image
        self._database_url = database_url

    async def deploy(self) -> None:
        """Namespace, rights, bucket, tables, watcher, web; returns when both answer."""
        documents = [self._adapted(document) for document in rendered(KUSTOMIZE / "cluster")]
        first = ("Namespace", "ServiceAccount", "ConfigMap", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
        for document in sorted(documents, key=lambda one: first.index(one["kind"]) if one["kind"] in first else 99):
            if document["kind"] in first:
                await self._kube.apply(document)
        await self._kube.apply(self._secret())
        migrate = next(document for document in documents if document["kind"] == "Job")
        for job in (self._bucket_job(migrate), migrate):
            await self._kube.apply(job)
        for job in ("bucket", f"{ORIGINAL}-migrate"):
            await until(
                f"the Job {job} has not succeeded", lambda name=job: self._has_succeeded(name), seconds=READY_SECONDS
            )
        for document in documents:
            if document["kind"] not in (*first, "Job"):
                await self._kube.apply(document)
        for name in ("watcher", "web"):
            await until(f"the {name} is ready", partial(self._is_available, name), seconds=READY_SECONDS)

    async def remove(self) -> None:
        """Takes everything back but bucket and database, which belong to the harness."""
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            await self._kube.delete(kind, "", self.cluster)
        await self._kube.delete("Namespace", "", self.cluster)

    async def read(self, path: str, **params: str) -> Any:
        """A document of the REST API. LookupError where there is none."""
        return json.loads(await self.read_bytes(path, **params))

    async def read_bytes(self, path: str, **params: str) -> bytes:
        return await self._kube.proxied(f"services/{ORIGINAL}-web:http", self.cluster, API + path, params=params)

    async def job(self, namespace: str, name: str) -> Any:
        return await self.read(f"/clusters/{self.cluster}/namespaces/{namespace}/jobs/{name}")

    async def watcher_log(self) -> str:
        """Every line of the running watcher, for the report of a failure."""
        pods = await self._kube.list("Pod", self.cluster, "app.kubernetes.io/component=watcher")
        return "\n".join([await self._kube.logs(self.cluster, pod["metadata"]["name"]) for pod in pods])

    async def restarts(self) -> int:
        """How often a container of the watcher or of the web pages had to be started again."""
        pods = await self._kube.list("Pod", self.cluster, "app.kubernetes.io/component in (watcher,web)")
        return sum(status["restartCount"] for pod in pods for status in pod["status"].get("containerStatuses", ()))

    async def _has_succeeded(self, name: str) -> bool:
        job = await self._kube.get("Job", self.cluster, name)
        return bool((job or {}).get("status", {}).get("succeeded"))

    async def _is_available(self, name: str) -> bool:
        found = await self._kube.get("Deployment", self.cluster, f"{ORIGINAL}-{name}")
        return bool((found or {}).get("status", {}).get("availableReplicas"))

    def _adapted(self, document: Document) -> Document:
        kind, metadata = document["kind"], document["metadata"]
        if RESOURCES[kind][2]:
            metadata["namespace"] = self.cluster
        elif kind != "Namespace" and metadata["name"] == ORIGINAL:
            metadata["name"] = self.cluster
            if "roleRef" in document:
                document["roleRef"]["name"] = self.cluster
        if kind == "Namespace":
            metadata["name"] = self.cluster
        for subject in document.get("subjects", ()):
            subject["namespace"] = self.cluster
        if kind == "ConfigMap":
            document["data"] |= self._settings()
        if kind in ("Deployment", "Job"):
            self._adapt_pods(document)
        return document

    def _adapt_pods(self, document: Document) -> None:
        if document["kind"] == "Deployment":
            document["spec"]["replicas"] = 1  # two heads of one archiver are another test's business
        for container in document["spec"]["template"]["spec"]["containers"]:
            container |= {
                "image": self._image,
                "imagePullPolicy": "Never" if self._connection.is_harness else "IfNotPresent",
            }
            container["resources"]["requests"] = {"cpu": "100m", "memory": "128Mi"}

    def _settings(self) -> dict[str, str]:
        """Values of this run, and the two variables that the release's image has and the harness' image lacks."""
        return {
            "ARCHIVER_CLUSTER": self.cluster,
            "ARCHIVER_STORE": f"s3://{self.bucket}",
            "ARCHIVER_S3_ENDPOINT": self._connection.s3.pod_endpoint,
            "ARCHIVER_S3_REGION": self._connection.s3.region,
            "ARCHIVER_HOME": "/var/lib/rayjob-archiver",
            "ARCHIVER_HOST": "0.0.0.0",
        }

    def _secret(self) -> Document:
        s3 = self._connection.s3
        values = {"database-url": self._database_url, "s3-access-key": s3.access_key, "s3-secret-key": s3.secret_key}
        metadata = {"name": ORIGINAL, "namespace": self.cluster}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}

    def _bucket_job(self, migrate: Document) -> Document:
        """`archiver bucket init` with the settings and the keys of the watcher, beside the migration."""
        job: Document = json.loads(json.dumps(migrate))
        job["metadata"]["name"] = "bucket"
        container = job["spec"]["template"]["spec"]["containers"][0]
        container |= {"name": "bucket", "args": ["bucket", "init"]}
        for key in ("s3-access-key", "s3-secret-key"):
            reference = {"secretKeyRef": {"name": ORIGINAL, "key": key}}
            container["env"].append({"name": f"ARCHIVER_{key.upper().replace('-', '_')}", "valueFrom": reference})
        return job


def on_database(dsn: str, name: str) -> str:
    """The same server's other database."""
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))
