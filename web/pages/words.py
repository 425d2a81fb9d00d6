"""Numbers and moments as people say them. Every function is pure; ``now`` is an argument."""

from collections.abc import Mapping
from datetime import UTC, datetime

from archiver.core.model import Attribution, Completeness, LogKind, LogSource
from archiver.read.views import CauseBrief, Certainty

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def duration(seconds: float | None) -> str:
    """``14 m 03 s``; two units at most, milliseconds below a second."""
    if seconds is None:
        return "unknown"
    if seconds < 0:
        return f"−{duration(-seconds)}"
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    return _whole(round(seconds))


def _whole(seconds: int) -> str:
    if seconds < _MINUTE:
        return f"{seconds} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE} m {seconds % _MINUTE:02} s"
    if seconds < _DAY:
        return f"{seconds // _HOUR} h {seconds % _HOUR // _MINUTE:02} m"
    return f"{seconds // _DAY} d {seconds % _DAY // _HOUR:02} h"


def ago(moment: datetime | None, now: datetime) -> str:
    """``12 m ago``; one unit, because nobody needs the second."""
    if moment is None:
        return "unknown"
    seconds = (now - moment).total_seconds()
    if seconds < 0:
        return f"in {_one_unit(-seconds)}"
    return "just now" if seconds < 10 else f"{_one_unit(seconds)} ago"


def _one_unit(seconds: float) -> str:
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def utc(moment: datetime | None) -> str:
    """The exact moment, ``2026-08-19 03:12:44 UTC``."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment else "unknown"


def clock(moment: datetime) -> str:
    """Time of day with milliseconds, UTC: for rows whose day stands elsewhere."""
    return f"{moment.astimezone(UTC):%H:%M:%S}.{moment.microsecond // 1000:03}"


def nanoseconds(time_ns: int) -> str:
    """A log line's own time, ``2026-08-19T03:12:44.123456789Z``."""
    whole, rest = divmod(time_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def size(count: int) -> str:
    """Bytes as ``4.0 MiB``."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def number(count: float) -> str:
    """``12,345``; a fraction only where there is one."""
    return f"{count:,.0f}" if float(count).is_integer() else f"{count:,.1f}"


def plural(count: float, word: str, many: str | None = None) -> str:
    """``1 attempt``, ``3 attempts``."""
    return f"{number(count)} {word if count == 1 else many or word + 's'}"


def gpu_hours(seconds: float) -> str:
    """GPU time as people pay for it."""
    hours = seconds / _HOUR
    return f"{hours:,.0f} GPU-hours" if hours >= 10 else f"{hours:.1f} GPU-hours"


def category(word: str) -> str:
    """A category of causes in words."""
    return word.replace("-", " ") or "no verdict yet"


def chance(odds: float) -> str:
    """How improbable, as people say it: ``1 in 5,000``."""
    if odds >= 0.5:
        return "as chance has it"
    if odds < 1e-6:
        return "less than 1 in a million"
    return f"1 in {number(round(1 / odds))}"


def image(name: str) -> str:
    """A digest's beginning; a name with its tag as it stands, without the registry's path."""
    head, colon, digest = name.rpartition("sha256:")
    return f"sha256:{digest[:12]}" if colon else short(head.rpartition("/")[2] or name.rpartition("/")[2], 40)


def hours(seconds: float) -> str:
    """GPU-hours without their unit, for columns that name it."""
    value = seconds / _HOUR
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def certainty(brief: CauseBrief) -> str:
    """The word with its number: ``sure (0.97)``."""
    return (
        brief.certainty.value if brief.certainty is Certainty.UNKNOWN else f"{brief.certainty} ({brief.confidence:.2f})"
    )


def attribution(name: str, value: Attribution | None) -> str | None:
    """``team language``, or nothing where nobody said."""
    return f"{name} {value.value}" if value and value.value else None


def source(origin: LogSource | None) -> str:
    """Where a log came from, in words."""
    if origin is None:
        return ""
    if origin.kind is LogKind.DRIVER:
        return "driver, from Ray's own file"
    where = f"{origin.run.pod} / {origin.run.container}" if origin.run else origin.path or ""
    on_node = f" on {origin.node}" if origin.node else ""
    again = f", restart {origin.run.restart}" if origin.run and origin.run.restart else ""
    return f"{_KINDS[origin.kind]} {where}{on_node}{again}".strip()


_KINDS = {
    LogKind.DRIVER: "driver",
    LogKind.SUBMITTER: "submitter",
    LogKind.HEAD: "head",
    LogKind.WORKER: "worker",
    LogKind.AUTOSCALER: "autoscaler",
    LogKind.INIT: "init container",
    LogKind.RAY: "Ray file",
}


_PLACES = {
    "driver.log": "driver",
    "k8s_events": "Kubernetes Events",
    "node_conditions": "node conditions",
    "pods": "pod status",
    "ray.job": "Ray's job record",
    "rayjob_status": "RayJob status",
    "rayjob.status": "RayJob status",
}


def place(where: str, line: int | None = None) -> str:
    """Where a cited line stands: ``driver:812``; fields and events have no line worth telling."""
    name = _PLACES.get(where, where.removesuffix(".log"))
    return f"{name}:{line}" if line is not None and where not in _PLACES.keys() - {"driver.log"} else name


PRODUCTS = {"kuberay": "KubeRay", "ray": "Ray", "kubernetes": "Kubernetes"}


def versions(found: Mapping[str, str]) -> str:
    """``KubeRay 1.6.2, Ray 2.52.1, Kubernetes v1.34.4``; the archiver's own stands at the foot of every page."""
    known = {name.lower(): version for name, version in found.items()}
    return ", ".join(f"{title} {known[name]}" for name, title in PRODUCTS.items() if known.get(name))


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def short(text: str, limit: int) -> str:
    """At most so many characters, with a sign where something is left out."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def completeness(value: Completeness) -> str:
    """How whole the evidence is, as a claim."""
    return {Completeness.COMPLETE: "complete", Completeness.PARTIAL: "partly saved", Completeness.LOST: "lost"}[value]


def margin(seconds: float | None) -> str:
    """How much later the cluster was deleted than the evidence was safe."""
    if seconds is None:
        return "before any deletion was seen"
    if seconds < 0:
        return f"{duration(-seconds)} after the cluster was deleted"
    return f"{duration(seconds)} before the cluster was deleted"


def short_name(artifact: str) -> str:
    """A log's name as a column beside its lines: without its folder and ending, at most 20 characters."""
    name = artifact.rpartition("/")[2].removesuffix(".log")
    return name if len(name) <= 20 else f"{name[:9]}…{name[-10:]}"
