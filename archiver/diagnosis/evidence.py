"""What a diagnosis may see: status, pods, events, nodes, Ray's own records and log sources. Not where it comes from."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from archiver.diagnosis.shape import as_list, as_map, as_text, maps

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class LogSource:
    """One log: a function that gives its bytes from the start in chunks of any size."""

    chunks: Callable[[], Iterable[bytes]]
    is_complete: bool = True

    @classmethod
    def from_text(cls, text: str | bytes, *, is_complete: bool = True) -> "LogSource":
        """A log that is already in memory."""
        raw = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
        return cls(lambda: (raw,), is_complete)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything known of one attempt. Each part may be absent; absence is said in the verdict."""

    rayjob_status: Json | None = None
    rayjob_spec: Json | None = None
    pods: tuple[Json, ...] = ()
    k8s_events: tuple[Json, ...] = ()
    node_conditions: tuple[Json, ...] = ()
    ray: Json = field(default_factory=dict)
    workloads: tuple[Json, ...] = ()
    logs: Mapping[str, LogSource] = field(default_factory=dict)
    id: str = ""

    @classmethod
    def from_case(cls, case: object) -> "Evidence":
        """From the shared case format, whole or its `evidence` block; what is malformed reads as absent."""
        outer = as_map(case)
        block = as_map(outer.get("evidence")) if "evidence" in outer else outer
        return cls(
            rayjob_status=as_map(block.get("rayjob_status")) or None,
            rayjob_spec=as_map(block.get("rayjob_spec")) or None,
            pods=tuple(maps(block.get("pods"))),
            k8s_events=tuple(maps(block.get("k8s_events"))),
            node_conditions=_nodes(block.get("node_conditions")),
            ray=as_map(block.get("ray")),
            workloads=tuple(maps(block.get("workloads"))),
            logs=_logs(block.get("logs")),
            id=as_text(outer.get("id")),
        )


def _logs(value: object) -> dict[str, LogSource]:
    if isinstance(value, str | bytes):
        return {"log": LogSource.from_text(value)}
    named = as_map(value) or {f"log-{number}": item for number, item in enumerate(as_list(value), 1)}
    texts = {as_text(name) or "log": _log_text(text) for name, text in named.items()}
    return {name: LogSource.from_text(text) for name, text in texts.items() if text}


def _log_text(value: object) -> str | bytes:
    if isinstance(value, str | bytes):
        return value
    return "\n".join(as_text(item) for item in as_list(value))


def _nodes(value: object) -> tuple[Json, ...]:
    """A list of conditions, or node name → conditions (a list or one mapping)."""
    if not isinstance(value, Mapping):
        return tuple(maps(value))
    if "type" in value or "conditions" in value:
        return (value,)
    found: list[Json] = []
    for node, conditions in value.items():
        items = [conditions] if isinstance(conditions, Mapping) else list(maps(conditions))
        found.extend({"node": as_text(node), **item} for item in items)
    return tuple(found)
