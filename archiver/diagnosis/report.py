"""What the command line prints of diagnoses and rules: parsed input in, text out. Not the commands themselves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from archiver.diagnosis.engine import diagnose
from archiver.diagnosis.evidence import Evidence
from archiver.diagnosis.examples import failures
from archiver.diagnosis.loader import load_ruleset
from archiver.diagnosis.ruleset import Rule, Ruleset
from archiver.diagnosis.shape import as_list, as_text, maps
from archiver.diagnosis.verdict import Verdict
from archiver.errors import UserError


def diagnose_cases(cases: Mapping[str, object], ruleset: Ruleset) -> list[Verdict]:
    """One verdict for each name → parsed case, in that order. The name stands in for a missing id."""
    verdicts = []
    for name, case in cases.items():
        evidence = Evidence.from_case(case)
        verdicts.append(diagnose(evidence if evidence.id else replace(evidence, id=name), ruleset))
    return verdicts


def verdict_text(document: Mapping[str, object]) -> str:
    """A verdict's document (``Verdict.to_json``) for a person: the sentence, the proof, what to do, what was missing.

    One of an older ruleset may lack keys that are newer than it.
    """
    lines = [f"{document.get('id') or 'case'}: {_headline(document)}"]
    lines.append(f"  {as_text(document.get('summary'))}")
    lines.append(f"  Owner: {as_text(document.get('owner'))}")
    lines += _block("Evidence", [_citation(each) for each in maps(document.get("evidence"))])
    lines += _block(
        "Symptoms", [f"{each.get('text')} (of {each.get('of')})" for each in maps(document.get("symptoms"))]
    )
    others = list(maps(document.get("candidates")))[1:]
    lines += _block("Other candidates", [f"{each.get('cause')} {_percent(each.get('confidence'))}" for each in others])
    for title, key in (("Missing", "missing"), ("Notes", "notes"), ("Next steps", "next_steps")):
        lines += _block(title, [as_text(each) for each in as_list(document.get(key))])
    advice = maps(document.get("advice"))
    lines += _block("Advice", [f"{each.get('setting')}: {each.get('change')} {each.get('why')}" for each in advice])
    lines.append(f"  More: {as_text(document.get('docs'))}   ruleset {as_text(document.get('ruleset'))}")
    return "\n".join(lines)


def _headline(document: Mapping[str, object]) -> str:
    cause, title = as_text(document.get("cause")), as_text(document.get("title"))
    return f"{cause} ({title}), {_percent(document.get('confidence'))} sure"


def _percent(value: object) -> str:
    return f"{value:.0%}" if isinstance(value, int | float) else "not"


def _block(title: str, items: Sequence[str]) -> list[str]:
    return [f"  {title}:", *(f"    {item}" for item in items)] if items else []


def _citation(cited: Mapping[str, object]) -> str:
    place = f"{cited.get('object')} {cited.get('field', '')}" if cited.get("object") else ""
    place = place or f"{cited.get('source')}:{cited.get('line')}"
    return f"{place}  {as_text(cited.get('text')).partition(chr(10))[0]}"


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
