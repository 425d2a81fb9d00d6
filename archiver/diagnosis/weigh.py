"""Signals to candidates: chains, recovery, order, which cause explains which. Not how sure a verdict is."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from archiver.diagnosis.ruleset import Leaf, Role, Rule, Ruleset, Strength
from archiver.diagnosis.signals import Found, Place, Signal, frames_hit, source_kind
from archiver.diagnosis.traceback import Raised, Trace

GENERIC = "user-exception"
NO_FAILURE = "none"
AFTERMATH = "collective-timeout"
PLAIN_EXIT_RULE = "driver-exit-plain"
USER_TIER = 5
EXCEPTION_RULE = "exception-line"
RAY_RULE = "ray-internal-trace"
AFTER_END_SECONDS = 5.0
EARLIER_SECONDS = 10.0
SKEW_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Weighed:
    """A signal with the strength that is left of it, and what was taken away for."""

    signal: Signal
    strength: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """All that speaks for one leaf. `explained_by` is the leaf that beats it, if one does."""

    leaf: Leaf
    signals: tuple[Weighed, ...]
    tier: int
    explained_by: str = ""

    @property
    def best(self) -> Weighed:
        """The strongest signal; of equals a structured fact, then the earliest."""
        return self.signals[0]

    @property
    def strength(self) -> int:
        """The strength of the best signal."""
        return self.best.strength

    @property
    def time(self) -> float | None:
        """The first time of any signal that counts."""
        times = [item.signal.time for item in self.signals if item.signal.time is not None and item.strength > 0]
        return min(times) if times else None


def weigh(found: Found, ruleset: Ruleset, *, end_time: float | None = None) -> tuple[list[Candidate], list[Candidate]]:
    """Candidates in the order of precedence (those that another one explains come last), and those that are over."""
    roots = [signal for signal in found.signals if signal.rule.role is Role.ROOT]
    weighed = _by_time(_by_recovery(_by_refutation(_by_chain(roots, found, ruleset), found), found), end_time)
    groups: defaultdict[str, list[Weighed]] = defaultdict(list)
    for item in weighed:
        groups[item.signal.rule.leaf].append(item)
    candidates = [_candidate(ruleset.leaf(leaf), items) for leaf, items in groups.items()]
    counted = [item for item in candidates if item.strength > 0]
    return sorted(_explain(counted), key=_order), [item for item in candidates if item.strength <= 0]


def _candidate(leaf: Leaf, items: list[Weighed]) -> Candidate:
    ordered = sorted(items, key=_telling)
    best = ordered[0].signal.rule
    return Candidate(leaf, tuple(ordered), leaf.tier if best.tier is None else best.tier)


def _telling(item: Weighed) -> tuple[object, ...]:
    """Strongest first; of equals a structured fact, but for an exit code, which tells less than any line."""
    is_plain = item.signal.rule.id == PLAIN_EXIT_RULE
    return (-item.strength, is_plain, not item.signal.is_fact, _moment(item), item.signal.row)


def _moment(item: Weighed) -> float:
    return item.signal.time if item.signal.time is not None else float("inf")


def _order(candidate: Candidate) -> tuple[object, ...]:
    band = {Strength.CERTAIN: 0, Strength.STRONG: 0, Strength.MEDIUM: 1}.get(Strength(candidate.strength), 2)
    is_generic = candidate.leaf.id == GENERIC
    return (
        bool(candidate.explained_by),
        band,
        candidate.tier,
        is_generic,
        -candidate.strength,
        _moment(candidate.best),
        candidate.best.signal.row,
    )


# --- chains -----------------------------------------------------------------------------------------------------------


def _by_chain(signals: list[Signal], found: Found, ruleset: Ruleset) -> list[Weighed]:
    """Within one traceback only the innermost cause with a meaning of its own stays a root."""
    at: defaultdict[tuple[str, str, str], list[Signal]] = defaultdict(list)
    for signal in signals:
        if not signal.is_fact:
            at[signal.place_key].append(signal)
    of_user = {leaf.id for leaf in ruleset.leaves.values() if leaf.tier == USER_TIER}
    weighed = {id(signal): Weighed(signal, int(signal.rule.strength)) for signal in signals}
    extra: list[Weighed] = []
    rules = _OfTraces(ruleset.rule(EXCEPTION_RULE), ruleset.rule(RAY_RULE), ruleset.framed)
    for place, trace in found.traces:
        if _is_of_job_supervisor(trace):
            _take_from_user(trace, at[place.key], weighed, of_user)
            if rules.of_ray and _is_ray_internal(trace):
                extra.extend(_custom(place, trace, rules.of_ray, Strength.MEDIUM))
        else:
            extra.extend(_weigh_trace(place, trace, at[place.key], weighed, rules))
    return [*weighed.values(), *extra]


@dataclass(frozen=True, slots=True)
class _OfTraces:
    """The rules that a traceback itself may give a signal of."""

    general: Rule | None
    of_ray: Rule | None
    framed: tuple[Rule, ...]


def _weigh_trace(
    place: Place,
    trace: Trace,
    signals: list[Signal],
    weighed: dict[int, Weighed],
    rules: _OfTraces,
) -> Iterable[Weighed]:
    inside = [
        (index, signal) for index, raised in enumerate(trace.chain) for signal in signals if _covers(raised, signal)
    ]
    specific = [
        (index, signal) for index, signal in inside if signal.rule.leaf != GENERIC and weighed[id(signal)].strength
    ]
    generic = [(index, signal) for index, signal in inside if signal.rule.leaf == GENERIC]
    if trace.is_ignored:
        weighed.update(
            {id(signal): Weighed(signal, 0, "ignored while objects were freed") for _index, signal in inside}
        )
        return
    root_index = trace.chain.index(trace.root)
    if specific:
        chosen = min(specific, key=lambda pair: _distance(trace, pair[0], root_index))[0]
        for index, signal in specific:
            if index != chosen:
                weighed[id(signal)] = Weighed(signal, 0, "wrapped by the same traceback")
        for _index, signal in generic:
            weighed[id(signal)] = Weighed(signal, 0, "a more exact rule holds")
        return
    if rule := next((rule for rule in rules.framed if _is_framed(rule, place, trace)), None):
        weighed.update({id(signal): Weighed(signal, 0, "a more exact rule holds") for _index, signal in generic})
        yield from _custom(place, trace, rule, rule.strength)
        return
    for index, signal in generic:
        is_root = index == root_index
        strength = min(int(signal.rule.strength) + (1 if trace.app_frames else 0), int(Strength.STRONG))
        weighed[id(signal)] = Weighed(signal, strength if is_root else 0, "" if is_root else "wrapped")
    if rules.of_ray and _is_ray_internal(trace):
        yield from _custom(place, trace, rules.of_ray, Strength.MEDIUM)
    if rules.general and not any(index == root_index for index, _signal in generic):
        yield from _custom(place, trace, rules.general, Strength.MEDIUM if trace.app_frames else Strength.WEAK)


def _is_framed(rule: Rule, place: Place, trace: Trace) -> bool:
    return (not rule.sources or place.kind in rule.sources) and frames_hit(rule, trace)


def _is_of_job_supervisor(trace: Trace) -> bool:
    """Whether Ray's own submission code raised it: it stumbles over a driver's output that is no UTF-8, for one."""
    files = [frame.file for frame in trace.root.frames]
    return not trace.app_frames and any(_JOB_CODE.search(file) for file in files)


def _take_from_user(trace: Trace, signals: list[Signal], weighed: dict[int, Weighed], of_user: set[str]) -> None:
    for signal in signals:
        if signal.rule.leaf in of_user and any(_covers(raised, signal) for raised in trace.chain):
            weighed[id(signal)] = Weighed(signal, 0, "raised by Ray's own code, not by the job's")


def _is_ray_internal(trace: Trace) -> bool:
    """Whether Ray's own code raised an error of the kind that only a defect raises, with no frame of the user."""
    frames = trace.root.frames
    return (
        bool(frames)
        and not trace.app_frames
        and bool(_RAY_CODE.search(frames[-1].file))
        and trace.root.name
        in ("AssertionError", "AttributeError", "KeyError", "IndexError", "NameError", "UnboundLocalError")
    )


