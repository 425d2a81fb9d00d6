"""Judges an attempt from its offline bundle (``archiver.read.bundle`` has the layout): no bucket, no index, no cluster.

A bundle may come from a stranger: nothing is unpacked to disk, only paths that its table names are read, and of each no
more than fits into memory.
"""

import asyncio
import json
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from archiver.collect.explaining import judge
from archiver.collect.recalling import DOCUMENT_BYTES, STREAM_BYTES, recall
from archiver.core.manifest import Manifest, from_json
from archiver.core.objects import mapping
from archiver.diagnosis import Ruleset
from archiver.errors import DataError

_PIECE = 1 << 20
# what zipfile and the decompressors raise for damage, encryption and methods that they do not know
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError, ValueError)


def is_bundle(path: Path) -> bool:
    """Whether a file looks like a zip."""
    return zipfile.is_zipfile(path)


async def judge_bundle(path: Path, ruleset: Ruleset) -> Mapping[str, Any]:
    """The verdict document by this ruleset. Raises DataError for what is no bundle, or a damaged one."""
    with _opened(path) as archive:
        bundle = _Bundle(archive, path.name)
        manifest = await asyncio.to_thread(bundle.manifest)
        return await judge(await recall(manifest, bundle), ruleset, bundle.log)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(path)
    except _DAMAGE as error:
        raise DataError(f"{path.name} cannot be opened as a bundle: {error}") from error
    with archive:
        yield archive


class _Bundle:
    """The artifacts of the one attempt in a zip, by their names in the manifest."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._archive = archive
        self._name = name
        self._paths: dict[str, str] = {}

    def manifest(self) -> Manifest:
        """As it lies in the bucket, but that what the bundle has no file of counts as not saved."""
        files = mapping(self._table(), "files")
        self._paths = {name: path for name in files if isinstance(path := mapping(files, name).get("path"), str)}
        manifest = from_json(self._read("manifest.json"))
        artifacts = [each if each.name in self._paths else replace(each, key="") for each in manifest.artifacts]
        return replace(manifest, artifacts=tuple(artifacts))

    async def document(self, name: str) -> bytes:
        return await asyncio.to_thread(self._read, self._paths[name])

    async def newest(self, name: str) -> bytes:
        return await asyncio.to_thread(self._end, self._paths[name])

    async def log(self, _: str, name: str) -> AsyncIterator[bytes]:
        """In pieces, from its start."""
        pieces = self._pieces(self._paths[name])
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece

    def _table(self) -> Mapping[str, Any]:
        try:
            table = json.loads(self._read("bundle.json"))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{self._name}: bundle.json is not JSON: {error}") from error
        return table if isinstance(table, dict) else {}

    def _read(self, path: str) -> bytes:
        found = bytearray()
        for piece in self._pieces(path):
            found += piece
            if len(found) > DOCUMENT_BYTES:
                raise DataError(f"{self._name}: {path} is larger than {DOCUMENT_BYTES} bytes")
        return bytes(found)

    def _end(self, path: str) -> bytes:
        found = bytearray()
        for piece in self._pieces(path):
            found += piece
            if len(found) > 2 * STREAM_BYTES:
                del found[:-STREAM_BYTES]
        return bytes(found[-STREAM_BYTES:])

    def _pieces(self, path: str) -> Iterator[bytes]:
        try:
            with self._archive.open(path) as file:
                while piece := file.read(_PIECE):
                    yield piece
        except KeyError as error:
            raise DataError(f"{self._name} is no bundle of the archiver, or was cut: it has no {path}") from error
        except _DAMAGE as error:
            raise DataError(f"{self._name}: {path} is damaged: {error}") from error
