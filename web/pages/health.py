"""What the health page says: one sentence, a few figures, the checks."""

from dataclasses import dataclass
from datetime import datetime

from archiver.read.views import HealthView
from web.pages import words

# beyond this a cluster with TTL 0 is usually gone before its evidence is safe
SLOW_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: str
    note: str
    css: str = ""


def values(health: HealthView, now: datetime) -> dict[str, object]:
    """All that the template reads."""
    return {
        "health": health,
        "sentence": sentence(health),
        "window_words": f"Over the last {words.plural(round(health.window_seconds / 3600), 'hour')}.",
        "figures": figures(health, now),
        "commands": ("archiver verify", "kubectl get leases -A | grep rayjob-archiver"),
    }


def sentence(health: HealthView) -> str:
    """What a tired person reads aloud."""
    broken = [check.name for check in health.checks if not check.is_ok]
    if broken:
        return f"Not well: {', '.join(broken)} {'does' if len(broken) == 1 else 'do'} not work."
    if not health.is_ready:
        return "Not ready yet."
    if health.lost:
        return f"Working, but the evidence of {words.plural(health.lost, 'attempt')} was lost."
    if health.partial:
        return f"Working; {words.plural(health.partial, 'attempt')} could be saved only in part."
    return "All is well: everything that ended is archived and complete."


def figures(health: HealthView, now: datetime) -> tuple[Figure, ...]:
    newest = words.ago(health.newest_capture, now) if health.newest_capture else "never"
    slow = (health.capture_lag_p99_seconds or 0) > SLOW_SECONDS
    late = (health.margin_min_seconds or 0) < 0
    return (
        Figure("Attempts archived", words.number(health.attempts), f"newest {newest}"),
        Figure("Being captured", words.number(health.open_attempts), "right now"),
        Figure(
            "Partly saved",
            words.number(health.partial),
            "some evidence is missing",
            "is-warn" if health.partial else "",
        ),
        Figure("Lost", words.number(health.lost), "nothing could be saved", "is-bad" if health.lost else ""),
        Figure("From the end to safe", _known(health.capture_lag_p50_seconds), "half are faster"),
        Figure(
            "Slowest in a hundred",
            _known(health.capture_lag_p99_seconds),
            "from the end to safe",
            "is-warn" if slow else "",
        ),
        Figure("Smallest margin", _known(health.margin_min_seconds), _margin_note(health), "is-bad" if late else ""),
    )


def _known(seconds: float | None) -> str:
    return "–" if seconds is None else words.duration(seconds)


def _margin_note(health: HealthView) -> str:
    if health.margin_min_seconds is None:
        return "no cluster was deleted yet"
    return "from safe to deleted"