_JOB_CODE = re.compile(r"/ray/dashboard/modules/job/(?!sdk|cli)")
_RAY_CODE = re.compile(r"/ray/(?!serve/_private/replica|util/client)\w+/")


def _custom(place: Place, trace: Trace, rule: Rule, strength: Strength) -> Iterable[Weighed]:
    """A signal made of a traceback's root; symptom types of the rule's exclusions give none."""
    raised = trace.root
    text = raised.headline
    if any(exclusion.search(text) for exclusion in rule.unless):
        if place.kind != "driver" or not _is_raised_by_user(trace):
            return
        strength = Strength.WEAK
    line = place.line if place.object and place.line else raised.line
    signal = Signal(rule, place.source, line, text, trace.time, trace.who, place.object, place.field, row=raised.line)
    yield Weighed(signal, int(strength))


def _is_raised_by_user(trace: Trace) -> bool:
    """Whether the job's own frame raised it, not something that it called: then its type is the user's word for a fault."""
    return bool(trace.root.frames) and trace.root.frames[-1].is_app


def _covers(raised: Raised, signal: Signal) -> bool:
    return raised.line <= signal.row <= raised.line + raised.message.count("\n")


def _distance(trace: Trace, index: int, root_index: int) -> tuple[int, int]:
    """The root itself first, then the nearest to it; of equals the later one, which is the outer."""
    return (abs(index - root_index), -index)


