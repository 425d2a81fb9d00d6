"""A RayJob as the controller knows it: small, because RayJobs that are over may stay in a cluster for months."""

from dataclasses import dataclass, field
from datetime import datetime

from archiver.core.attempts import KnownAttempt
from archiver.core.manifest import Manifest, ManifestState
from archiver.core.model import RayJobId
from archiver.ports import Change


@dataclass(slots=True)
class KnownJob:
    """``waiting`` holds its changes until the archive was asked; ``known`` the open manifests until a capture has them;
    ``opened`` are the numbers of the attempts that this process has begun to capture, ``final`` of those that are
    archived. ``is_new``: it was created while we watched; ``is_live``: it had no sign of its end when first seen.
    """

    id: RayJobId
    created: datetime
    attempts: dict[int, KnownAttempt] = field(default_factory=dict)
    final: set[int] = field(default_factory=set)
    opened: set[int] = field(default_factory=set)
    known: dict[int, Manifest] = field(default_factory=dict)
    is_new: bool = False
    is_live: bool = True
    is_looked_up: bool = False
    is_deleted: bool = False
    waiting: list[Change] = field(default_factory=list)

    def know(self, manifest: Manifest) -> None:
        """What the archive says of one attempt."""
        number, is_final = manifest.attempt.number, manifest.state is ManifestState.FINAL
        self.attempts[number] = KnownAttempt(number, manifest.ray_cluster or "", ended=is_final)
        if is_final:
            self.final.add(number)
        else:
            self.known[number] = manifest

    def know_noted(self, number: int, ray_cluster: str) -> None:
        """What is marked of one attempt: as its manifest says, where there is one, but with its RayCluster."""
        known = self.attempts.get(number)
        if known is None or not known.ray_cluster:
            self.attempts[number] = KnownAttempt(number, ray_cluster, ended=bool(known and known.ended))

    def cluster_of(self, number: int) -> str:
        """The RayCluster of an attempt, empty where it had none yet."""
        known = self.attempts.get(number)
        return known.ray_cluster if known else ""
