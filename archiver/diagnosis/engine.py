"""Evidence in, verdict out. Pure: no service, no clock, no exception for broken evidence."""

from collections.abc import Sequence
from dataclasses import dataclass

from archiver.diagnosis.advice import advise
from archiver.diagnosis.confidence import UNKNOWN_BELOW, confidence, hinted
from archiver.diagnosis.evidence import Evidence
from archiver.diagnosis.facts import Fact, collect_facts
from archiver.diagnosis.fingerprint import Fingerprint, fingerprint
from archiver.diagnosis.masking import mask
from archiver.diagnosis.outcome import Outcome, read_outcome
from archiver.diagnosis.ruleset import Leaf, Role, Rule, Ruleset
from archiver.diagnosis.shape import as_int, as_map
from archiver.diagnosis.signals import Found, Signal, observe, source_kind
from archiver.diagnosis.traceback import Trace
from archiver.diagnosis.verdict import CITATIONS_LIMIT, Citation, Symptom, Verdict
from archiver.diagnosis.weigh import NO_FAILURE, Candidate, weigh

DOCS = "docs/causes.md"
SYMPTOMS_LIMIT = 10


def diagnose(evidence: Evidence, ruleset: Ruleset, *, now: float | None = None) -> Verdict:
    """The cause of one attempt. `now` (Unix seconds) only serves to tell times in the future."""
    facts = collect_facts(evidence)
    found = observe(evidence, facts, ruleset)
    outcome = read_outcome(evidence)
    candidates, over = weigh(found, ruleset, end_time=_end_time(evidence))
    case = _Case(evidence, ruleset, found, outcome, candidates, facts)
    if outcome.is_success:
        # whatever else was seen did not matter
        return case.none()
    if over and not candidates and outcome.says_nothing and not case.has_symptoms:
        return case.none(over, sure=0.6)
    chosen = candidates[0] if candidates else None
    if chosen is None or confidence(chosen, candidates, outcome) < UNKNOWN_BELOW:
        return case.unknown(now)
    return case.known(chosen, now)


def _end_time(evidence: Evidence) -> float | None:
    job = as_map(evidence.ray.get("job")) or as_map(evidence.ray.get("job_record"))
    ended = as_int(job.get("end_time"))
    return ended / 1000 if ended and 0 < ended < 10**14 else None


