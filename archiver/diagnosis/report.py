"""What the command line prints of diagnoses and rules: parsed input in, text out. Not the commands themselves."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from archiver.diagnosis.engine import diagnose
from archiver.diagnosis.evidence import Evidence
from archiver.diagnosis.examples import failures
from archiver.diagnosis.loader import load_ruleset
from archiver.diagnosis.ruleset import Rule, Ruleset
from archiver.diagnosis.verdict import Citation, Verdict
from archiver.errors import UserError


def diagnose_cases(cases: Mapping[str, object], ruleset: Ruleset) -> list[Verdict]:
    """One verdict for each name → parsed case, in that order. The name stands in for a missing id."""
    verdicts = []
    for name, case in cases.items():
        evidence = Evidence.from_case(case)
        verdicts.append(diagnose(evidence if evidence.id else _named(evidence, name), ruleset))
    return verdicts


def _named(evidence: Evidence, name: str) -> Evidence:
    return Evidence(
        evidence.rayjob_status, evidence.rayjob_spec, evidence.pods, evidence.k8s_events, evidence.node_conditions,
        evidence.ray, evidence.workloads, evidence.logs, name,
    )  # fmt: skip


def verdict_text(verdict: Verdict) -> str:
    """A verdict for a person: the sentence, the proof, what to do, what was missing."""
    lines = [f"{verdict.id or 'case'}: {verdict.cause} ({verdict.title}), {verdict.confidence:.0%} sure"]
    lines.append(f"  {verdict.summary}")
    lines.append(f"  Owner: {verdict.owner}")
    lines += _block("Evidence", [_citation(citation) for citation in verdict.evidence])
    lines += _block("Symptoms", [f"{symptom.text} (of {symptom.of})" for symptom in verdict.symptoms])
    lines += _block("Other candidates", [f"{cause} {sure:.0%}" for cause, sure in verdict.candidates[1:]])
    lines += _block("Missing", verdict.missing)
    lines += _block("Notes", verdict.notes)
    lines += _block("Next steps", verdict.next_steps)
    lines += _block("Advice", [f"{item.setting}: {item.change} {item.why}" for item in verdict.advice])
    lines.append(f"  More: {verdict.docs}   ruleset {verdict.ruleset}")
    return "\n".join(lines)


def _block(title: str, items: Sequence[str]) -> list[str]:
    return [f"  {title}:", *(f"    {item}" for item in items)] if items else []


def _citation(citation: Citation) -> str:
    place = f"{citation.source}:{citation.line}"
    if citation.object:
        place = f"{citation.object} {citation.field}"
    return f"{place}  {citation.text.partition(chr(10))[0]}"


def check_rules(directory: Path) -> tuple[str, bool]:
    """Load the shipped rules with a directory's on top and run every example; the text, and whether all is well."""
    try:
        ruleset = load_ruleset(directory)
    except UserError as error:
        return str(error), False
    wrong = list(failures(ruleset))
    count = sum(len(rule.examples.hits) + len(rule.examples.misses) for rule in ruleset.rules)
    text = "\n".join(wrong) or f"{len(ruleset.rules)} rules, {count} examples: all do what they say."
    return text, not wrong


def list_rules(ruleset: Ruleset) -> str:
    """One line a rule: id, leaf, role, strength and where it stands."""
    rows = [
        f"{rule.id:<28} {rule.leaf or '-':<28} {rule.role:<13} {rule.strength.name.lower():<8} {rule.where}"
        for rule in sorted(ruleset.rules, key=lambda rule: (rule.leaf, rule.id))
    ]
    return "\n".join([f"ruleset {ruleset.version}", *rows])


def explain(ruleset: Ruleset, name: str) -> str:
    """What a rule or a leaf is. Raises UserError for a name that is neither."""
    rule = ruleset.rule(name)
    if rule is not None:
        return "\n".join(_rule_lines(rule))
    leaf = ruleset.leaves.get(name)
    if leaf is None:
        raise UserError(f"There is no rule and no cause {name!r}. `archiver rules list` names them all.")
    own = [rule for rule in ruleset.rules if rule.leaf == name]
    lines = [f"{leaf.id}: {leaf.title} ({leaf.category}, owner {leaf.owner}, precedence {leaf.tier})", leaf.summary]
    lines += _block("Yields to", leaf.yields_to)
    lines += _block("Next steps", leaf.next_steps)
    return "\n".join([*lines, *(line for rule in own for line in ("", *_rule_lines(rule)))])


def _rule_lines(rule: Rule) -> Iterator[str]:
    yield f"rule {rule.id}: {rule.role} of {rule.leaf or 'no cause'}, {rule.strength.name.lower()} ({rule.where})"
    for pattern in rule.patterns:
        yield f"  line   {pattern.pattern}"
    for fact in rule.facts:
        yield "  fact   " + ", ".join(f"{name} {pattern.pattern}" for name, pattern in fact.conditions)
    for pattern in rule.unless:
        yield f"  unless {pattern.pattern}"
    if rule.versions:
        yield f"  versions {rule.versions}"
    if rule.sources:
        yield f"  only in {', '.join(sorted(rule.sources))}"
    for example in rule.examples.hits:
        yield f"  e.g.   {example}"
