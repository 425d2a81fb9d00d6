"""What was built once is kept by a hash of all that it was built from; a build cut short leaves nothing that counts."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.e2e.cluster.errors import ClusterError

KEEP_UNUSED_SECONDS = 14 * 24 * 3600


def input_hash(*, texts: Iterable[str] = (), folders: Iterable[Path] = (), files: Iterable[Path] = ()) -> str:
    """Sixteen hex digits over texts, files and whole folders. Names within a folder count, places and times do not."""
    digest = hashlib.sha256()
    for text in texts:
        _feed(digest, "text", text.encode())
    for path in files:
        _feed(digest, path.name, path.read_bytes())
    for folder in folders:
        paths = sorted(candidate for candidate in folder.rglob("*") if _counts(candidate))
        if not paths:
            raise ClusterError(f"{folder} has no file, so there is nothing to build from")
        for path in paths:
            _feed(digest, path.relative_to(folder).as_posix(), path.read_bytes())
    return digest.hexdigest()[:16]


def _counts(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def _feed(digest: hashlib._Hash, name: str, content: bytes) -> None:
    digest.update(f"{len(name)}:{name}{len(content)}:".encode())
    digest.update(content)


def cached(folder: Path, name: str, key: str, build: Callable[[Path], None]) -> Path:
    """The folder `name-key`, made by `build(empty folder)` if it is not there. It appears whole or not at all."""
    kept = folder / f"{name}-{key}"
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder))
        try:
            build(fresh)
            fresh.chmod(0o755)
            fresh.rename(kept)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    os.utime(kept)
    return kept


def prune(folder: Path, *, now: float | None = None) -> list[Path]:
    """Remove what a killed build left and what no run used for two weeks. Call it with the cache locked."""
    limit = (time.time() if now is None else now) - KEEP_UNUSED_SECONDS
    gone = []
    for path in folder.iterdir() if folder.exists() else ():
        if path.is_dir() and (path.name.startswith(".") or path.stat().st_mtime < limit):
            shutil.rmtree(path, ignore_errors=True)
            gone.append(path)
    return gone
