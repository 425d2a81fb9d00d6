"""What an attempt cost: requested GPUs and CPUs times pod lifetimes, and how much of it before the first task.

Requests, not usage: that is what the queue and the bill count. A pod counts from its scheduling to its end.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from archiver.core.model import ResourceUse
from archiver.core.objects import items, mapping, moment, text

_QUANTITY = re.compile(r"^([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")
_UNITS = {"m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_GPU = re.compile(r"(^|/)(gpu|mig-.+)$")


@dataclass(frozen=True, slots=True)
class PodLife:
    """One pod's request and lifetime. ``ended`` is None while it lives."""

    gpus: float
    cpus: float
    started: datetime
    ended: datetime | None


def pod_life(pod: Mapping[str, Any], *, gone_at: datetime | None) -> PodLife | None:
    """None for a pod that was never placed on a node: it cost nothing."""
    started = _scheduled_at(pod)
    if started is None:
        return None
    requests = [_requests(container) for container in items(pod, "spec", "containers")]
    ends = [moment(status, "state", "terminated", "finishedAt") for status in items(pod, "status", "containerStatuses")]
    finished = max((end for end in ends if end), default=None) if ends and all(ends) else None
    return PodLife(
        gpus=sum(gpus for gpus, _ in requests),
        cpus=sum(cpus for _, cpus in requests),
        started=started,
        ended=finished or gone_at,
    )


def resource_use(lives: Iterable[PodLife], *, now: datetime, first_task: datetime | None) -> ResourceUse:
    """Sums over pods. Idle GPU time is what passed before ``first_task``; None where that moment is not known."""
    lives = list(lives)
    idle = (
        sum(life.gpus * _seconds(life.started, min(first_task, life.ended or now)) for life in lives)
        if first_task
        else None
    )
    return ResourceUse(
        gpu_seconds=sum(life.gpus * _seconds(life.started, life.ended or now) for life in lives),
        cpu_seconds=sum(life.cpus * _seconds(life.started, life.ended or now) for life in lives),
        gpu_idle_seconds=idle,
        gpus=sum(life.gpus for life in lives),
        cpus=sum(life.cpus for life in lives),
    )


def quantity(value: object) -> float:
    """A Kubernetes quantity as a number; what is none counts as 0."""
    match = _QUANTITY.match(value.strip()) if isinstance(value, str) else None
    if match:
        return float(match.group(1)) * _UNITS[match.group(2) or ""]
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _requests(container: Mapping[str, Any]) -> tuple[float, float]:
    limits = mapping(container, "resources", "limits")
    requests = {**limits, **mapping(container, "resources", "requests")}
    gpus = sum(quantity(amount) for key, amount in requests.items() if _GPU.search(key))
    return gpus, quantity(requests.get("cpu"))


def _scheduled_at(pod: Mapping[str, Any]) -> datetime | None:
    if not text(pod, "spec", "nodeName"):
        return None
    for condition in items(pod, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            return moment(condition, "lastTransitionTime")
    return moment(pod, "status", "startTime")


def _seconds(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())
