"""All manifests of a bucket, and work on many things a few at a time. What is done with them is in the audits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from archiver.core import keys, people
from archiver.core.manifest import Manifest, from_json
from archiver.errors import DataError
from archiver.ports import ObjectStore

T = TypeVar("T")
_MANIFEST = keys.manifest_key("")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. ``key`` is the object's key, or a row's manifest key."""

    key: str
    problem: str


async def manifest_keys(store: ObjectStore, prefix: str) -> AsyncIterator[str]:
    """Keys of all manifests below a prefix, in key order."""
    async for key in record_keys(store, prefix):
        if is_manifest_key(key):
            yield key


async def record_keys(store: ObjectStore, prefix: str) -> AsyncIterator[str]:
    """Keys of all manifests, and of what people said of their attempts, in key order: one pass over the bucket."""
    root = f"{prefix}/{keys.LAYOUT}/".lstrip("/")
    async for info in store.list(root):
        if not info.key.endswith(".json"):
            continue
        parsed = keys.parse(info.key, prefix)
        is_record = parsed is not None and parsed.attempt is not None and parsed.name == _MANIFEST
        if is_record or people.is_feedback_key(info.key, prefix):
            yield info.key


def is_manifest_key(key: str) -> bool:
    """Of the keys that ``record_keys`` gives."""
    return key.endswith(f"/{_MANIFEST}")


async def load_manifest(store: ObjectStore, key: str) -> Manifest | Finding | None:
    """None where it is gone; a finding where it cannot be understood."""
    body = await store.get(key)
    if body is None:
        return None
    try:
        return from_json(body)
    except DataError as error:
        return Finding(key, str(error))


async def for_each(items: AsyncIterator[T], work: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
    """Works on all items, ``at_once`` at a time, without reading ahead. The first error ends it."""
    queue: asyncio.Queue[T | None] = asyncio.Queue(maxsize=1)

    async def worker() -> None:
        while (item := await queue.get()) is not None:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for number in range(at_once):
            group.create_task(worker(), name=f"audit-{number}")
        async for item in items:
            await queue.put(item)
        for _ in range(at_once):
            await queue.put(None)


async def batched(items: AsyncIterator[T], size: int) -> AsyncIterator[list[T]]:
    """Lists of ``size`` items, the last one shorter."""
    batch: list[T] = []
    async for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
