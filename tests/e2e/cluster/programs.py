"""Builds the Go programs of the cluster from the pinned modules under build/, and finds the operator's own manifests."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.e2e.cluster import layout as at
from tests.e2e.cluster.cache import cached, input_hash
from tests.e2e.cluster.commands import run, run_caged
from tests.e2e.cluster.layout import Layout

OPERATOR_MODULE = "github.com/ray-project/kuberay/ray-operator"
VERSION = "k8s.io/component-base/version"
MAJOR, MINOR, _ = at.KUBERNETES.split(".")
# No debugging tables in compiler and linker: a fifth of the compile time for something that no test looks at.
FLAGS = (
    "-trimpath",
    "-gcflags=all=-dwarf=false",
    "-tags=no_btrfs,no_zfs,no_devmapper,no_tracing",
    f"-ldflags=-s -w -X {VERSION}.gitVersion=v{at.KUBERNETES} -X {VERSION}.gitMajor={MAJOR} -X {VERSION}.gitMinor={MINOR}",
)
# The default operator is part of the node's module: one build compiles the packages that both need once.
MODULES = {
    "node": ("./...", OPERATOR_MODULE),
    "s3": ("./...",),
    "kuberay-1.5": (OPERATOR_MODULE,),
    "kuberay-1.4": (OPERATOR_MODULE,),
}


def build(layout: Layout, module: str) -> Path:
    """The folder with the programs of build/`module`; for a module with the operator also `crds/` and `rbac/`."""
    source = layout.build / module
    key = input_hash(
        texts=(run("go", "env", "GOVERSION", "GOOS", "GOARCH"), *FLAGS, *MODULES[module]), folders=(source,)
    )
    return cached(layout.cache / "programs", module, key, lambda target: _compile(layout, module, target))


def operator(layout: Layout, version: str) -> Path:
    """The folder with `ray-operator`, `crds/` and `rbac/` of KubeRay `version` (1.6, 1.5, 1.4)."""
    return build(layout, "node" if version == "1.6" else f"kuberay-{version}")


def _compile(layout: Layout, module: str, target: Path) -> None:
    source = layout.build / module
    env = {
        "CGO_ENABLED": "0",
        "GOCACHE": str(layout.go_build_cache),
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOWORK": "off",
    }
    run_caged("go", "build", *FLAGS, "-o", f"{target}/", *MODULES[module], cwd=source, env=env)
    if (target / "shim").exists():
        (target / "shim").rename(target / "containerd-shim-runc-v2")
    if OPERATOR_MODULE in MODULES[module]:
        folder = Path(run("go", "list", "-m", "-f", "{{.Dir}}", OPERATOR_MODULE, cwd=source, env=env).strip())
        for name, place in (("crds", "config/crd/bases"), ("rbac", "config/rbac")):
            shutil.copytree(folder / place, target / name)
            (target / name).chmod(0o755)
