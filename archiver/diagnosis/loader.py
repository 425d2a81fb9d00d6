"""Reads rule files and checks everything in them. A mistake is told with file, line and rule."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import yaml

from archiver.diagnosis import scanner
from archiver.diagnosis.filters import filter_text
from archiver.diagnosis.ruleset import Examples, FactMatch, Hint, Leaf, Role, Rule, Ruleset, Strength
from archiver.diagnosis.shape import as_list, as_map, as_text
from archiver.errors import UserError

NUMBER = "1"
OWNERS = ("user", "platform", "hardware", "provider", "vendor", "unclear", "none")
FACT_FIELDS = ("kind", "field", "reason", "text", "object", "role")
_FILE_KEYS = {"category", "leaves", "rules", "hints"}
_LEAF_KEYS = {"title", "owner", "tier", "summary", "next_steps", "yields_to", "needs", "rules"}
_RULE_KEYS = {"id", "leaf", "role", "strength", "patterns", "facts", "sources", "unless", "suggests", "symptom_of"} | {
    "frames", "owner", "tier", "entity", "versions", "wants", "hits", "misses",
}  # fmt: skip
LINE_KEY = "__line__"


class RuleError(UserError):
    """A rule file has a mistake. The text names file, line and rule."""


@dataclass(frozen=True, slots=True)
class _Parts:
    leaves: dict[str, Leaf]
    rules: dict[str, Rule]
    hints: dict[str, Hint]


class _Loader(yaml.CSafeLoader):
    """Keeps the line of each mapping and refuses a key that is there twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen: set[str] = set()
        for key, _value in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} is there twice", problem_mark=key.start_mark)
            seen.add(key.value)
        built: dict[object, object] = super().construct_mapping(node, deep=deep)
        built[LINE_KEY] = node.start_mark.line + 1
        return built


def load_ruleset(extra_dir: Path | None = None) -> Ruleset:
    """The shipped rules, then those of a directory of the user: the same id replaces, a new id adds."""
    texts = shipped_texts()
    if extra_dir is not None:
        texts += directory_texts(extra_dir)
    return build_ruleset(texts)


def shipped_texts() -> list[tuple[str, str]]:
    """(file name, text) of each shipped rule file, in order of name."""
    folder = resources.files("archiver.diagnosis").joinpath("rules")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".yaml")), key=lambda file: file.name)
    return [(file.name, file.read_text("utf-8")) for file in files]


def directory_texts(directory: Path) -> list[tuple[str, str]]:
    """(path, text) of each rule file in a directory of the user."""
    if not directory.is_dir():
        raise RuleError(f"The rule directory {directory} does not exist. Create it or unset the setting.")
    return [(str(file), file.read_text("utf-8")) for file in sorted(directory.glob("*.y*ml"))]


def build_ruleset(texts: Sequence[tuple[str, str]]) -> Ruleset:
    """Rules from (file name, text) pairs; later ones replace earlier ones of the same id."""
    parts = _Parts({}, {}, {})
    for name, text in texts:
        _read_file(name, text, parts)
    _expand_tiers(parts)
    _check_references(parts)
    digest = hashlib.sha256("\x00".join(text for _name, text in texts).encode()).hexdigest()[:10]
    rules = tuple(parts.rules.values())
    scanned, filters = _filters(rules)
    progress = tuple(rule for rule in rules if rule.role is Role.PROGRESS and not rule.leaf)
    return Ruleset(
        version=f"{NUMBER}-{digest}",
        leaves=parts.leaves,
        rules=rules,
        hints=tuple(parts.hints.values()),
        scanner=scanner.build(filters),
        scanned=scanned,
        progress=progress,
        framed=tuple(rule for rule in rules if rule.frames),
    )


def _filters(rules: Iterable[Rule]) -> tuple[tuple[Rule, ...], list[str]]:
    """For each pattern its rule, and the text for the scanner."""
    chosen = [rule for rule in rules if (rule.role is not Role.PROGRESS or rule.leaf) and not rule.frames]
    pairs = [(rule, filter_text(pattern.pattern)) for rule in chosen for pattern in rule.patterns]
    return tuple(rule for rule, _text in pairs), [text for _rule, text in pairs]


