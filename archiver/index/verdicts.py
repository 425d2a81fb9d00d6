"""Reading a stored verdict: an open JSON document of any ruleset, in fields of known type. Not judging anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archiver.core.model import Artifact

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CitedPlace:
    """``line`` counts from 1. ``artifact`` is None where ``source`` is none of the attempt's artifacts."""

    source: str
    artifact: str | None
    line: int | None
    text: str


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """What an index row and a page need of it; empty strings and tuples where a ruleset did not say."""

    cause: str
    category: str
    title: str
    owner: str
    confidence: float
    summary: str
    evidence: tuple[CitedPlace, ...]
    candidates: tuple[tuple[str, float], ...]
    symptoms: tuple[str, ...]
    missing: tuple[str, ...]
    next_steps: tuple[str, ...]
    rule: str
    ruleset: str
    fingerprint: str | None


def read_verdict(document: Mapping[str, Any] | None, artifacts: Sequence[Artifact] = ()) -> StoredVerdict | None:
    """None where there is no verdict yet. A field of the wrong type counts as not said."""
    if not document:
        return None
    cause = _text(document.get("cause")) or UNKNOWN
    return StoredVerdict(
        cause=cause,
        category=_text(document.get("category")) or UNKNOWN,
        title=_text(document.get("title")) or cause.replace("-", " "),
        owner=_text(document.get("owner")),
        confidence=min(1.0, max(0.0, _number(document.get("confidence")))),
        summary=_text(document.get("summary")),
        evidence=tuple(_place(item, artifacts) for item in _mappings(document.get("evidence"))),
        candidates=tuple(
            (_text(item.get("cause")), _number(item.get("confidence")))
            for item in _mappings(document.get("candidates"))
        ),
        symptoms=_words(document.get("symptoms")),
        missing=_words(document.get("missing")),
        next_steps=_words(document.get("next_steps")),
        rule=_first_rule(document),
        ruleset=_text(document.get("ruleset")),
        fingerprint=_fingerprint(document.get("fingerprint")),
    )


def decisive(verdict: StoredVerdict) -> CitedPlace | None:
    """The first place that quotes something; rules put the decisive one first."""
    return next((place for place in verdict.evidence if place.text.strip()), None)


def artifact_of(source: str, artifacts: Sequence[Artifact]) -> str | None:
    """The artifact that a verdict's source names: by its name, by what follows ``logs/``, or by a kind only it has."""
    for name in (source, f"logs/{source}", f"logs/{source}.log"):
        if any(artifact.name == name for artifact in artifacts):
            return name
    kinds = [artifact.name for artifact in artifacts if artifact.source and artifact.source.kind == source]
    return kinds[0] if len(kinds) == 1 else None


def _place(item: Mapping[str, Any], artifacts: Sequence[Artifact]) -> CitedPlace:
    source, line = _text(item.get("source")), item.get("line")
    return CitedPlace(
        source=source,
        artifact=artifact_of(source, artifacts),
        line=line if isinstance(line, int) and not isinstance(line, bool) and line > 0 else None,
        text=_text(item.get("text")),
    )


def _first_rule(document: Mapping[str, Any]) -> str:
    cited = (_text(item.get("rule")) for item in _mappings(document.get("evidence")))
    return _text(document.get("rule")) or next((rule for rule in cited if rule), "")


def _fingerprint(value: Any) -> str | None:
    key = value.get("key") if isinstance(value, Mapping) else value
    return _text(key) or None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""


def _number(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    return float(value) if is_number else 0.0


def _mappings(value: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple(item for item in value if isinstance(item, Mapping)) if isinstance(value, list | tuple) else ()


def _words(value: Any) -> tuple[str, ...]:
    """A list of sentences. Newer rulesets may say more of each: then its text, summary or title is taken."""
    if not isinstance(value, list | tuple):
        return ()
    said = (_said(item) if isinstance(item, Mapping) else _text(item) for item in value)
    return tuple(text for text in said if text)


def _said(item: Mapping[str, Any]) -> str:
    return next((_text(item[key]) for key in ("text", "summary", "title", "cause", "source") if item.get(key)), "")
