"""How an attempt ended, as shape, word and colour: readable in grey, and read aloud."""

from dataclasses import dataclass

from archiver.core.model import Completeness
from archiver.read.views import FAILURES

__all__ = ["EDGES", "FAILURES", "Mark", "completeness_mark", "mark"]


@dataclass(frozen=True, slots=True)
class Mark:
    """``css`` names the colour; ``sentence`` is how the end is told after a name."""

    symbol: str
    word: str
    css: str
    sentence: str


_MARKS = {
    "failed": Mark("✕", "failed", "is-bad", "failed"),
    "succeeded": Mark("✓", "succeeded", "is-good", "succeeded"),
    "retried": Mark("↻", "retried", "is-bad", "failed and was retried"),
    "stopped": Mark("■", "stopped", "is-quiet", "was stopped"),
    "suspended": Mark("‖", "suspended", "is-quiet", "was suspended"),
    "deleted": Mark("⊘", "deleted", "is-warn", "was deleted before it ended"),
    "invalid": Mark("✕", "invalid", "is-bad", "was refused as invalid"),
    "running": Mark("…", "running", "is-busy", "is running"),
}
EDGES = {"is-bad": "is-bad-edge", "is-good": "is-good-edge", "is-busy": "is-busy-edge"}

_COMPLETENESS = {
    Completeness.COMPLETE: Mark("●", "complete", "is-good", "all evidence is complete"),
    Completeness.PARTIAL: Mark("◐", "partial", "is-warn", "some evidence is missing"),
    Completeness.LOST: Mark("○", "lost", "is-bad", "the evidence was lost"),
}


def mark(status: str) -> Mark:
    """A status that nobody foresaw is shown as it is."""
    return _MARKS.get(status) or Mark("?", status or "unknown", "is-quiet", status or "ended in an unknown way")


def completeness_mark(value: Completeness) -> Mark:
    return _COMPLETENESS[value]