def _read_file(name: str, text: str, parts: _Parts) -> None:
    try:
        document = yaml.load(text, _Loader)  # noqa: S506  (a safe loader, with line numbers)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise RuleError(f"{name}:{line}: not valid YAML: {error.problem}.") from error
    except yaml.YAMLError as error:
        raise RuleError(f"{name}: not valid YAML: {error}.") from error
    file = _Reader(name, as_map(document))
    file.check_keys(file.top, _FILE_KEYS, "file")
    category = as_text(file.top.get("category"))
    for leaf_id, entry in as_map(file.top.get("leaves")).items():
        if leaf_id != LINE_KEY:
            _read_leaf(file, as_text(leaf_id), as_map(entry), category, parts)
    for entry in file.mappings(file.top, "rules"):
        _add_rule(file, entry, "", parts)
    for entry in file.mappings(file.top, "hints"):
        hint_id = file.required(entry, "id")
        parts.hints[hint_id] = Hint(hint_id, file.pattern(entry, as_text(entry.get("pattern"))))


def _read_leaf(file: "_Reader", leaf_id: str, entry: Mapping[str, object], category: str, parts: _Parts) -> None:
    file.check_keys(entry, _LEAF_KEYS, leaf_id)
    if "title" in entry:
        parts.leaves[leaf_id] = Leaf(
            id=leaf_id,
            category=category or file.fail(entry, leaf_id, "the file names no category"),
            title=file.required(entry, "title", leaf_id),
            owner=file.choice(entry, "owner", OWNERS, leaf_id),
            tier=file.number(entry, "tier", leaf_id),
            summary=file.required(entry, "summary", leaf_id),
            next_steps=file.texts(entry, "next_steps"),
            yields_to=file.texts(entry, "yields_to"),
            needs=file.texts(entry, "needs"),
        )
    for rule in file.mappings(entry, "rules"):
        _add_rule(file, rule, leaf_id, parts)


def _add_rule(file: "_Reader", entry: Mapping[str, object], leaf_id: str, parts: _Parts) -> None:
    rule_id = file.required(entry, "id")
    file.check_keys(entry, _RULE_KEYS, rule_id)
    where = f"{file.name}:{entry.get(LINE_KEY, 0)}"
    if rule_id in parts.rules and parts.rules[rule_id].where.startswith(f"{file.name}:"):
        file.fail(entry, rule_id, "this id is there twice")
    rule = Rule(
        id=rule_id,
        leaf=as_text(entry.get("leaf")) or leaf_id,
        role=Role(file.choice(entry, "role", tuple(Role), rule_id, default="root")),
        strength=Strength[file.choice(entry, "strength", _STRENGTHS, rule_id, default="medium").upper()],
        examples=Examples(tuple(as_list(entry.get("hits"))), tuple(as_list(entry.get("misses")))),
        where=where,
        patterns=tuple(file.pattern(entry, text) for text in file.texts(entry, "patterns")),
        facts=tuple(_fact_match(file, entry, fact) for fact in file.mappings(entry, "facts")),
        frames=tuple(file.pattern(entry, text) for text in file.texts(entry, "frames")),
        sources=frozenset(file.texts(entry, "sources")),
        unless=tuple(file.pattern(entry, text) for text in file.texts(entry, "unless")),
        suggests=file.texts(entry, "suggests"),
    )
    parts.rules[rule_id] = _checked(file, entry, _with_rest(file, entry, rule))


def _with_rest(file: "_Reader", entry: Mapping[str, object], rule: Rule) -> Rule:
    return replace(
        rule,
        symptom_of=as_text(entry.get("symptom_of")),
        owner=file.choice(entry, "owner", OWNERS, rule.id, default="") if "owner" in entry else "",
        tier=file.number(entry, "tier", rule.id) if "tier" in entry else None,
        entity=as_text(entry.get("entity")),
        versions=as_text(entry.get("versions")),
        wants=file.texts(entry, "wants"),
    )


_STRENGTHS = tuple(strength.name.lower() for strength in Strength)


def _fact_match(file: "_Reader", entry: Mapping[str, object], fact: Mapping[str, object]) -> FactMatch:
    file.check_keys(fact, set(FACT_FIELDS), as_text(entry.get("id")))
    conditions = [(as_text(key), file.pattern(entry, as_text(value))) for key, value in fact.items() if key != LINE_KEY]
    return FactMatch(tuple(conditions))


