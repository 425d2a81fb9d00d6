"""Causes with what they are and what they cost: the taxonomy of the rules beside the counts of the archive. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from archiver.diagnosis.ruleset import Leaf
from archiver.read.statistics import Share, Statistics


@dataclass(frozen=True, slots=True)
class CauseView:
    """One leaf. A cause that only an older ruleset knew has its id for a title and no owner."""

    cause: str
    category: str
    title: str
    owner: str
    summary: str
    next_steps: tuple[str, ...]
    failed: int
    gpu_seconds_lost: float


@dataclass(frozen=True, slots=True)
class Branch:
    """A category with its causes, dearest first."""

    category: str
    causes: tuple[CauseView, ...]
    failed: int
    gpu_seconds_lost: float


def cause_views(statistics: Statistics, leaves: Mapping[str, Leaf]) -> tuple[CauseView, ...]:
    """Every leaf of the rules and every cause of the archive, dearest first. Failures without a verdict are ``""``."""
    counted = {share.name: share for share in statistics.causes}
    names = dict.fromkeys([*counted, *leaves])
    made = (_view(name, counted.get(name), leaves.get(name)) for name in names)
    return tuple(sorted(made, key=lambda view: (-view.gpu_seconds_lost, -view.failed, view.category, view.title)))


def cause_view(statistics: Statistics, leaves: Mapping[str, Leaf], leaf: str) -> CauseView | None:
    """One of them; None where neither the rules nor the archive know it."""
    return next((view for view in cause_views(statistics, leaves) if view.cause == leaf), None)


def branches(views: Iterable[CauseView]) -> tuple[Branch, ...]:
    """As a tree, dearest first."""
    by_category = sorted(views, key=lambda view: view.category)  # stable: within a category the order stays
    made = []
    for category, members in groupby(by_category, key=lambda view: view.category):
        causes = tuple(members)
        failed, lost = sum(view.failed for view in causes), sum(view.gpu_seconds_lost for view in causes)
        made.append(Branch(category, causes, failed, lost))
    return tuple(sorted(made, key=lambda branch: (-branch.gpu_seconds_lost, -branch.failed, branch.category)))


def _view(name: str, share: Share | None, leaf: Leaf | None) -> CauseView:
    return CauseView(
        cause=name,
        category=leaf.category if leaf else share.category if share else "",
        title=leaf.title if leaf else name.replace("-", " ") or "No verdict yet",
        owner=leaf.owner if leaf else "",
        summary=leaf.summary if leaf else "",
        next_steps=leaf.next_steps if leaf else (),
        failed=share.failed if share else 0,
        gpu_seconds_lost=share.gpu_seconds_lost if share else 0.0,
    )
