"""docs/causes.md, written from the rules. A test holds the file to it."""

from itertools import groupby

from archiver.diagnosis.confidence import FORMULA
from archiver.diagnosis.loader import LINE_KEY
from archiver.diagnosis.ruleset import Leaf, Role, Rule, Ruleset
from archiver.diagnosis.shape import as_map

_HEAD = """# Causes

Written from the rules in `archiver/diagnosis/rules/` by `archiver.diagnosis.docs`; change the rules, not this page.

A verdict names one of these causes, cites the lines and fields that prove it, and says who can mend it. Precedence 0 is
the strongest: of two established causes the one with the lower number is the root, unless one of them yields to the other.

## Confidence

{formula}

Strength of a rule: *certain* — the software itself states the cause; *strong* — a message with one usual cause;
*medium* — needs a second look; *weak* — a word that points somewhere.
"""


def causes_page(ruleset: Ruleset) -> str:
    """The whole page as Markdown."""
    leaves = sorted(
        ruleset.leaves.values(), key=lambda leaf: (leaf.category in ("unknown", "none"), leaf.category, leaf.id)
    )
    parts = [_HEAD.format(formula=FORMULA)]
    for category, members in groupby(leaves, key=lambda leaf: leaf.category):
        parts.append(f"## {category}\n")
        parts += [_leaf(leaf, [rule for rule in ruleset.rules if rule.leaf == leaf.id]) for leaf in members]
    parts.append("## Consequences: never a cause by themselves\n")
    parts += [_cascade(rule) for rule in ruleset.rules if rule.role is Role.CASCADE]
    parts.append("\n## Texts that are evidence of nothing\n")
    parts += [f"- `{hint.pattern.pattern}`" for hint in ruleset.hints]
    return "\n".join(parts) + "\n"


def _leaf(leaf: Leaf, rules: list[Rule]) -> str:
    lines = [f"### {leaf.id}\n", f"**{leaf.title}.** Owner: {leaf.owner}. Precedence {leaf.tier}. {leaf.summary}\n"]
    if leaf.next_steps:
        lines.append("Next: " + " ".join(leaf.next_steps) + "\n")
    if leaf.yields_to:
        lines.append("Yields to: " + ", ".join(leaf.yields_to) + ".\n")
    if leaf.needs:
        lines.append("Helps to tell: " + ", ".join(leaf.needs) + ".\n")
    lines += [f"- `{rule.id}` ({rule.role}, {rule.strength.name.lower()}): {_example(rule)}" for rule in rules]
    return "\n".join(lines) + "\n"


def _example(rule: Rule) -> str:
    example = rule.examples.hits[0]
    if isinstance(example, str):
        return f"`{example.strip()}`"
    return ", ".join(f"{key} {value}" for key, value in as_map(example).items() if key != LINE_KEY)


def _cascade(rule: Rule) -> str:
    return f"- `{rule.id}`: {_example(rule)} → look for {', '.join(rule.suggests) or 'the first failure'}"
