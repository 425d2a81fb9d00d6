"""A scenario as data: one YAML file. Unknown keys are refused, so that a misspelt expectation cannot hold by accident."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import yaml

FOLDER = Path(__file__).parent


class ScenarioError(ValueError):
    """A scenario file that breaks the format; the text names file and key."""


class _Shape:
    @classmethod
    def of(cls, document: Mapping[str, Any], where: str) -> Self:
        known = {one.name for one in fields(cls)}  # type: ignore[arg-type]
        unknown = sorted(set(document) - known)
        if unknown:
            raise ScenarioError(f"{where}: unknown key {unknown[0]}; known are {', '.join(sorted(known))}")
        return cls(**document)


@dataclass(frozen=True, slots=True)
class Workers(_Shape):
    """One worker group. `gpus` are of the cluster's GPU resource, for each of them."""

    replicas: int = 1
    gpus: int = 0
    memory: str = "1Gi"
    resources: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Act(_Shape):
    """Something done from outside as soon as `when` holds (see acts.py); `seconds` bound the wait."""

    do: str
    when: dict[str, Any] = field(default_factory=dict)
    seconds: float = 420.0


@dataclass(frozen=True, slots=True)
class Expected(_Shape):
    """What must be archived of one attempt, and how it must be shown.

    `driver`: `exact` (byte for byte what the driver wrote outside the pod), `prefix` (its beginning, at least up to
    the end of `driver_until`), `ends` (its last `min_tail_bytes` at least, and as many bytes missing as its gaps say),
    `none` (no driver ever ran). `partial` names artifacts that may be incomplete: each must
    then say why. `artifacts` must be there; both are shell patterns. `line` must be among the cited evidence.
    """

    ended_as: str
    causes: list[str]
    driver: str = "exact"
    driver_until: str = ""
    artifacts: list[str] = field(default_factory=list)
    partial: list[str] = field(default_factory=list)
    line: str = ""
    reason: str = ""
    exit_code: int | None = None
    events: list[str] = field(default_factory=list)
    min_driver_bytes: int = 0
    min_tail_bytes: int = 0
    gpus: float = 0.0
    min_idle_gpu_seconds: float = 0.0
    margin_known: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """One RayJob: what it runs, what is done to it, what must be left of it."""

    name: str
    title: str
    mode: str
    expected: tuple[Expected, ...]
    driver: str = ""
    entrypoint: str = ""
    ray: str = "2.52.1"
    cost: float = 1.0  # of the places that a machine has for RayJobs at the same time
    workers: Workers | None = None
    shares_cluster: bool = False  # runs on a RayCluster that was there before it
    head: dict[str, Any] = field(default_factory=dict)  # laid over the head's container
    spec: dict[str, Any] = field(default_factory=dict)  # laid over the RayJob's spec
    documents: tuple[dict[str, Any], ...] = ()  # applied before it
    acts: tuple[Act, ...] = ()
    needs_harness: bool = False  # does something to the node itself, which no foreign cluster must suffer
    jobs: int = 1  # how many RayJob objects of its name there are in the end
    why: str = ""  # why it died, for its recording


def load(path: Path) -> Scenario:
    """Raises ScenarioError for what is no scenario."""
    document = yaml.safe_load(path.read_text())
    known = {one.name for one in fields(Scenario)} - {"name"}
    unknown = sorted(set(document) - known)
    if unknown:
        raise ScenarioError(f"{path.name}: unknown key {unknown[0]}")
    workers = document.pop("workers", None)
    return Scenario(
        name=path.stem,
        workers=Workers.of(workers, path.name) if workers is not None else None,
        expected=tuple(Expected.of(one, path.name) for one in document.pop("expected")),
        acts=tuple(Act.of(one, path.name) for one in document.pop("acts", ())),
        documents=tuple(document.pop("documents", ())),
        **document,
    )


def load_all() -> list[Scenario]:
    """Every scenario, dearest first: a long one that starts last would keep the whole run waiting."""
    return sorted(map(load, FOLDER.glob("*.yaml")), key=lambda one: (-one.cost, one.name))