# --- refutation -----------------------------------------------------------------------------------------------------


def _by_refutation(items: list[Weighed], found: Found) -> list[Weighed]:
    """A tear-down rule with a leaf says that this leaf cannot be; an exit code says little beside a worker's death."""
    refuted = {s.rule.leaf for s in found.signals if s.rule.role is Role.TEARDOWN and s.rule.leaf}
    deaths = any(s.rule.role is Role.CASCADE and s.rule.suggests[:1] not in ((), (GENERIC,)) for s in found.signals)
    return [_refuted(item, refuted, deaths) for item in items]


def _refuted(item: Weighed, refuted: set[str], deaths: bool) -> Weighed:
    if item.signal.rule.leaf in refuted:
        return replace(item, strength=max(item.strength - 2, 0), why="the opposite was seen")
    if deaths and item.signal.rule.id == PLAIN_EXIT_RULE:
        return replace(item, strength=0, why="follows from a death")
    return item


# --- recovery and time ------------------------------------------------------------------------------------------------


def _by_recovery(items: list[Weighed], found: Found) -> list[Weighed]:
    """A fault followed by progress of the same writer, or by the line that says it is over, is recovered."""
    progress: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    clears: defaultdict[str, list[Signal]] = defaultdict(list)
    for signal in found.signals:
        if signal.rule.role is Role.PROGRESS and signal.rule.leaf:
            clears[signal.rule.leaf].append(signal)
        elif signal.rule.role is Role.PROGRESS and not signal.is_fact:
            progress[(signal.source, signal.who)].append(signal.row)
    ends = [item.signal for item in items if item.signal.rule.leaf == NO_FAILURE]
    return [_recovered(item, progress, [*clears[item.signal.rule.leaf], *ends]) for item in items]


def _recovered(item: Weighed, progress: Mapping[tuple[str, str], list[int]], clears: list[Signal]) -> Weighed:
    signal = item.signal
    if item.strength <= 0 or signal.rule.leaf == NO_FAILURE:
        return item
    if any(_clears(clear, signal) for clear in clears):
        return replace(item, strength=max(item.strength - 3, 0), why="over before the end")
    if signal.level:
        item = _by_level(item)
    later = [row for row in progress.get((signal.source, signal.who), ()) if row > signal.row]
    if len(later) >= 2 and not signal.is_fact:
        return replace(item, strength=max(item.strength - 2, 0), why="progress followed on the same worker")
    return item


def _by_level(item: Weighed) -> Weighed:
    """A line below error level says less; least in the logs of Ray's own processes, which tell of everything.

    Autoscalers, operators and controllers report what they decide at level INFO: there a word keeps its weight.
    """
    level = item.signal.level
    if source_kind(item.signal.source) in _CHATTY:
        least, lost = (1 if item.strength > Strength.WEAK else 0), 2
    else:
        least, lost = 1, 1
    return replace(item, strength=max(item.strength - lost, least), why=f"written at level {level}")


