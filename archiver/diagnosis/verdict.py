"""The answer: cause, confidence, citations, candidates, symptoms, what was missing, what to do. Not how it was found."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from archiver.diagnosis.fingerprint import Fingerprint

CITATIONS_LIMIT = 10

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Citation:
    """A pointer into the evidence: a line of a log, or a field of an object. `line` is 1-based in its source."""

    source: str
    line: int
    text: str
    rule: str = ""
    time: float | None = None
    object: str = ""
    field: str = ""

    def to_json(self) -> Json:
        """Without the parts that it does not have."""
        shown: Json = {"source": self.source, "line": self.line, "text": self.text}
        if self.time is not None:
            shown["time"] = _iso(self.time)
        for key in ("object", "field", "rule"):
            if value := getattr(self, key):
                shown[key] = value
        return shown


@dataclass(frozen=True, slots=True)
class Symptom:
    """A consequence that was seen, and of which cause it is one."""

    text: str
    of: str
    source: str
    line: int

    def to_json(self) -> Json:
        """All parts."""
        return {"text": self.text, "of": self.of, "source": self.source, "line": self.line}


@dataclass(frozen=True, slots=True)
class Advice:
    """A setting of the RayJob that made it likely or made evidence scarce, with what to set and why."""

    id: str
    setting: str
    change: str
    why: str

    def to_json(self) -> Json:
        """All parts."""
        return {"id": self.id, "setting": self.setting, "change": self.change, "why": self.why}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One diagnosis. `reason` says for `unknown` why it is unknown; `notes` say what was odd in the evidence."""

    id: str
    cause: str
    category: str
    owner: str
    confidence: float
    title: str
    summary: str
    ruleset: str
    evidence: tuple[Citation, ...] = ()
    candidates: tuple[tuple[str, float], ...] = ()
    symptoms: tuple[Symptom, ...] = ()
    missing: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()
    fingerprint: Fingerprint | None = None
    advice: tuple[Advice, ...] = ()
    docs: str = ""
    contributors: tuple[str, ...] = field(default=())

    def to_json(self) -> Json:
        """The documented shape; new keys may be added, none is ever taken away."""
        print_of = self.fingerprint
        return {
            "id": self.id,
            "cause": self.cause,
            "category": self.category,
            "owner": self.owner,
            "confidence": self.confidence,
            "evidence": [citation.to_json() for citation in self.evidence],
            "candidates": [{"cause": cause, "confidence": sure} for cause, sure in self.candidates],
            "symptoms": [symptom.to_json() for symptom in self.symptoms],
            "missing": list(self.missing),
            "summary": self.summary,
            "next_steps": list(self.next_steps),
            "ruleset": self.ruleset,
            "title": self.title,
            "reason": self.reason,
            "notes": list(self.notes),
            "contributors": list(self.contributors),
            "fingerprint": None
            if print_of is None
            else {"key": print_of.key, "version": print_of.version, "used": list(print_of.used)},
            "entity": print_of.entity if print_of else "",
            "advice": [item.to_json() for item in self.advice],
            "docs": self.docs,
        }


def _iso(time: float) -> str:
    try:
        return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return ""
