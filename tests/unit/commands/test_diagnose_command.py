"""``archiver diagnose`` and ``archiver rules`` on files: what they print and how they end."""

import json
import random
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from archiver.commands import loose
from archiver.commands.diagnose import diagnose_command, rules_command
from archiver.core.manifest import to_json
from archiver.core.model import Artifact, ArtifactKind, Completeness
from archiver.diagnosis.report import verdict_text
from tests.fakes.manifests import manifest

CASE = Path(__file__).parents[2] / "data" / "cases" / "shared" / "case-002.yaml"


LOG = b"starting\n" * 40 + b"ModuleNotFoundError: No module named 'einops'\n"


def ran(command, *arguments, given=None):
    return CliRunner().invoke(command, [str(argument) for argument in arguments], obj=None, input=given)


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


@pytest.mark.parametrize(
    ("name", "source"),
    [("driver.log", "driver.log"), ("out.txt", "out.txt (driver)"), ("worker-1.err", "worker-1.err")],
)
def test_any_log_is_read_as_one(tmp_path, name, source):
    (tmp_path / name).write_bytes(LOG)
    verdict = json.loads(ran(diagnose_command, tmp_path / name, "--json").stdout)
    assert (verdict["id"], verdict["cause"]) == (name, "missing-module")
    assert [(each["source"], each["line"]) for each in verdict["evidence"]] == [(source, 41)]


def test_a_log_of_json_lines_is_no_case(tmp_path):
    lines = [json.dumps({"level": "error", "logs": "x", "msg": "ModuleNotFoundError: No module named 'a'"})] * 3
    (tmp_path / "driver.log").write_text("\n".join(lines))
    assert json.loads(ran(diagnose_command, tmp_path / "driver.log", "--json").stdout)["cause"] == "missing-module"


@pytest.mark.parametrize("given", [LOG, CASE.read_bytes()], ids=["log", "case"])
def test_standard_input_is_a_log_or_a_case(given):
    done = ran(diagnose_command, "-", "--json", given=given)
    assert json.loads(done.stdout)["cause"] == ("missing-module" if given is LOG else "host-oom-container")


def test_a_log_larger_than_any_case_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(loose, "CASE_BYTES", 100)
    (tmp_path / "driver.log").write_bytes(LOG)
    for done in (
        ran(diagnose_command, tmp_path / "driver.log", "--json"),
        ran(diagnose_command, "-", "--json", given=LOG),
    ):
        verdict = json.loads(done.stdout)
        assert (verdict["cause"], verdict["evidence"][0]["line"]) == ("missing-module", 41)


def zipped(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return path


def bundled(path, log=LOG, **changed):
    """A bundle by hand: one log, one that is listed and has no file, and one file that the manifest does not know."""
    names = ("logs/driver.log", "logs/gone.log")
    artifacts = tuple(
        Artifact(name, ArtifactKind.LOG, "key", len(log), 0, 41, "", Completeness.COMPLETE, "whole") for name in names
    )
    table = {"files": {"logs/driver.log": {"path": "logs/driver.log"}, "logs/gone.log": {"path": None}}}
    files = {
        "manifest.json": to_json(replace(manifest(), artifacts=artifacts)),
        "logs/driver.log": log,
        "../outside.log": b"x",
        "bundle.json": json.dumps(table),
    }
    return zipped(path, {name: body for name, body in (files | changed).items() if body is not None})


def test_a_bundle_is_judged_without_archive_and_cluster(tmp_path):
    done = ran(diagnose_command, bundled(tmp_path / "b.zip"), "--json")
    verdict = json.loads(done.stdout)
    assert (verdict["cause"], verdict["evidence"][0]["line"]) == ("missing-module", 41), done.output


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"bundle.json": None}, "no bundle of the archiver"),
        ({"bundle.json": "[" * 100_000}, "bundle.json is not JSON"),
        ({"manifest.json": "{"}, "the manifest is not JSON"),
        ({"manifest.json": None}, "it has no manifest.json"),
        ({"logs/driver.log": None}, "it has no logs/driver.log"),
    ],
)
def test_what_is_no_bundle_is_said_in_a_sentence(tmp_path, changed, said):
    done = ran(diagnose_command, bundled(tmp_path / "b.zip", **changed))
    assert done.exit_code == 1
    assert said in done.output
    assert "Traceback" not in done.output


def test_a_damaged_bundle_is_said_in_a_sentence(tmp_path):
    path = bundled(tmp_path / "b.zip", log=random.Random(1).randbytes(5000))
    body = bytearray(path.read_bytes())
    at = body.index(b"logs/driver.log") + 1000
    body[at : at + 50] = bytes(50)
    path.write_bytes(body)
    done = ran(diagnose_command, path)
    assert (done.exit_code, "logs/driver.log is damaged" in done.output) == (1, True), done.output


def test_a_stored_verdict_of_an_older_ruleset_is_shown_with_what_it_has():
    text = verdict_text({"cause": "gpu-oom", "summary": "Out of memory.", "evidence": [{"source": "d", "line": 3}]})
    assert "gpu-oom" in text
    assert "d:3" in text


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