@dataclass(frozen=True, slots=True)
class _Case:
    """One evidence with everything found in it, for writing the verdict."""

    _evidence: Evidence
    _ruleset: Ruleset
    _found: Found
    _outcome: Outcome
    _candidates: list[Candidate]
    _facts: list[Fact]

    def known(self, chosen: Candidate, now: float | None) -> Verdict:
        """A verdict with a cause."""
        leaf = chosen.leaf
        best = chosen.best.signal
        rivals = [item for item in self._candidates if item is not chosen]
        contributors = [item.leaf.id for item in rivals if item.explained_by != leaf.id and item.strength > 1]
        return self._verdict(
            leaf=leaf,
            sure=confidence(chosen, self._candidates, self._outcome),
            owner=best.rule.owner or leaf.owner,
            summary=self._summary(leaf, best),
            citations=self._citations(chosen),
            candidates=self._ranked(),
            print_of=self._fingerprint(leaf, best),
            missing=self._missing([leaf]) if chosen.strength < 3 else [],
            notes=self._notes(now),
            contributors=contributors[:3],
        )

    def unknown(self, now: float | None) -> Verdict:
        """A verdict that says why there is no cause, and which two it could be."""
        leaf = self._ruleset.leaf("unknown")
        ranked = self._ranked()[:2]
        for leaf_id in hinted(self._found):
            if len(ranked) < 2 and leaf_id not in dict(ranked):
                ranked.append((leaf_id, 0.2))
        reason = self._unknown_reason()
        missing = self._missing([self._ruleset.leaf(leaf_id) for leaf_id, _sure in ranked])
        could = " or ".join(leaf_id for leaf_id, _sure in ranked)
        summary = f"{_REASONS[reason]}{f' It could be {could}.' if could else ''}"
        return self._verdict(
            leaf=leaf, sure=0.3 if ranked else 0.1, owner="unclear", summary=summary, citations=self._symptom_citations(),
            candidates=ranked, print_of=self._fingerprint(leaf, None), missing=missing, notes=self._notes(now),
            contributors=[], reason=reason,
        )  # fmt: skip

    @property
    def has_symptoms(self) -> bool:
        """Whether any consequence of a failure was seen."""
        return any(signal.rule.role is Role.CASCADE for signal in self._found.signals)

    def none(self, over: Sequence[Candidate] = (), *, sure: float = 0.97) -> Verdict:
        """The job did its work: no cause. Faults on the way are told as recovered."""
        leaf = self._ruleset.leaf(NO_FAILURE)
        faults = [item.leaf.id for item in [*self._candidates, *over] if item.leaf.id != NO_FAILURE]
        ends = [s for s in self._found.signals if s.rule.leaf == NO_FAILURE]
        clears = [s for s in self._found.signals if s.rule.role is Role.PROGRESS and s.rule.leaf in faults]
        recovered = f" Recovered on the way: {', '.join(faults[:3])}." if faults else ""
        return self._verdict(
            leaf=leaf, sure=sure, owner="none", summary=f"{leaf.summary}{recovered}", citations=_cite([*ends, *clears]),
            candidates=[],
            print_of=None, missing=[], notes=[], contributors=faults[:3],
        )  # fmt: skip

    def _verdict(
        self, *, leaf: Leaf, sure: float, owner: str, summary: str, citations: list[Citation],
        candidates: list[tuple[str, float]], print_of: Fingerprint | None, missing: list[str], notes: list[str],
        contributors: list[str], reason: str = "",
    ) -> Verdict:  # fmt: skip
        return Verdict(
            id=self._evidence.id,
            cause=leaf.id,
            category=leaf.category,
            owner=owner,
            confidence=sure,
            title=leaf.title,
            summary=mask(summary),
            ruleset=self._ruleset.version,
            evidence=tuple(citations[:CITATIONS_LIMIT]),
            candidates=tuple(candidates[:3]),
            symptoms=tuple(self._symptoms(leaf)[:SYMPTOMS_LIMIT]),
            missing=tuple(missing),
            next_steps=leaf.next_steps,
            reason=reason,
            notes=tuple(notes),
            fingerprint=print_of,
            advice=tuple(advise(self._evidence.rayjob_spec, cause=leaf.id, contributors=contributors)),
            docs=f"{DOCS}#{leaf.id}",
            contributors=tuple(contributors),
        )

    def _summary(self, leaf: Leaf, best: Signal) -> str:
        captured = {key: value[:200] for key, value in best.captures.items()}
        where = f"{best.object or best.source}{f' line {best.line}' if not best.object else ''}"
        detail = captured.get("what") or best.text[:240]
        return f"{leaf.summary} Decisive: {detail} ({where})."

    def _ranked(self) -> list[tuple[str, float]]:
        ranked = []
        for item in self._candidates[:5]:
            sure = confidence(item, self._candidates, self._outcome)
            ranked.append((item.leaf.id, sure if item is self._candidates[0] else round(min(sure, 0.9) * 0.5, 3)))
        return ranked

    def _citations(self, chosen: Candidate) -> list[Citation]:
        """The chosen cause's lines, strongest first, then confirmations, then what it explains."""
        first = [item.signal for item in chosen.signals if item.strength > 0]
        confirming = [
            s for s in self._found.signals if s.rule.role is Role.CONFIRMATION and s.rule.leaf == chosen.leaf.id
        ]
        wrapped = [item.signal for item in chosen.signals if item.strength <= 0]
        explained = [item.best.signal for item in self._candidates if item is not chosen]
        cascades = [s for s in self._found.signals if s.rule.role is Role.CASCADE]
        return _cite([*_spread(first), *confirming, *wrapped, *explained, *_spread(cascades)])

    def _symptom_citations(self) -> list[Citation]:
        weak = [item.best.signal for item in self._candidates]
        return _cite([*weak, *_spread([s for s in self._found.signals if s.rule.role is Role.CASCADE])])

    def _symptoms(self, leaf: Leaf) -> list[Symptom]:
        seen: dict[str, Symptom] = {}
        for signal in self._found.signals:
            if signal.rule.role is Role.CASCADE and signal.rule.id not in seen:
                of = leaf.id if leaf.id not in ("unknown", "none") else " | ".join(signal.rule.suggests[:3])
                seen[signal.rule.id] = Symptom(mask(signal.text[:200]), of, signal.source, signal.line)
        for item in self._candidates:
            if item.explained_by and item.leaf.id != leaf.id:
                signal = item.best.signal
                seen[item.leaf.id] = Symptom(mask(signal.text[:200]), item.explained_by, signal.source, signal.line)
        return list(seen.values())

    def _fingerprint(self, leaf: Leaf, best: Signal | None) -> Fingerprint | None:
        if best is None:
            traces = [trace for _place, trace in self._found.traces]
            return fingerprint(leaf.id, "", traces[-1] if traces else None)
        entity = best.captures.get(best.rule.entity, "") if best.rule.entity else ""
        return fingerprint(leaf.id, best.text, self._trace_of(best), entity)

    def _trace_of(self, signal: Signal) -> Trace | None:
        if signal.is_fact:
            return None
        for place, trace in self._found.traces:
            if place.key == signal.place_key and any(
                raised.line <= signal.row <= raised.line + raised.message.count("\n") for raised in trace.chain
            ):
                return trace
        return None

    def _missing(self, leaves: list[Leaf]) -> list[str]:
        """Sources that could have told more: what the leaves and the seen symptoms ask for and the evidence lacks."""
        wanted = [need for leaf in leaves for need in leaf.needs]
        for signal in self._found.signals:
            if signal.rule.role is Role.CASCADE:
                wanted.extend(signal.rule.wants)
        if not wanted:
            wanted = ["driver log", "worker logs", "pods", "k8s_events", "ray job record"]
        present = self._present()
        return [name for name in dict.fromkeys(wanted) if name not in present]

    def _present(self) -> set[str]:
        evidence = self._evidence
        kinds = {source_kind(name) for name, lines in self._found.lines.items() if lines > 0}
        names = {_LOG_NAMES[kind] for kind in kinds if kind in _LOG_NAMES}
        parts = {
            "rayjob_status": evidence.rayjob_status, "pods": evidence.pods, "k8s_events": evidence.k8s_events,
            "node_conditions": evidence.node_conditions, "ray job record": evidence.ray.get("job"),
        }  # fmt: skip
        return names | {name for name, value in parts.items() if value}

    def _unknown_reason(self) -> str:
        if not self._facts and not any(self._found.lines.values()):
            return "no-evidence"
        if self._outcome.is_contradictory:
            return "contradictory"
        if any(signal.rule.role is Role.CASCADE for signal in self._found.signals):
            return "only-symptoms"
        return "new-pattern"

    def _notes(self, now: float | None) -> list[str]:
        notes = []
        if self._outcome.is_contradictory:
            notes.append("Ray says SUCCEEDED and the RayJob says Failed: the job itself may have done its work.")
        cut = [name for name, log in self._evidence.logs.items() if not log.is_complete]
        if cut:
            notes.append(f"Incomplete logs: {', '.join(sorted(cut)[:5])}.")
        times = [signal.time for signal in self._found.signals if signal.time is not None]
        if now is not None and any(time > now + 60 for time in times):
            notes.append("Some times lie in the future: a clock is off, so the order between sources is unsure.")
        return notes


