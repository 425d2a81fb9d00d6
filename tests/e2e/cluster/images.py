"""Images without a registry and without Docker: layers are tar files, an archive of several images is a stream of them.

Only the format lives here; `layers` makes the content.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

BUFFER_BYTES = 1 << 16
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Layer:
    """An uncompressed tar file and its digest (hex SHA-256 of the file)."""

    tar: Path
    digest: str


@dataclass(frozen=True, slots=True)
class Image:
    """A name with its tag, layers from the lowest to the topmost, and how a container of it starts."""

    name: str
    layers: tuple[Layer, ...]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"

    def config(self) -> bytes:
        """The OCI image configuration; its digest is the image's id."""
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        document = {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {
                "Env": [f"{name}={value}" for name, value in ({"PATH": path} | self.env).items()],
                "Entrypoint": list(self.entrypoint),
                "Cmd": list(self.command),
                "WorkingDir": self.workdir,
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in self.layers]},
        }
        return json.dumps(document, sort_keys=True).encode()

    @property
    def id(self) -> str:
        return hashlib.sha256(self.config()).hexdigest()


def write_archive(images: list[Image], out: IO[bytes]) -> None:
    """Stream a docker-archive: the index, the configurations, then each layer once."""
    with tarfile.open(fileobj=out, mode="w|", bufsize=BUFFER_BYTES) as archive:
        index = [
            {
                "Config": f"{image.id}.json",
                "RepoTags": [image.name],
                "Layers": [f"{layer.digest}/layer.tar" for layer in image.layers],
            }
            for image in images
        ]
        _add(archive, "manifest.json", json.dumps(index).encode())
        for image in images:
            _add(archive, f"{image.id}.json", image.config())
        for layer in {layer.digest: layer for image in images for layer in image.layers}.values():
            archive.add(layer.tar, f"{layer.digest}/layer.tar", recursive=False)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def pack(folder: Path, tar: Path) -> Layer:
    """One layer from a folder, sorted, so that the same content gives the same digest."""
    with tarfile.open(tar, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, path.relative_to(folder).as_posix(), recursive=False, filter=_whole_seconds)
    return read_layer(tar)


def _whole_seconds(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = int(entry.mtime)  # a fraction of a second would cost a header of its own for each file
    return entry


def read_layer(tar: Path) -> Layer:
    """The layer of an existing tar file; the digest is kept beside it."""
    kept = tar.with_suffix(".sha256")
    if not kept.exists():
        with tar.open("rb") as file:
            kept.write_text(hashlib.file_digest(file, "sha256").hexdigest())
    return Layer(tar, kept.read_text())
