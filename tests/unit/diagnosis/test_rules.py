"""Every rule does what its examples say; a mistake in a rule file is told with file, line and rule."""

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from archiver.diagnosis import Evidence, RuleError, Ruleset, diagnose, load_ruleset
from archiver.diagnosis.docs import causes_page
from archiver.diagnosis.examples import failures
from archiver.diagnosis.filters import filter_text
from archiver.diagnosis.report import check_rules, explain, list_rules
from archiver.diagnosis.ruleset import Role
from archiver.errors import UserError
from tests.unit.diagnosis.test_noise import AT_WORK, QUIET, noise

RULE = """
category: memory
leaves:
  gpu-oom:
    rules:
      - id: own-oom
        strength: certain
        patterns: ['MYLIB_OOM']
        hits: ['MYLIB_OOM at 0x1']
        misses: ['fine']
"""


def test_every_example_of_every_rule_does_what_it_says(ruleset: Ruleset) -> None:
    assert list(failures(ruleset)) == []


def test_the_taxonomy_is_whole(ruleset: Ruleset) -> None:
    categories = {leaf.category for leaf in ruleset.leaves.values()}
    assert len(ruleset.leaves) == 69  # 68 causes and `none`
    assert len(categories - {"none"}) == 12


def test_every_cause_has_a_root_rule(ruleset: Ruleset) -> None:
    with_rule = {rule.leaf for rule in ruleset.rules if rule.role is Role.ROOT}
    assert set(ruleset.leaves) - with_rule == {"unknown"}


def test_the_page_of_causes_is_current(ruleset: Ruleset) -> None:
    page = Path(__file__).parents[3] / "docs" / "causes.md"
    assert page.read_text("utf-8") == causes_page(ruleset)


def test_a_directory_adds_a_rule(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(RULE)
    extended = load_ruleset(tmp_path)
    verdict = diagnose(Evidence.from_case({"logs": {"worker": "MYLIB_OOM at 0x7"}}), extended)
    assert verdict.cause == "gpu-oom"
    assert verdict.evidence[0].rule == "own-oom"


def test_a_directory_replaces_a_shipped_rule(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(RULE.replace("own-oom", "torch-cuda-oom"))
    extended = load_ruleset(tmp_path)
    rule = extended.rule("torch-cuda-oom")
    assert rule is not None
    assert [pattern.pattern for pattern in rule.patterns] == ["MYLIB_OOM"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("strength: certain", "strength: sure"), r"own\.yaml:6: rule own-oom: 'strength' must be one of"),
        (("MYLIB_OOM'", "MYLIB_(OOM'"), r"own\.yaml:6: rule own-oom: the pattern .* is no regular expression"),
        (("        misses: ['fine']\n", ""), r"own\.yaml:6: rule own-oom: it needs at least one example"),
        (("patterns:", "pattern:"), r"own\.yaml:6: rule own-oom: the key 'pattern' is unknown"),
        (("gpu-oom:", "gpu-oops:"), r"own\.yaml:6: rule own-oom: there is no leaf 'gpu-oops'"),
        (
            ("id: own-oom", "id: own-oom\n        id: own-oom"),
            r"own\.yaml:7: not valid YAML: the key 'id' is there twice",
        ),
        (("['fine']", "['fine'"), r"own\.yaml:\d+: not valid YAML"),
        (
            ("strength:", "frames: [/mylib/]\n        facts: [{kind: job}]\n        strength:"),
            "with `frames` it must be a root",
        ),
    ],
)
def test_a_mistake_is_told_with_file_line_and_rule(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    (tmp_path / "own.yaml").write_text(RULE.replace(*change))
    with pytest.raises(RuleError, match=says):
        load_ruleset(tmp_path)


def test_a_missing_directory_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="does not exist"):
        load_ruleset(tmp_path / "nowhere")


def test_the_version_changes_with_the_content(tmp_path: Path, ruleset: Ruleset) -> None:
    (tmp_path / "own.yaml").write_text(RULE)
    assert load_ruleset(tmp_path).version != ruleset.version
    assert re.fullmatch(r"1-[0-9a-f]{10}", ruleset.version)


def test_the_rule_test_command_names_a_failing_example(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(RULE.replace("['fine']", "['MYLIB_OOM too']"))
    text, is_well = check_rules(tmp_path)
    assert not is_well
    assert "rule own-oom: should not hit: MYLIB_OOM too" in text


def test_the_rule_test_command_passes_a_good_directory(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(RULE)
    text, is_well = check_rules(tmp_path)
    assert is_well
    assert "all do what they say" in text


def test_rules_are_listed_and_explained(ruleset: Ruleset) -> None:
    assert "torch-cuda-oom" in list_rules(ruleset)
    assert "CUDA out of memory" in explain(ruleset, "torch-cuda-oom")
    assert "Next steps" in explain(ruleset, "gpu-oom")
    with pytest.raises(UserError, match="no rule and no cause"):
        explain(ruleset, "nonsense")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^ValueError: ", "ValueError: "),
        ("Node .*is lost forever", "is lost forever"),
        ("(?i)no gap", "(?i)no gap"),
        ("oops|Node .*is lost", "oops|is lost"),
        (r"\S+ is required", " is required"),
    ],
)
def test_the_scanner_looks_for_the_telling_part(pattern: str, text: str) -> None:
    assert filter_text(pattern) == text


def test_no_pattern_takes_for_ever_on_a_hostile_line(ruleset: Ruleset) -> None:
    """A pattern with nested repeats would run into the test's time limit here."""
    hostile = [character * 4000 for character in "=a A./-_:0(\"'|#*~["] + ["a." * 2000, "==a" * 1300, "Aa" * 2000]
    for rule in ruleset.rules:
        for pattern in (*rule.patterns, *rule.unless):
            assert all(len(text) == len(pattern.sub(lambda found: found[0], text)) for text in hostile)


def test_the_scanner_leaves_quiet_lines_alone(ruleset: Ruleset) -> None:
    """A pattern whose telling part stands in every healthy log makes the scan twenty times slower."""
    dice = random.Random(7)
    quiet = noise(QUIET + AT_WORK, 3000, dice).encode()
    ruleset.scanner.prepare()
    hits = Counter(ruleset.scanned[number].id for number, _end in ruleset.scanner.scan(quiet))
    assert sum(hits.values()) < 1200, hits
