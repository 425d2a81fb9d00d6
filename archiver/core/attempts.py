"""Which attempt of its RayJob a status belongs to. A retry or a resume gets a new RayCluster: its name is the identity.

Not `status.failed` + 1: a suspended and resumed RayJob has two RayClusters and no failure. That count only serves where
nobody saw what came before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from archiver.core.lifecycle import RayJobFacts, ended_as, waits_for_admission


@dataclass(frozen=True, slots=True)
class KnownAttempt:
    """What is remembered of an attempt. ``ray_cluster`` is empty while it never had one."""

    number: int
    ray_cluster: str
    ended: bool


def admitted(facts: RayJobFacts, known: Sequence[KnownAttempt]) -> RayJobFacts:
    """The facts without the names and the end that a RayJob has not really had while it waits to be admitted."""
    has_begun = any(attempt.ray_cluster or attempt.ended for attempt in known)
    if has_begun or not waits_for_admission(facts):
        return facts
    return replace(facts, ray_cluster="", job_id="", deployment_status="")


def unseen(facts: RayJobFacts) -> int:
    """How many attempts failed before the one that ``facts`` speaks of, by KubeRay's own count."""
    return max(0, facts.failed - (ended_as(facts) in ("failed", "retried")))


def attempt_number(facts: RayJobFacts, known: Sequence[KnownAttempt]) -> int | None:
    """The attempt that ``facts`` speaks of; a number beyond the known ones is a new attempt. None: between two attempts."""
    if not known:
        return 1 + unseen(facts)
    for attempt in known:
        if attempt.ray_cluster and attempt.ray_cluster == facts.ray_cluster:
            return attempt.number
    last = max(known, key=lambda attempt: attempt.number)
    if not facts.ray_cluster:
        # a wiped status: either the tail of the last attempt or the pause before the next one
        return None if last.ended and ended_as(facts) is None else last.number
    if not last.ray_cluster and not last.ended:
        return last.number
    return last.number + 1