_CHATTY = frozenset(("core", "raylet", "gcs", "agent", "dashboard", "driver", "worker"))


def _clears(clear: Signal, signal: Signal) -> bool:
    """Whether the all-clear comes after the fault: later in the same text, or later for the same object."""
    if clear.source != signal.source:
        return False
    if clear.is_fact or signal.is_fact or clear.object or signal.object:
        is_same = clear.object == signal.object
        if clear.time is not None and signal.time is not None and clear.time != signal.time:
            return is_same and clear.time > signal.time
        return is_same and clear.line > signal.line
    return clear.row > signal.row


def _by_time(items: list[Weighed], end_time: float | None) -> list[Weighed]:
    """What was recorded after the end is tear-down; what came well after a user's error did not cause it."""
    fatal = [
        item.signal.time
        for item in items
        if item.signal.time is not None and item.strength >= Strength.MEDIUM and _is_of_job(item.signal)
    ]
    first = min(fatal) if fatal else None
    return [_teardown(item, end_time, first) for item in items]


def _is_of_job(signal: Signal) -> bool:
    """Whether a line is of the job's own output, not of an object nor of the head's container."""
    return not signal.object and not signal.source.startswith("head") and source_kind(signal.source) in _OF_JOB


_OF_JOB = frozenset(("driver", "worker", "submitter", "shell", "other"))


def _teardown(item: Weighed, end_time: float | None, first: float | None) -> Weighed:
    time = item.signal.time
    if time is None or not item.signal.object or item.strength <= 0:
        return item
    if end_time is not None and AFTER_END_SECONDS < time - end_time < SKEW_SECONDS and item.signal.rule.tier != 0:
        return replace(item, strength=max(item.strength - 3, 0), why="after the end of the job")
    if first is not None and EARLIER_SECONDS < time - first < SKEW_SECONDS:
        return replace(item, strength=max(item.strength - 2, 0), why="after the first failure")
    return item


# --- which cause explains which ---------------------------------------------------------------------------------------


def _explain(candidates: list[Candidate]) -> list[Candidate]:
    """A leaf yields to the leaves that it names, where those are not much weaker."""
    present = {candidate.leaf.id: candidate for candidate in candidates}
    return [replace(candidate, explained_by=_winner(candidate, present)) for candidate in candidates]


def _winner(candidate: Candidate, present: Mapping[str, Candidate]) -> str:
    for leaf_id in candidate.leaf.yields_to:
        other = present.get(leaf_id)
        if other and other.strength >= _needed(candidate, other) and not _came_before(candidate, other):
            return leaf_id
    if candidate.leaf.id == GENERIC:
        stronger = [
            other
            for other in present.values()
            if other.leaf.id not in (GENERIC, NO_FAILURE)
            and other.strength >= Strength.MEDIUM
            and (GENERIC not in other.leaf.yields_to or candidate.strength < Strength.MEDIUM)
            and not _is_aftermath(other, candidate)
        ]
        if stronger:
            return min(stronger, key=_order).leaf.id
    return ""


def _needed(candidate: Candidate, other: Candidate) -> int:
    """How strong a cause must be to explain another one."""
    return int(Strength.WEAK) if _is_aftermath(candidate, other) else min(candidate.strength, int(Strength.MEDIUM))


def _is_aftermath(candidate: Candidate, other: Candidate) -> bool:
    """Whether a watchdog's line only follows a death that stands above it in the same log.

    It is as loud after any death: what ranks do once a peer is gone proves little of its own.
    """
    if candidate.leaf.id != AFTERMATH or other.leaf.category == candidate.leaf.category or other.best.why:
        return False
    first, second = other.best.signal, candidate.best.signal
    return first.place_key == second.place_key and first.row < second.row


def _came_before(candidate: Candidate, other: Candidate) -> bool:
    """Whether the candidate failed clearly before the one that it would yield to."""
    if candidate.leaf.tier not in (0, USER_TIER) or candidate.time is None or other.time is None:
        return False
    return EARLIER_SECONDS < other.time - candidate.time < SKEW_SECONDS
