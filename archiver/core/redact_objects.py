"""Masks secrets in JSON documents of Kubernetes and Ray: values under names that promise one, and in every text.

``managedFields`` are dropped: they say nothing about the object and name every field that was ever set.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from archiver.core.redact_rules import mask
from archiver.core.redact_text import mask_text
from archiver.core.secret_names import is_secret_name, is_secret_value

# JSON within a string: read, masked inside, written again
_NESTED = {
    "kubectl.kubernetes.io/last-applied-configuration",
    "serialized_runtime_env",
    "serializedRuntimeEnv",
    "runtimeEnv",
    "RAY_JOB_CONFIG_JSON_ENV_VAR",
}
_FIELD = mask("secret-field").decode()


def redact_json(obj: Any) -> Any:
    """A masked copy."""
    return redact_json_counted(obj)[0]


def redact_json_counted(obj: Any) -> tuple[Any, Counter[str]]:
    """A masked copy, and how many secrets by rule."""
    counts: Counter[str] = Counter()
    return _value(obj, counts), counts


def _value(value: Any, counts: Counter[str]) -> Any:
    if isinstance(value, Mapping):
        return _mapping(value, counts)
    if isinstance(value, (list, tuple)):
        return [_value(item, counts) for item in value]
    return _text(value, counts) if isinstance(value, str) else value


def _mapping(obj: Mapping[str, Any], counts: Counter[str]) -> dict[str, Any]:
    if obj.get("kind") == "Secret":
        return _secret(obj, counts)
    name, value = obj.get("name"), obj.get("value")
    if isinstance(name, str) and isinstance(value, str):
        # an entry of a container's env
        return {key: _field(name if key == "value" else key, each, counts) for key, each in obj.items()}
    return {key: _field(key, each, counts) for key, each in obj.items() if key != "managedFields"}


def _secret(obj: Mapping[str, Any], counts: Counter[str]) -> dict[str, Any]:
    rest = {
        key: _value(each, counts) for key, each in obj.items() if key not in ("data", "stringData", "managedFields")
    }
    for field in ("data", "stringData"):
        if isinstance(obj.get(field), Mapping):
            rest[field] = dict.fromkeys(obj[field], _FIELD)
            counts["secret-field"] += len(obj[field])
    return rest


def _field(name: str, value: Any, counts: Counter[str]) -> Any:
    if not isinstance(value, str):
        return _value(value, counts)
    if name in _NESTED:
        return _nested(value, counts)
    if is_secret_value(name, value) or (is_secret_name(name) and value.strip().isdigit()):
        counts["secret-field"] += 1
        return _FIELD
    return _text(value, counts)


def _nested(value: str, counts: Counter[str]) -> str:
    try:
        document = json.loads(value)
    except ValueError:
        return _text(value, counts)
    return json.dumps(_value(document, counts), separators=(",", ":"), ensure_ascii=False)


def _text(value: str, counts: Counter[str]) -> str:
    masked, found = mask_text(value.encode(errors="surrogatepass"))
    if not found:
        return value
    counts.update(found)
    return masked.decode(errors="surrogatepass")
