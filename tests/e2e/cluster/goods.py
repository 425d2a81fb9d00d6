"""Everything that must be built before anything is started: programs and images, each from the cache if it can be."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster import cache, commands, layers, programs
from tests.e2e.cluster import layout as at
from tests.e2e.cluster.components import Programs
from tests.e2e.cluster.images import Image, Layer
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.lock import held
from tests.e2e.cluster.phases import Phases

RAY_ENV = {"RAY_USAGE_STATS_ENABLED": "0", "HOME": "/root", "LANG": "C.UTF-8"}
ARCHIVER = ("python3", "-m", "archiver.cli")


@dataclass(frozen=True, slots=True)
class Goods:
    """Built programs, the operator's folder, and images by their short name."""

    programs: Programs
    operator: Path
    images: dict[str, Image]


def prepare(layout: Layout, kuberay: str, phases: Phases) -> Goods:
    """Build what the cache lacks: Go in one thread (it uses every core), Debian and Python in another (they wait)."""
    layout.cache.mkdir(parents=True, exist_ok=True)
    with held(layout.cache / "lock", wait_seconds=3600, say=phases.say), ThreadPoolExecutor(2) as pool:
        for folder in ("programs", "layers"):
            cache.prune(layout.cache / folder)
        built = pool.submit(_programs, layout, kuberay, phases)
        stacked = pool.submit(_stacks, layout, phases)
        try:
            node, s3, operator = built.result()
            images = stacked.result() | _from_scratch(layout, node, operator)
        except BaseException:
            commands.abort()
            raise
    return Goods(Programs(node, s3, Path("/usr/lib/cni"), postgres_folder()), operator, images)


def is_cold(layout: Layout) -> bool:
    return not list((layout.cache / "programs").glob("node-*"))


def postgres_folder() -> Path:
    """The newest Postgres that Debian installed."""
    return max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))


def _programs(layout: Layout, kuberay: str, phases: Phases) -> tuple[Path, Path, Path]:
    with phases.phase("build Kubernetes, containerd, CoreDNS, KubeRay 1.6"):
        node = programs.build(layout, "node")
    with phases.phase("build the S3 server"):
        s3 = programs.build(layout, "s3")
    if kuberay == "1.6":
        return node, s3, node
    with phases.phase(f"build KubeRay {kuberay}"):
        return node, s3, programs.operator(layout, kuberay)


def _stacks(layout: Layout, phases: Phases) -> dict[str, Image]:
    with phases.phase("Debian root file system"):
        base = layers.base(layout)
    images = {"base": Image(f"{at.REGISTRY}/base:1", (base,), command=("sleep", "infinity"))}
    for version in at.RAY:
        with phases.phase(f"Ray {version}"):
            layer = layers.ray(layout, version)
        images[f"ray-{version}"] = Image(f"{at.REGISTRY}/ray:{version}", (base, layer), env=RAY_ENV, workdir="/root")
    with phases.phase("the archiver's dependencies"):
        below = (base, layers.dependencies(layout))
    images["archiver"] = Image(f"{at.REGISTRY}/archiver:dev", (*below, layers.source(layout)), ARCHIVER, workdir="/app")
    return images | _extra(layout, base)


def _extra(layout: Layout, base: Layer) -> dict[str, Image]:
    """The hook for small images: images/NAME/files laid over Debian with Python, started as images/NAME/image.json says."""
    found = {}
    for description in sorted((layout.package / "images").glob("*/image.json")):
        name, content = description.parent.name, json.loads(description.read_text())
        layer = layers.tree(layout, description.parent / "files")
        entrypoint, command = (tuple(content.get(key, ())) for key in ("entrypoint", "command"))
        found[name] = Image(f"{at.REGISTRY}/{name}:dev", (base, layer), entrypoint, command, content.get("env", {}))
    return found


def _from_scratch(layout: Layout, node: Path, operator: Path) -> dict[str, Image]:
    pause = layers.program(layout, "pause", node / "pause")
    manager = layers.program(layout, "manager", operator / "ray-operator")
    return {
        "pause": Image(f"{at.REGISTRY}/pause:1", (pause,), ("/pause",)),
        "operator": Image(f"{at.REGISTRY}/kuberay-operator:dev", (manager,), ("/manager",)),
    }
