"""Runs the examples that each rule carries. Not a test of a verdict: one rule against one text."""

from collections.abc import Iterator, Mapping

from archiver.diagnosis.facts import Fact
from archiver.diagnosis.lines import clean
from archiver.diagnosis.ruleset import Rule, Ruleset, matched, without_hints
from archiver.diagnosis.shape import as_map, as_text
from archiver.diagnosis.signals import fact_hits, frames_hit
from archiver.diagnosis.traceback import Trace, TraceReader


def failures(ruleset: Ruleset) -> Iterator[str]:
    """One sentence for each example that does not do what it says."""
    for rule in ruleset.rules:
        for example in rule.examples.hits:
            if not hits(ruleset, rule, example):
                yield f"{rule.where}: rule {rule.id}: should hit: {_shown(example)}"
        for example in rule.examples.misses:
            if hits(ruleset, rule, example):
                yield f"{rule.where}: rule {rule.id}: should not hit: {_shown(example)}"


def hits(ruleset: Ruleset, rule: Rule, example: object) -> bool:
    """Whether a rule hits a text (through the scanner, as in a log) or a fact."""
    if isinstance(example, Mapping):
        fact = _fact(as_map(example))
        return fact_hits(rule, fact)
    raw = as_text(example).encode()
    if rule.frames:
        return any(frames_hit(rule, trace) for trace in _traces(raw))
    if rule not in ruleset.progress and not any(
        ruleset.scanned[number] is rule for number, _end in ruleset.scanner.scan(raw)
    ):
        return False
    return matched(rule, without_hints(ruleset.hints, clean(raw).text)) is not None


def _traces(raw: bytes) -> Iterator[Trace]:
    reader = TraceReader()
    for number, line in enumerate(raw.split(b"\n"), 1):
        yield from reader.feed(number, clean(line))
    yield from reader.flush()


def _fact(example: Mapping[str, object]) -> Fact:
    return Fact(
        kind=as_text(example.get("kind")),
        field=as_text(example.get("field")),
        reason=as_text(example.get("reason")),
        text=as_text(example.get("text")),
        source="example",
        object=as_text(example.get("object")),
        role=as_text(example.get("role")),
    )


def _shown(example: object) -> str:
    if isinstance(example, Mapping):
        return ", ".join(f"{key}={value}" for key, value in example.items() if not as_text(key).startswith("__"))
    return as_text(example)
