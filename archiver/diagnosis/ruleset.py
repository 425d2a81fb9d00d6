"""The rules as data: leaves, rules, hint texts, and the scanner made of them. Not their meaning for a case."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from archiver.diagnosis.scanner import Scanner


class Role(StrEnum):
    """What a hit of a rule says."""

    ROOT = "root"
    CASCADE = "cascade"
    CONFIRMATION = "confirmation"
    ADVICE = "advice"
    TEARDOWN = "teardown"
    PROGRESS = "progress"


class Strength(IntEnum):
    """How far one hit alone carries the verdict."""

    HINT = 0
    WEAK = 1
    MEDIUM = 2
    STRONG = 3
    CERTAIN = 4


@dataclass(frozen=True, slots=True)
class Leaf:
    """One cause of the taxonomy. `tier` is its place in the precedence, 0 strongest."""

    id: str
    category: str
    title: str
    owner: str
    tier: int
    summary: str
    next_steps: tuple[str, ...] = ()
    yields_to: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FactMatch:
    """Conditions on one structured fact; each one given must be found in the field of that name."""

    conditions: tuple[tuple[str, re.Pattern[str]], ...]


@dataclass(frozen=True, slots=True)
class Examples:
    """Texts (or facts) that a rule must hit, and texts that it must not."""

    hits: tuple[object, ...]
    misses: tuple[object, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One signature, the same as no other. `suggests` are the leaves that a cascade may come from, likeliest first.

    With `frames` it speaks of tracebacks alone: of one whose root fits a pattern and was raised in a library whose
    files fit, where no line of its own tells more.
    """

    id: str
    leaf: str
    role: Role
    strength: Strength
    examples: Examples
    where: str
    patterns: tuple[re.Pattern[str], ...] = ()
    facts: tuple[FactMatch, ...] = ()
    frames: tuple[re.Pattern[str], ...] = ()
    sources: frozenset[str] = frozenset()
    unless: tuple[re.Pattern[str], ...] = ()
    suggests: tuple[str, ...] = ()
    symptom_of: str = ""
    owner: str = ""
    tier: int | None = None
    entity: str = ""
    versions: str = ""
    wants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hint:
    """Text that is evidence of nothing: it is cut out of a line before any rule sees it."""

    id: str
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Ruleset:
    """Everything that was loaded. `version` is a human number and a hash of the content."""

    version: str
    leaves: Mapping[str, Leaf]
    rules: tuple[Rule, ...]
    hints: tuple[Hint, ...]
    scanner: Scanner
    scanned: tuple[Rule, ...] = field(repr=False)
    progress: tuple[Rule, ...] = ()
    framed: tuple[Rule, ...] = ()

    def leaf(self, leaf_id: str) -> Leaf:
        """The leaf of that id; `unknown` for one that is not there."""
        return self.leaves.get(leaf_id) or self.leaves["unknown"]

    def rule(self, rule_id: str) -> Rule | None:
        """The rule of that id."""
        return next((rule for rule in self.rules if rule.id == rule_id), None)


def matched(rule: Rule, text: str) -> re.Match[str] | None:
    """The first match of a rule's patterns in a cleaned line, unless an exclusion holds."""
    for pattern in rule.patterns:
        if found := pattern.search(text):
            return None if any(exclusion.search(text) for exclusion in rule.unless) else found
    return None


def without_hints(hints: tuple[Hint, ...], text: str) -> str:
    """The line with every hint text cut out."""
    for hint in hints:
        text = hint.pattern.sub(" ", text)
    return text
