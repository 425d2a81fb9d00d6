"""The verdicts of an attempt as they lie in the bucket, one document a ruleset. Not judging, and not the index."""

import json
from collections.abc import Mapping
from typing import Any

from archiver.core import keys
from archiver.index.queries import StoredAttempt
from archiver.ports import ObjectStore

MAX_VERDICTS = 100


async def load_verdicts(store: ObjectStore, stored: StoredAttempt) -> tuple[Mapping[str, Any], ...]:
    """The manifest's own first, as what counts now; then the others, the one that was written last before older ones."""
    current = stored.manifest.verdict
    prefix = f"{stored.key.removesuffix(keys.manifest_key(''))}verdicts/"
    infos = [info async for info in store.list(prefix) if info.key.endswith(".json")]
    infos.sort(key=lambda info: (info.modified.timestamp() if info.modified else 0.0, info.key), reverse=True)
    found: list[Mapping[str, Any]] = [current] if current else []
    for info in infos[:MAX_VERDICTS]:
        document = _document(await store.get(info.key))
        if document is not None and document not in found and not _is_of(document, current):
            found.append(document)
    return tuple(found)


def _is_of(document: Mapping[str, Any], current: Mapping[str, Any] | None) -> bool:
    return current is not None and document.get("ruleset") == current.get("ruleset")


def _document(body: bytes | None) -> Mapping[str, Any] | None:
    try:
        document = json.loads(body or b"null")
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
