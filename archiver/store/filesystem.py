"""Objects as files below a folder: the embedded default. Not for several machines.

A write goes to a temporary file, is synced and renamed, so that a reader or a crash sees the whole object or none.
"""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import ParamSpec, TypeVar
from uuid import uuid4

from archiver.errors import DataError, StoreConflict, StoreDenied, StoreError, StoreNoBucket, StoreUnavailable
from archiver.ports import ObjectInfo

_COPY_BYTES = 1024 * 1024
_TEMPORARY = ".tmp"
P = ParamSpec("P")
R = TypeVar("R")


class FilesystemStore:
    """An ObjectStore over a folder, which is made where it is missing. Keys are checked: nothing escapes the folder."""

    def __init__(self, root: Path, *, page_keys: int = 1000) -> None:
        self._root = root
        self._page_keys = page_keys
        self._temporary = root / _TEMPORARY

    async def put(self, key: str, body: bytes, *, if_absent: bool = False) -> ObjectInfo:
        """See ObjectStore."""
        return await asyncio.to_thread(self._guard, self._put, key, [body], if_absent)

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes | None:
        """See ObjectStore."""
        return await asyncio.to_thread(self._guard, self._get, key, start, length)

    async def head(self, key: str) -> ObjectInfo | None:
        """See ObjectStore."""
        return await asyncio.to_thread(self._guard, self._head, key)

    async def list(self, prefix: str, *, after: str = "") -> AsyncIterator[ObjectInfo]:
        """See ObjectStore."""
        found = self._walk(self._root, "", prefix, after)
        while page := await asyncio.to_thread(self._guard, _take, found, self._page_keys):
            for info in page:
                yield info

    async def compose(self, sources: Sequence[str], key: str, *, tail: bytes = b"") -> ObjectInfo:
        """See ObjectStore."""
        return await asyncio.to_thread(self._guard, self._put, key, self._contents(sources, tail), False)

    async def delete(self, keys: Sequence[str]) -> None:
        """See ObjectStore."""
        await asyncio.to_thread(self._guard, self._delete, keys)

    def _guard(self, step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return step(*args, **kwargs)
        except OSError as error:
            raise _translate(error, self._root) from error

    def _put(self, key: str, pieces: Iterable[bytes], if_absent: bool) -> ObjectInfo:
        path = self._path(key)
        self._temporary.mkdir(parents=True, exist_ok=True)
        temporary = self._temporary / uuid4().hex
        try:
            with temporary.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            path.parent.mkdir(parents=True, exist_ok=True)
            if if_absent:
                os.link(temporary, path)
            else:
                temporary.replace(path)
            _sync_folder(path.parent)
        except FileExistsError as error:
            if if_absent and path.exists():
                raise StoreConflict(f"{key} is there already") from error
            raise
        finally:
            temporary.unlink(missing_ok=True)
        return _info(key, path.stat())

    def _contents(self, sources: Sequence[str], tail: bytes) -> Iterator[bytes]:
        for source in sources:
            path = self._path(source)
            if not path.is_file():
                raise DataError(f"cannot compose: {source} is not there")
            with path.open("rb") as file:
                while piece := file.read(_COPY_BYTES):
                    yield piece
        yield tail

    def _get(self, key: str, start: int, length: int | None) -> bytes | None:
        path = self._path(key)
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError), path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size + start) if start < 0 else start)
            return file.read() if length is None else file.read(length)
        return None

    def _head(self, key: str) -> ObjectInfo | None:
        path = self._path(key)
        with suppress(FileNotFoundError, NotADirectoryError):
            return _info(key, path.stat()) if path.is_file() else None
        return None

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            path = self._path(key)
            with suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
            self._prune(path.parent)

    def _prune(self, folder: Path) -> None:
        """Takes folders away that became empty; one that is filled at this moment stays."""
        while folder != self._root:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent

    def _walk(self, folder: Path, base: str, prefix: str, after: str) -> Iterator[ObjectInfo]:
        """Key order, folder by folder: only those are entered that can hold keys of the prefix."""
        for name, entry in sorted(_entries(folder)):
            key = base + name
            if base == "" and name == f"{_TEMPORARY}/":
                continue
            if name.endswith("/"):
                if (key.startswith(prefix) or prefix.startswith(key)) and not _is_before(key, after):
                    yield from self._walk(folder / entry, key, prefix, after)
            elif key.startswith(prefix) and key > after:
                with suppress(FileNotFoundError):
                    yield _info(key, (folder / entry).stat())

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if not key or any(part in ("", ".", "..") or "\0" in part for part in parts) or parts[0] == _TEMPORARY:
            raise StoreError(f"not a key that can be a file: {key!r}")
        return self._root.joinpath(*parts)


def _take(found: Iterator[ObjectInfo], count: int) -> list[ObjectInfo]:
    return list(islice(found, count))


def _entries(folder: Path) -> list[tuple[str, str]]:
    """Names as they sort within keys: a folder's with its slash."""
    try:
        with os.scandir(folder) as entries:
            return [(entry.name + "/" if entry.is_dir() else entry.name, entry.name) for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_before(folder_key: str, after: str) -> bool:
    """Every key of the folder comes before ``after`` or is it."""
    return folder_key < after and not after.startswith(folder_key)


def _info(key: str, stat: os.stat_result) -> ObjectInfo:
    etag = f"{stat.st_ino:x}-{stat.st_mtime_ns:x}-{stat.st_size:x}"
    return ObjectInfo(key, stat.st_size, etag, datetime.fromtimestamp(stat.st_mtime, UTC))


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _translate(error: OSError, root: Path) -> StoreError:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreDenied(
            f"the store's folder {root} refuses: {error.strerror}; give the process the right to write there"
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE):
        return StoreUnavailable(f"the store's folder {root} takes nothing now: {error.strerror}")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return StoreNoBucket(f"the store's folder {root} cannot be made: {error.strerror}")
    return StoreError(f"the store's folder {root}: {error}")