def _checked(file: "_Reader", entry: Mapping[str, object], rule: Rule) -> Rule:
    if not rule.patterns and not rule.facts:
        file.fail(entry, rule.id, "it has neither patterns nor facts")
    if rule.frames and (rule.facts or not rule.patterns or rule.role is not Role.ROOT):
        file.fail(
            entry, rule.id, "with `frames` it must be a root with patterns for the exception's line, without facts"
        )
    if not rule.examples.hits or not rule.examples.misses:
        file.fail(entry, rule.id, "it needs at least one example under `hits` and one under `misses`")
    return rule


_TIERS = re.compile(r"@(\d)-(\d)")


def _expand_tiers(parts: _Parts) -> None:
    """`@0-6` under `yields_to` stands for every leaf of these tiers."""
    for leaf in list(parts.leaves.values()):
        named: list[str] = []
        for entry in leaf.yields_to:
            found = _TIERS.fullmatch(entry)
            lowest, highest = (int(found[1]), int(found[2])) if found else (1, 0)
            named += (
                [other.id for other in parts.leaves.values() if lowest <= other.tier <= highest] if found else [entry]
            )
        parts.leaves[leaf.id] = replace(leaf, yields_to=tuple(name for name in dict.fromkeys(named) if name != leaf.id))


def _check_references(parts: _Parts) -> None:
    if "unknown" not in parts.leaves:
        raise RuleError("The rules have no leaf `unknown`.")
    for rule in parts.rules.values():
        for leaf_id in (*((rule.leaf,) if rule.leaf else ()), *rule.suggests):
            if leaf_id not in parts.leaves:
                raise RuleError(f"{rule.where}: rule {rule.id}: there is no leaf {leaf_id!r}.")
        if rule.role is Role.ROOT and not rule.leaf:
            raise RuleError(f"{rule.where}: rule {rule.id}: a root needs a leaf.")
    for leaf in parts.leaves.values():
        for other in leaf.yields_to:
            if other not in parts.leaves:
                raise RuleError(f"Leaf {leaf.id}: there is no leaf {other!r} to yield to.")


@dataclass(frozen=True, slots=True)
class _Reader:
    """One file's content with errors that name the place."""

    name: str
    top: Mapping[str, object]

    def fail(self, entry: Mapping[str, object], rule_id: str, what: str) -> str:
        raise RuleError(f"{self.name}:{entry.get(LINE_KEY, 1)}: rule {rule_id or '?'}: {what}.")

    def check_keys(self, entry: Mapping[str, object], allowed: set[str], rule_id: str) -> None:
        for key in entry:
            if key != LINE_KEY and key not in allowed:
                self.fail(entry, rule_id, f"the key {key!r} is unknown; known are {', '.join(sorted(allowed))}")

    def required(self, entry: Mapping[str, object], key: str, rule_id: str = "") -> str:
        return as_text(entry.get(key)) or self.fail(entry, rule_id, f"{key!r} is missing")

    def texts(self, entry: Mapping[str, object], key: str) -> tuple[str, ...]:
        value = entry.get(key)
        return (value,) if isinstance(value, str) else tuple(as_text(item) for item in as_list(value))

    def number(self, entry: Mapping[str, object], key: str, rule_id: str) -> int:
        value = entry.get(key)
        if not isinstance(value, int) or not 0 <= value <= 9:
            self.fail(entry, rule_id, f"{key!r} must be a number from 0 to 9")
        return int(as_text(value))

    def choice(
        self, entry: Mapping[str, object], key: str, allowed: tuple[str, ...], rule_id: str, default: str = ""
    ) -> str:
        value = as_text(entry.get(key)) or default
        if value not in allowed:
            self.fail(entry, rule_id, f"{key!r} must be one of {', '.join(allowed)}")
        return value

    def mappings(self, entry: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
        items = as_list(entry.get(key))
        for item in items:
            if not isinstance(item, Mapping):
                self.fail(entry, as_text(entry.get("id")), f"each entry under {key!r} must be a mapping")
        return [as_map(item) for item in items]

    def pattern(self, entry: Mapping[str, object], text: str) -> re.Pattern[str]:
        try:
            return re.compile(text)
        except re.error as error:
            self.fail(entry, as_text(entry.get("id")), f"the pattern {text!r} is no regular expression: {error}")
            raise
