"""``archiver diagnose`` and ``archiver rules`` on files: what they print and how they end."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from archiver.commands.diagnose import diagnose_command, rules_command

CASE = Path(__file__).parents[2] / "data" / "cases" / "shared" / "case-002.yaml"


def ran(command, *arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments], obj=None)


def test_a_case_file_gets_the_documented_object():
    done = ran(diagnose_command, CASE, "--json")
    verdict = json.loads(done.stdout)
    assert done.exit_code == 0
    assert {"id", "cause", "category", "owner", "confidence", "evidence", "candidates", "symptoms"} <= verdict.keys()
    assert verdict["cause"] == "host-oom-container"


def test_several_files_give_one_line_each():
    done = ran(diagnose_command, CASE, CASE, "--json")
    assert [json.loads(line)["cause"] for line in done.stdout.splitlines()] == ["host-oom-container"] * 2


@pytest.mark.parametrize("body", [b"", b"\x00\xff\x1b[31m", b"{", b"- [unclosed", b"evidence: 7"])
def test_garbage_is_evidence_of_nothing_and_no_error(tmp_path, body):
    file = tmp_path / "case"
    file.write_bytes(body)
    done = ran(diagnose_command, file, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["cause"] == "unknown"


def test_hostile_text_does_not_act_on_the_terminal(tmp_path):
    file = tmp_path / "case.yaml"
    file.write_text(
        json.dumps({"evidence": {"logs": {"driver": "ModuleNotFoundError: No module named 'a\x1b]0;x\x07b'\n"}}})
    )
    done = ran(diagnose_command, file)
    assert done.exit_code == 0
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


def test_rules_are_listed_and_explained():
    assert "missing-module" in ran(rules_command, "list").stdout
    assert "No module named" in ran(rules_command, "explain", "missing-module").stdout


def test_an_unknown_rule_is_not_found():
    done = ran(rules_command, "explain", "no-such-rule")
    assert done.exit_code == 3
    assert "no-such-rule" in done.output


def test_a_folder_of_rules_with_a_mistake_is_named(tmp_path):
    (tmp_path / "mine.yaml").write_text("rules:\n  - id: 7\n")
    done = ran(rules_command, "test", tmp_path)
    assert done.exit_code == 4
    assert "mine.yaml" in done.output
