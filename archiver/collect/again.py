"""Judges an archived attempt once more, from the bucket. What it may see is made again by ``recalling``."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from archiver.collect.excerpt import read_excerpt
from archiver.collect.explaining import Explainer
from archiver.collect.recalling import DOCUMENT_BYTES, STREAM_BYTES, recall
from archiver.core import keys
from archiver.core.manifest import Manifest
from archiver.diagnosis import Ruleset
from archiver.errors import DataError
from archiver.ports import ObjectStore
from archiver.store.codec import ZstdCodec, decompress_all
from archiver.store.reader import LogReader


class Again:
    """One for all attempts. ``judge`` raises the StoreError tree and DataError for evidence that is gone or damaged."""

    at_once = 4  # reads overlap; the judging itself takes one core

    def __init__(self, ruleset: Ruleset, store: ObjectStore) -> None:
        self._store = store
        self._reader = LogReader(store, ZstdCodec())
        self._explainer = Explainer(ruleset, store, self._log)

    @property
    def ruleset(self) -> str:
        return self._explainer.ruleset

    async def judge(self, manifest: Manifest, prefix: str) -> Mapping[str, Any]:
        """The verdict document by the ruleset of now. Writes nothing."""
        kept = _Stored(self._store, self._reader, prefix)
        return await self._explainer.judge(await recall(manifest, kept, prefix=prefix))

    async def keep(self, prefix: str, document: Mapping[str, Any]) -> None:
        """Writes a verdict beside the evidence."""
        await self._explainer.keep(prefix, document)

    async def _log(self, prefix: str, name: str) -> AsyncIterator[bytes]:
        key = keys.artifact_key(prefix, name)
        # a verdict that a log is missing from would replace one that had seen it
        if await self._reader.read_index(key) is None:
            raise DataError(f"{name} is listed, and is gone")
        async for piece in read_excerpt(self._reader, key):
            yield piece


class _Stored:
    """The artifacts of one attempt in the bucket."""

    def __init__(self, store: ObjectStore, reader: LogReader, prefix: str) -> None:
        self._store = store
        self._reader = reader
        self._prefix = prefix

    async def document(self, name: str) -> bytes:
        body = await self._store.get(keys.artifact_key(self._prefix, name))
        if body is None:
            raise DataError(f"{name} is listed, and is gone")
        return decompress_all(body, DOCUMENT_BYTES)

    async def newest(self, name: str) -> bytes:
        key = keys.artifact_key(self._prefix, name)
        index = await self._reader.read_index(key)
        text = (
            await self._reader.read_bytes(key, max(0, index.raw_bytes - STREAM_BYTES), STREAM_BYTES) if index else None
        )
        if text is None:
            raise DataError(f"{name} is listed, and is gone")
        return text
