"""The commit record of an attempt: what is archived, how complete it is, who it belonged to. Written after its objects.

``to_json`` and ``from_json`` are inverse; unknown keys of a newer schema are kept out, not an error.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from archiver.core import records
from archiver.core.model import Artifact, AttemptId, Attribution, Completeness, ResourceUse
from archiver.errors import DataError

SCHEMA = 1


class ManifestState(StrEnum):
    """OPEN while the attempt is captured, FINAL once every source is done. A FINAL one may get a later revision."""

    OPEN = "open"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the attempt ended, in KubeRay's and Ray's own words; every enum is open."""

    job_status: str = ""
    deployment_status: str = ""
    reason: str = ""
    message: str = ""
    ray_error_type: str | None = None
    driver_exit_code: int | None = None
    # why we consider it ended: failed, succeeded, stopped, retried, suspended, deleted, invalid, or running
    ended_as: str = "running"


@dataclass(frozen=True, slots=True)
class Times:
    """The moments that matter, UTC. ``first_signal`` is the first sign of the end that we saw."""

    created: datetime | None = None
    started: datetime | None = None
    first_signal: datetime | None = None
    ended: datetime | None = None
    cluster_deleted: datetime | None = None
    captured: datetime | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """One attempt's record.

    ``margin_seconds`` is the time from safe to deleted: negative when deletion came first, None while one is unknown.
    """

    attempt: AttemptId
    state: ManifestState
    revision: int
    ray_cluster: str | None
    job_id: str | None
    submission_mode: str
    outcome: Outcome
    times: Times
    completeness: Completeness
    completeness_reason: str
    team: Attribution | None = None
    queue: Attribution | None = None
    cost_centre: Attribution | None = None
    submitter: Attribution | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    resources: ResourceUse = field(default_factory=ResourceUse)
    margin_seconds: float | None = None
    artifacts: tuple[Artifact, ...] = ()
    # the stored verdict, as the diagnosis wrote it; its own document is verdicts/<ruleset>.json
    verdict: Mapping[str, Any] | None = None
    retention_class: str = "default"
    spec: Mapping[str, Any] = field(default_factory=dict)


def to_json(manifest: Manifest) -> bytes:
    """Indented UTF-8 JSON with the schema's number first: for programs and for a person with jq."""
    document = {"schema": SCHEMA, **records.to_value(manifest)}
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode(errors="backslashreplace")


def from_json(body: bytes) -> Manifest:
    """The inverse of ``to_json``. Raises DataError for what is no manifest."""
    try:
        document = json.loads(body)
    except ValueError as error:
        raise DataError(f"the manifest is not JSON: {error}") from error
    manifest: Manifest = records.from_value(Manifest, document)
    return manifest
