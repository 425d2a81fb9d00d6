"""How tests reach a cluster: the one of this harness, or any other by KUBECONFIG and a few variables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.e2e.cluster.errors import NotRunning
from tests.e2e.cluster.layout import BUCKET, GPU_RESOURCE, Layout

PREFIX = "ARCHIVER_E2E_"
NEEDED = ("S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY", "POSTGRES_DSN", "IMAGES")


@dataclass(frozen=True, slots=True)
class S3:
    """An S3 endpoint as the tests and as the pods reach it."""

    endpoint: str
    pod_endpoint: str
    access_key: str
    secret_key: str
    bucket: str
    region: str = "us-east-1"


@dataclass(frozen=True, slots=True)
class Postgres:
    """A database as the tests and as the pods reach it."""

    dsn: str
    pod_dsn: str


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster to test on. `images` maps `archiver`, `base`, `ray-<version>` and extra names to image references."""

    kubeconfig: Path
    kubeconfig_norights: Path | None
    s3: S3
    postgres: Postgres
    images: dict[str, str]
    gpu_resource: str
    is_harness: bool
    kuberay: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "kubeconfig": str(self.kubeconfig),
            "kubeconfig_norights": str(self.kubeconfig_norights or ""),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Connection:
        """The inverse of to_json; unknown keys are ignored."""
        return cls(
            kubeconfig=Path(document["kubeconfig"]),
            kubeconfig_norights=Path(norights) if (norights := document["kubeconfig_norights"]) else None,
            s3=S3(**document["s3"]),
            postgres=Postgres(**document["postgres"]),
            images=dict(document["images"]),
            gpu_resource=document["gpu_resource"],
            is_harness=document["is_harness"],
            kuberay=document["kuberay"],
        )


def connect(layout: Layout | None = None, environ: Mapping[str, str] | None = None) -> Connection:
    """The cluster of KUBECONFIG if that is set, else the running harness. NotRunning says what to do."""
    layout = layout or Layout.here()
    environ = os.environ if environ is None else environ
    named = environ.get("KUBECONFIG")
    if named and Path(named).resolve() != layout.kubeconfig:
        return _foreign(Path(named), environ)
    if not layout.env.exists():
        raise NotRunning("no cluster runs here; start one with `make cluster`, or set KUBECONFIG to use another")
    return Connection.from_json(json.loads(layout.env.read_text())["connection"])


def _foreign(kubeconfig: Path, environ: Mapping[str, str]) -> Connection:
    given = {name.removeprefix(PREFIX): value for name, value in environ.items() if name.startswith(PREFIX) and value}
    absent = [PREFIX + name for name in NEEDED if name not in given]
    if absent:
        raise NotRunning(f"KUBECONFIG names {kubeconfig}, but {', '.join(absent)} must say what to test with it")
    norights = given.get("KUBECONFIG_NORIGHTS")
    return Connection(
        kubeconfig=kubeconfig,
        kubeconfig_norights=Path(norights) if norights else None,
        s3=S3(
            endpoint=given["S3_ENDPOINT"],
            pod_endpoint=given.get("S3_POD_ENDPOINT", given["S3_ENDPOINT"]),
            access_key=given["S3_ACCESS_KEY"],
            secret_key=given["S3_SECRET_KEY"],
            bucket=given.get("S3_BUCKET", BUCKET),
            region=given.get("S3_REGION", "us-east-1"),
        ),
        postgres=Postgres(given["POSTGRES_DSN"], given.get("POSTGRES_POD_DSN", given["POSTGRES_DSN"])),
        images=_pairs(given["IMAGES"]),
        gpu_resource=given.get("GPU_RESOURCE", GPU_RESOURCE),
        is_harness=False,
        kuberay=given.get("KUBERAY", ""),
    )


def _pairs(text: str) -> dict[str, str]:
    """`archiver=REF,ray-2.52.1=REF` as a mapping."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    return {name.strip(): reference.strip() for name, _, reference in pairs}
