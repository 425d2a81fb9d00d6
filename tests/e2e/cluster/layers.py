"""Layers from package registries: a Debian root file system, Ray, the archiver's dependencies and its source.

Debian comes from the machine's own apt sources, Python packages from its own pip configuration.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

from tests.e2e.cluster.cache import cached, input_hash
from tests.e2e.cluster.commands import run, run_caged
from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.images import Layer, pack, read_layer
from tests.e2e.cluster.layout import Layout

PACKAGES = ("ca-certificates", "procps", "python3", "wget")
UNNEEDED = ("dev", "usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache/apt", "var/lib/apt/lists")
SITE = "usr/local/lib/{python}/dist-packages"
SOURCE_FOLDERS = ("archiver", "web", "migrations")
# Byte code for the image's own interpreter, in a mount namespace that ends with the command.
COMPILE = """
set -e
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2,workdir=$3" "$4"
chroot "$4" python3 -m compileall -q -j 2 usr/local/lib || true  # some packages ship files for other Python versions
"""


def debian_mirror(index_targets: str, suite: str) -> str:
    """The first apt source of `suite`'s main component, from lines of `url|suite|component`."""
    for line in index_targets.splitlines():
        url, release, component = (*line.split("|"), "", "")[:3]
        if (release, component) == (suite, "main"):
            return url
    raise ClusterError(f"apt has no source for {suite}/main, so there is nothing to make a root file system from")


def debian_suite(os_release: str) -> str:
    """The code name of the running Debian, from the text of /etc/os-release."""
    found = re.search(r"^VERSION_CODENAME=\"?(\w+)", os_release, re.MULTILINE)
    if not found:
        raise ClusterError("/etc/os-release names no VERSION_CODENAME: the images are made of the machine's own Debian")
    return found[1]


def base_folder(layout: Layout) -> Path:
    """The unpacked root file system with Python: `root/` inside the returned folder, packed as `layer.tar`."""
    suite = debian_suite(Path("/etc/os-release").read_text())
    return cached(
        layout.cache / "layers", "base", input_hash(texts=(suite, *PACKAGES, "1")), lambda to: _bootstrap(suite, to)
    )


def _bootstrap(suite: str, target: Path) -> None:
    lines = run("apt-get", "indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(COMPONENT)", "Created-By: Packages")
    root = target / "root"
    options = ("--variant=minbase", f"--include={','.join(PACKAGES)}")
    run_caged("debootstrap", *options, suite, str(root), debian_mirror(lines, suite))
    for folder in UNNEEDED:
        shutil.rmtree(root / folder, ignore_errors=True)
        (root / folder).mkdir(parents=True)
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    pack(root, target / "layer.tar")


def python_name(root: Path) -> str:
    """`python3.11`: the interpreter of a root file system."""
    names = sorted(
        path.name for path in (root / "usr/bin").glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name)
    )
    if not names:
        raise ClusterError(f"{root} has no Python")
    return names[-1]


def base(layout: Layout) -> Layer:
    return read_layer(base_folder(layout) / "layer.tar")


def ray(layout: Layout, version: str) -> Layer:
    """Ray with its dashboard, by the committed list of exact versions."""
    scripts = {"ray": "from ray.scripts.scripts import main"}
    return _packages(layout, f"ray-{version}", layout.build / f"ray/{version}.txt", scripts, "--no-deps")


def dependencies(layout: Layout) -> Layer:
    """What the archiver needs, by the project's lock file."""
    return _packages(layout, "dependencies", layout.root / "requirements.lock", {}, "--require-hashes")


def _packages(layout: Layout, name: str, requirements: Path, scripts: dict[str, str], *options: str) -> Layer:
    lower = base_folder(layout)
    key = input_hash(texts=(lower.name, COMPILE, str(scripts), *options), files=(requirements,))

    def build(target: Path) -> None:
        upper = target / "upper"
        _install(lower / "root", upper, requirements, options)
        for script, line in scripts.items():
            _script(upper / "usr/local/bin" / script, line)
        _compile(lower / "root", target)
        pack(upper, target / "layer.tar")
        shutil.rmtree(upper)

    return read_layer(cached(layout.cache / "layers", name, key, build) / "layer.tar")


def _install(root: Path, upper: Path, requirements: Path, options: tuple[str, ...]) -> None:
    python = python_name(root)
    site = upper / SITE.format(python=python)
    site.mkdir(parents=True)
    wheels = ("--only-binary=:all:", "--python-version", python.removeprefix("python"), "--implementation", "cp")
    quiet = ("--no-compile", "--no-input", "--disable-pip-version-check", "--quiet")
    pip = (sys.executable, "-m", "pip", "install", "--target", str(site))
    run_caged(*pip, *quiet, *wheels, *options, "-r", str(requirements))


def _script(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/python3\n{line}\n\nmain()\n")
    path.chmod(0o755)


def _compile(lower: Path, target: Path) -> None:
    work, root = target / "work", target / "root"
    work.mkdir()
    root.mkdir()
    arguments = [str(folder) for folder in (lower, target / "upper", work, root)]
    run_caged("sh", "-c", COMPILE, "compile", *arguments)
    shutil.rmtree(work)
    root.rmdir()


def source(layout: Layout) -> Layer:
    """The project itself under /app, with the metadata that an installed package would have."""
    folders = [layout.root / name for name in SOURCE_FOLDERS if (layout.root / name).is_dir()]
    project = layout.root / "pyproject.toml"
    python = python_name(base_folder(layout) / "root")
    key = input_hash(texts=(python, *(folder.name for folder in folders)), folders=folders, files=(project,))

    def build(target: Path) -> None:
        upper = target / "upper"
        ignore = shutil.ignore_patterns("__pycache__")
        for folder in folders:
            shutil.copytree(folder, upper / "app" / folder.name, ignore=ignore)
        _metadata(upper / SITE.format(python=python), tomllib.loads(project.read_text())["project"])
        _script(upper / "usr/local/bin/archiver", "from archiver.cli import main")
        pack(upper, target / "layer.tar")
        shutil.rmtree(upper)

    return read_layer(cached(layout.cache / "layers", "source", key, build) / "layer.tar")


def _metadata(site: Path, project: dict[str, Any]) -> None:
    name, version = project["name"], project["version"]
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (site / f"{name}.pth").write_text("/app\n")


def tree(layout: Layout, folder: Path) -> Layer:
    """A folder of this repository as it is."""
    key = input_hash(
        folders=(folder,), texts=(str(sorted(p.name for p in folder.rglob("*") if p.stat().st_mode & 0o100)),)
    )

    def build(target: Path) -> None:
        pack(folder, target / "layer.tar")

    return read_layer(cached(layout.cache / "layers", folder.parent.name, key, build) / "layer.tar")


def program(layout: Layout, name: str, path: Path) -> Layer:
    """One static program at the root of an image from scratch."""

    def build(target: Path) -> None:
        (target / "upper").mkdir()
        shutil.copy2(path, target / "upper" / name)
        (target / "upper" / name).chmod(0o755)
        pack(target / "upper", target / "layer.tar")

    return read_layer(cached(layout.cache / "layers", name, path.parent.name, build) / "layer.tar")
