"""What sets one attempt apart from another: spec, images, env, nodes, runtime_env, versions. Pure; logs are not here.

Values are compared as archived and shown masked: two secrets that differ differ here by their masks alone.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from archiver.core.manifest import Manifest
from archiver.core.redact_objects import redact_json

MAX_CHANGES = 500
MAX_CHARS = 2_000
_DEPTH = 40


class Aspect(StrEnum):
    """Which part of an attempt changed, in the order in which a person would look."""

    ENTRYPOINT = "entrypoint"
    IMAGE = "image"
    ENV = "env"
    RUNTIME_ENV = "runtime_env"
    VERSION = "version"
    NODES = "nodes"
    SPEC = "spec"
    CLUSTER = "raycluster"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs. ``before`` is the other attempt's, ``after`` this one's; None where it had none."""

    aspect: Aspect
    name: str
    before: str | None
    after: str | None


def changes(before: Manifest, after: Manifest) -> tuple[Change, ...]:
    """Most telling first, at most MAX_CHANGES."""
    found = [*_spec(before.spec, after.spec), *_records(before, after)]
    order = list(Aspect)
    found.sort(key=lambda change: order.index(change.aspect))
    return tuple(found[:MAX_CHANGES])


def cluster_changes(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, known: tuple[Change, ...]
) -> tuple[Change, ...]:
    """Of the RayClusters' specs, what the RayJobs' own specs do not tell already."""
    if not before or not after:
        return ()
    told = {(change.name, change.before, change.after) for change in known}
    rows = _compared(before, after)
    made = (_of_spec(path, old, new, Aspect.CLUSTER) for path, old, new in rows)
    return tuple(change for change in made if (change.name, change.before, change.after) not in told)[:MAX_CHANGES]


def _records(before: Manifest, after: Manifest) -> Iterator[Change]:
    """What was observed beside the spec."""
    for aspect, old, new in (
        (Aspect.IMAGE, before.images, after.images),
        (Aspect.VERSION, _products(before), _products(after)),
    ):
        for name in sorted(old.keys() | new.keys()):
            # a container that never started has no digest: that is no change of its image
            if name in old and name in new and old[name] != new[name]:
                label = f"image digest of {name}" if aspect is Aspect.IMAGE else name
                yield Change(aspect, label, _shown(old[name]), _shown(new[name]))
    if before.nodes and after.nodes and set(before.nodes) != set(after.nodes):
        yield Change(Aspect.NODES, "nodes", ", ".join(sorted(before.nodes)), ", ".join(sorted(after.nodes)))


def _products(manifest: Manifest) -> dict[str, str]:
    """Without the archiver's own version, which changes nothing for a job."""
    return {name: version for name, version in manifest.versions.items() if name.lower() != "archiver"}


def _spec(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for path, old, new in _compared(before, after):
        yield _of_spec(path, old, new, Aspect.SPEC)


def _compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    # masking tells a secret by its name, and flattening takes the name apart: so mask first
    old, new = dict(_flat(redact_json(before))), dict(_flat(redact_json(after)))
    for path in sorted(old.keys() | new.keys()):
        if old.get(path) != new.get(path):
            yield path, old.get(path), new.get(path)


_ENV = re.compile(r"\.env\[([^\]]*)\]\.value(?:From)?(?:\.|$)")


def _of_spec(path: str, old: Any, new: Any, otherwise: Aspect) -> Change:
    env = _ENV.search(path)
    aspect, name = otherwise, path
    if env:
        aspect, name = Aspect.ENV, f"env {env[1]}"
    elif path == "entrypoint":
        aspect = Aspect.ENTRYPOINT
    elif path.startswith("runtimeEnvYAML"):
        aspect, name = Aspect.RUNTIME_ENV, "runtime_env"
    elif path.endswith(".image"):
        aspect = Aspect.IMAGE
    return Change(aspect, name, _shown(old), _shown(new))


def _flat(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Leaves with their paths; an empty list is none. Items are called by their name, as Kubernetes merges them."""
    if isinstance(value, Mapping) and value and depth < _DEPTH:
        for key, each in value.items():
            yield from _flat(each, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list | tuple) and value and depth < _DEPTH:
        for index, each in enumerate(value):
            yield from _flat(each, f"{path}[{_item(each, index)}]", depth + 1)
    elif not path.endswith("].name") and value != []:
        yield path, value


def _item(item: Any, index: int) -> str:
    named = (item.get(key) for key in ("name", "groupName", "mountPath", "key")) if isinstance(item, Mapping) else ()
    return next((name for name in named if isinstance(name, str) and name), str(index))


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"