_REASONS = {
    "no-evidence": "There is nothing to judge by.",
    "contradictory": "The sources contradict each other.",
    "only-symptoms": "Only consequences were captured, not what caused them.",
    "new-pattern": "No rule knows what was captured.",
}

_LOG_NAMES = {
    "driver": "driver log", "worker": "worker logs", "raylet": "raylet log", "gcs": "gcs log", "kernel": "kernel log",
    "submitter": "submitter log", "autoscaler": "autoscaler log", "agent": "agent log", "operator": "operator log",
    "dashboard": "dashboard log",
}  # fmt: skip


def _spread(signals: list[Signal]) -> list[Signal]:
    """One hit of each rule in each source first, then the repetitions."""
    seen: set[tuple[Rule, str]] = set()
    first: list[Signal] = []
    rest: list[Signal] = []
    for signal in signals:
        key = (signal.rule, signal.source)
        (rest if key in seen else first).append(signal)
        seen.add(key)
    return first + rest


def _cite(signals: list[Signal]) -> list[Citation]:
    cited: dict[tuple[str, int, str, str], Citation] = {}
    for signal in signals:
        key = (signal.source, signal.line, signal.object, signal.field)
        if key not in cited and len(cited) < CITATIONS_LIMIT:
            cited[key] = Citation(
                signal.source, signal.line, mask(signal.text), signal.rule.id, signal.time, signal.object, signal.field
            )
    return list(cited.values())
