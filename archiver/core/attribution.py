"""Whose RayJob it was: team, queue, cost centre, submitter, each with the place that said so, as it was at that time.

The places are tried in a configurable order. A place is ``label:<key>``, ``annotation:<key>`` or ``namespace``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from archiver.core.model import Attribution
from archiver.core.objects import annotation, label, namespace, text

DEFAULT_TEAM_SOURCES = ("label:team", "label:app.kubernetes.io/team", "annotation:team", "namespace")
DEFAULT_QUEUE_SOURCES = (
    "label:kueue.x-k8s.io/queue-name",
    "label:volcano.sh/queue-name",
    "label:yunikorn.apache.org/queue",
    "label:kai.scheduler/queue",
)
DEFAULT_COST_CENTRE_SOURCES = ("label:cost-center", "label:cost-centre", "annotation:cost-center")
DEFAULT_SUBMITTER_SOURCES = (
    "annotation:archiver.ray.io/submitted-by",
    "label:ray.io/cronjob-name",
    "label:submitted-by",
    "label:owner",
)


def is_source(value: str) -> bool:
    """Whether a configured place has one of the forms."""
    what, _, key = value.partition(":")
    return value == "namespace" or (what in ("label", "annotation") and bool(key))


def attribute(rayjob: Mapping[str, Any], sources: Sequence[str]) -> Attribution | None:
    """The first source that says something."""
    for source in sources:
        value = _read(rayjob, source)
        if value:
            return Attribution(value=value, source=source)
    return None


def _read(rayjob: Mapping[str, Any], source: str) -> str:
    what, _, key = source.partition(":")
    if what == "label":
        return label(rayjob, key)
    if what == "annotation":
        return annotation(rayjob, key)
    return namespace(rayjob) if what == "namespace" else text(rayjob, "metadata", what)
