"""The command line over a hand-built archive: what it prints, where, and with which exit code."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from archiver.commands import COMMANDS, Doors, Finding, ReindexReport, ReprocessReport, ReprocessRequest, VerifyReport
from archiver.commands.logs import manner_of
from archiver.errors import StoreUnavailable
from archiver.read.reprocess import CauseChange
from archiver.read.views import AttemptView, JobView
from archiver.settings import SettingLine
from tests.web import samples
from tests.web.sample_reader import SampleReader

MAIN = "llama-ft-7b"


class Archive:
    """Doors to a sample archive, and what they report."""

    def __init__(self) -> None:
        self.reader = SampleReader()
        self.found: tuple[Finding, ...] = ()
        self.asked: ReprocessRequest | None = None

    @asynccontextmanager
    async def open_reader(self) -> AsyncIterator[SampleReader]:
        yield self.reader

    async def verify(self) -> VerifyReport:
        return VerifyReport(3, 12, 4 << 20, self.found)

    async def reindex(self) -> ReindexReport:
        return ReindexReport(3, 3, 0, self.found)

    async def reprocess(self, request: ReprocessRequest, ray_address: str | None) -> ReprocessReport:
        self.asked, self.ray_address = request, ray_address
        changes = (CauseChange("user-exception", "missing-module", 2, ("ml-a/x attempt 1", "ml-b/\x1by attempt 2")),)
        dry, found = request.is_dry_run, self.found
        return ReprocessReport("9-ab", dry, 5, 3, 4, len(found), changes, found)

    async def report(self, reader: object, view: JobView, attempt: AttemptView) -> bytes:
        return f"<p>{view.row.name}, attempt {attempt.number}".encode()

    def doors(self) -> Doors:
        lines = [SettingLine("cluster", "prod", "ARCHIVER_CLUSTER", "name of this Kubernetes cluster")]
        return Doors(self.open_reader, self.verify, self.reindex, self.reprocess, lambda: lines, self.report)  # type: ignore[arg-type]


@pytest.fixture
def archive() -> Archive:
    return Archive()


@pytest.fixture
def main() -> click.Group:
    group = click.Group()
    for command in COMMANDS:
        group.add_command(command)
    return group


@pytest.fixture
def call(archive: Archive, main: click.Group):
    def invoke(*words: str, env: dict[str, str] | None = None) -> Result:
        result = CliRunner().invoke(main, list(words), obj=archive.doors(), env=env)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


def test_lists_jobs_newest_first_in_a_table(call) -> None:
    lines = call("jobs", "--limit", "3").stdout.splitlines()
    assert lines[0].split() == ["NAMESPACE", "NAME", "STATUS", "ATTEMPTS", "CAUSE", "EVIDENCE", "AGE", "RAN"]
    assert [line.split()[1] for line in lines[1:]] == ["ranker-train", MAIN, "nightly-etl"]
    assert "missing-module (sure)" in lines[2]


def test_lists_without_headers_and_narrowed(call) -> None:
    assert call("jobs", "-n", "rl", "--no-headers").stdout.split()[:3] == ["rl", "rl-selfplay", "failed"]


def test_a_list_in_json_has_the_fields_of_the_api(call) -> None:
    rows = json.loads(call("jobs", "--status", "succeeded", "-o", "json").stdout)["jobs"]
    assert [row["name"] for row in rows] == ["vit-sweep-14"]
    assert rows[0]["at"].endswith("Z")


def test_a_list_in_yaml_is_yaml(call) -> None:
    assert yaml.safe_load(call("jobs", "-q", MAIN, "-o", "yaml").stdout)["jobs"][0]["completeness"] == "partial"


def test_a_list_of_names_is_of_uids_because_names_are_used_again(call) -> None:
    assert call("jobs", "-q", MAIN, "-o", "name").stdout == f"uid-{MAIN}\n"


def test_a_list_longer_than_a_page_is_followed(call) -> None:
    assert len(call("jobs", "--limit", "66", "--no-headers").stdout.splitlines()) == 66


def test_an_empty_list_says_so_beside_the_output(call) -> None:
    result = call("jobs", "--team", "nobody")
    assert (result.stdout, result.stderr, result.exit_code) == ("", "no archived RayJob fits\n", 0)


def test_hostile_text_cannot_act_on_the_terminal(call, archive: Archive) -> None:
    archive.reader.rows = (
        samples.row("x", team=samples.Attribution("\x1b]0;owned\x07\x9b31m\u202eteam\n", "label:team")),
    )
    printed = call("jobs", "-o", "wide").stdout
    assert not any(ord(character) < 0x20 and character != "\n" for character in printed)
    assert "\\x9b31m\\u202eteam" in printed


def test_shows_the_answer_first(call) -> None:
    lines = call("show", MAIN).stdout.splitlines()
    assert lines[1].startswith("attempt 3 of 3: failed at ")
    assert lines[3] == samples.VERDICT.summary
    assert "  driver:1812  ModuleNotFoundError: No module named 'flash_attn'" in lines
    assert any(line.startswith("missing: logs/worker-gpu-0.log: lost.") for line in lines)
    assert any(line.startswith("logs/driver.log") and "partial" in line for line in lines)


def test_shows_an_attempt_without_a_verdict_in_the_words_of_kuberay(call) -> None:
    printed = call("show", "dedupe-1", "-n", "ml-b").stdout
    assert "no verdict; KubeRay and Ray say: FAILED, Failed, AppFailed, JOB_ENTRYPOINT_COMMAND_ERROR" in printed
    assert "driver's exit code 1" in printed


def test_shows_one_attempt_as_json(call) -> None:
    attempt = json.loads(call("show", f"uid-{MAIN}", "--attempt", "1", "-o", "json").stdout)
    assert (attempt["number"], attempt["status"]) == (1, "retried")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", "nothing"), 3, "no RayJob named 'nothing' is archived; `archiver jobs` lists all"),
        (("show", MAIN, "--attempt", "9"), 3, "llama-ft-7b has no attempt 9; archived are 1, 2, 3"),
        (("logs", MAIN, "--artifact", "nope"), 3, "attempt 3 has no artifact 'nope'"),
        (("logs", MAIN, "--artifact", "logs/"), 2, "fits several artifacts"),
        (("logs", MAIN, "--lines", "9-3"), 2, "is no range"),
        (("logs", MAIN, "--lines", "3", "--tail", "2"), 2, "exclude each other"),
        (("jobs", "--since", "soon"), 2, "is no time"),
        (("jobs", "-A", "-n", "x"), 2, "exclude each other"),
        (("logs", "bad-spec"), 3, "attempt 1 has no log"),
    ],
)
def test_what_cannot_be_done_is_a_sentence_and_an_exit_code(call, words, code: int, said: str) -> None:
    result = call(*words)
    assert result.exit_code == code
    assert said in result.stderr
    assert result.stdout == ""


def test_a_name_in_two_namespaces_must_be_told_apart(call, archive: Archive) -> None:
    archive.reader.rows = (samples.row("twin"), samples.row("twin", uid="uid-other", namespace="ml-b"))
    result = call("show", "twin")
    assert (result.exit_code, "prod/ml-a, prod/ml-b; choose with -n and --cluster" in result.stderr) == (2, True)
    assert "(uid-other)" in call("show", "twin", "-n", "ml-b").stdout


def test_of_a_name_that_was_used_again_the_newest_is_shown(call, archive: Archive) -> None:
    archive.reader.rows = (samples.row("again"), samples.row("again", uid="uid-old"))
    result = call("show", "again")
    assert "2 RayJobs had the name again" in result.stderr
    assert "(uid-again)" in result.stdout


def test_without_a_database_it_says_so(call, archive: Archive) -> None:
    archive.reader.is_down = True
    result = call("jobs")
    assert (result.exit_code, result.stderr) == (1, "Error: Postgres does not answer on 127.0.0.1:5432\n")


def test_a_log_goes_into_a_pipe_byte_for_byte(call) -> None:
    result = call("logs", MAIN)
    assert result.stdout_bytes == samples.text_of(samples.DRIVER)
    assert result.exit_code == 4
    assert "logs/driver.log is partial: 14 KiB are missing after line 600" in result.stderr


def test_a_part_of_a_log_with_its_numbers_from_one(call) -> None:
    lines = call("logs", MAIN, "--lines", "8-10").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["step=7", "step=8", "step=9"]
    assert call("logs", MAIN, "--tail", "1").stdout.endswith("job failed with exit code 1\n")


def test_a_long_range_is_read_window_by_window(call) -> None:
    assert call("logs", MAIN, "--lines", "2-1700", "--timestamps").stdout_bytes.count(b"\n") == 1699


def test_timestamps_stand_before_the_text(call) -> None:
    first = call("logs", MAIN, "--lines", "8", "--timestamps").stdout
    stamp, text = first.split(" ", 1)
    assert stamp.endswith("Z")
    assert len(stamp.partition(".")[2]) == 10
    assert text.startswith("step=7")


@pytest.mark.parametrize(
    ("words", "env", "has_colour"), [([], "", True), ([], "yes please", False), (["--no-color"], "", False)]
)
def test_colours_go_to_a_terminal_unless_somebody_minds(
    main: click.Group, monkeypatch: pytest.MonkeyPatch, words: list[str], env: str, has_colour: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", env)
    asked = main.commands["logs"].make_context("logs", ["job", *words]).params
    assert manner_of(asked, is_terminal=True).colour is has_colour
    assert manner_of(asked, is_terminal=False).colour is False


def test_a_gap_is_said_beside_the_output(call) -> None:
    result = call("logs", MAIN, "--lines", "599-602")
    assert len(result.stdout.splitlines()) == 4
    assert "--- 14.0 KiB missing after line 600: rotated at least one file ---" in result.stderr


def test_a_log_as_json_is_one_document_a_line(call) -> None:
    documents = [json.loads(line) for line in call("logs", MAIN, "--lines", "5-6", "-o", "json").stdout.splitlines()]
    assert [document["line"] for document in documents] == [5, 6]
    assert documents[1]["text"].endswith(samples.HOSTILE)


def test_follows_a_log_until_its_attempt_has_ended(call, archive: Archive) -> None:
    archive.reader.growing = [10, 10, 25, None]
    assert call("logs", "ranker-train", "-f").stdout_bytes == samples.text_of(samples.DRIVER)
    assert archive.reader.growing == []


def test_greps_a_log_and_says_how_many_lines_there_are(call) -> None:
    result = call("logs", MAIN, "--artifact", "logs/driver.log", "--grep", "MODULENOTFOUND", "-C", "1")
    assert [line.split(b" ")[0] for line in result.stdout_bytes.splitlines()][1:] == [
        b"\x1b[31mModuleNotFoundError:", b"2026-08-19",
    ]  # fmt: skip
    assert "1 matching lines" in result.stderr
    assert call("logs", MAIN, "--grep", "x", "--tail", "3").exit_code == 2
    assert call("logs", MAIN, "--grep", "(", "--regex").exit_code == 2


def test_shows_a_line_and_its_neighbours(call) -> None:
    result = call("logs", MAIN, "--artifact", "logs/driver.log", "--around", "1812", "-C", "1", "-o", "json")
    assert [json.loads(line)["line"] for line in result.stdout.splitlines()] == [1811, 1812, 1813]


def test_searches_the_logs_of_many_rayjobs(call) -> None:
    result = call("search", "modulenotfound", "--team", "language", "--since", "7d")
    assert result.exit_code == 4  # the sample archive's searches stop before the end
    assert "ml-a/ranker-train attempt 1 logs/driver.log:1812: ModuleNotFoundError: No module named" in result.stdout
    assert "searching" in result.stderr
    assert call("search", "(", "-E").exit_code == 2


def test_downloads_what_is_archived_and_says_what_is_not(call, tmp_path: Path) -> None:
    result = call("download", MAIN, "--to", str(tmp_path / "evidence"))
    assert result.exit_code == 4
    assert (tmp_path / "evidence/logs/driver.log").read_bytes() == samples.text_of(samples.DRIVER)
    assert json.loads((tmp_path / "evidence/manifest.json").read_text())["attempt"] == 3
    assert "logs/worker-gpu-0.log: lost, the cluster was deleted 9 ms after the first sign of failure" in result.stderr


def test_a_download_that_differs_from_its_checksum_is_said(call, archive: Archive, tmp_path: Path) -> None:
    archive.reader.damage = b"!"
    result = call("download", MAIN, "--artifact", "submitter", "--to", str(tmp_path))
    assert result.exit_code == 4
    assert "its sha256 is" in result.stderr


def test_a_download_stays_inside_its_folder(call, archive: Archive, tmp_path: Path) -> None:
    archive.reader.rename = "../../outside.log"
    call("download", MAIN, "--to", str(tmp_path / "a/b"))
    assert (tmp_path / "a/b/outside.log").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_prints_events_and_whether_all_are_there(call) -> None:
    result = call("events", MAIN)
    assert "Warning   BackOff" in result.stdout
    assert "pod/llama-ft-7b-head" in result.stdout
    assert result.exit_code == 4
    assert "the Events are not all here (partial): the archiver started later" in result.stderr
    assert "Pulled" not in call("events", MAIN, "--warnings").stdout


def test_verify_says_how_much_it_looked_at_and_every_difference(call, archive: Archive) -> None:
    result = call("verify")
    assert (result.exit_code, result.stderr) == (0, "3 attempts, 12 artifacts, 4.0 MiB read: no differences\n")
    archive.found = (Finding("v1/prod/x.log.zst", "sha256 differs"),)
    result = call("verify")
    assert (result.exit_code, "v1/prod/x.log.zst   sha256 differs" in result.stdout) == (4, True)


def test_reprocess_says_what_would_change_cause_by_cause(call, archive: Archive) -> None:
    result = call("reprocess", "--dry-run", "--since", "2026-03-01")
    assert archive.asked == ReprocessRequest(datetime(2026, 3, 1, tzinfo=UTC), is_all=False, is_dry_run=True)
    head, line = result.stdout.splitlines()
    assert head.split() == ["FROM", "TO", "ATTEMPTS", "EXAMPLES"]
    assert line.split(maxsplit=3) == [
        "user-exception",
        "missing-module",
        "2",
        "ml-a/x attempt 1, ml-b/ attempt 2",
    ]
    assert result.stderr == (
        "ruleset 9-ab: 5 attempts judged, 2 would change, 3 unchanged, 4 judged by it already, 0 unreadable\n"
    )
    assert result.exit_code == 0


def test_reprocess_names_what_it_cannot_read(call, archive: Archive) -> None:
    archive.found = (Finding("v1/x/manifest.json", "the manifest is not JSON"),)
    result = call("reprocess", "--all")
    assert archive.asked == ReprocessRequest(None, is_all=True)
    assert result.stderr.splitlines()[1] == "unreadable: v1/x/manifest.json: the manifest is not JSON"
    assert result.exit_code == 4
    assert json.loads(call("reprocess", "-o", "json").stdout)["changes"][0]["after"] == "missing-module"


def test_reindex_counts(call) -> None:
    assert call("reindex").stderr == "3 manifests read, 3 attempts written\n"
    assert json.loads(call("reindex", "-o", "json").stdout) == {
        "manifests": 3,
        "written": 3,
        "removed": 0,
        "skipped": [],
    }


def test_settings_have_value_source_and_meaning(call) -> None:
    assert "cluster   prod    ARCHIVER_CLUSTER   name of this Kubernetes cluster" in call("settings").stdout


def test_every_command_documents_its_exit_codes(call, main: click.Group) -> None:
    for name in main.commands:
        assert "3 not found" in " ".join(call(name, "--help").stdout.split())


def test_lists_causes_dearest_first(call) -> None:
    lines = call("causes", "--since", "24h").stdout.splitlines()
    assert lines[0].split()[:3] == ["CAUSE", "CATEGORY", "FAILURES"]
    listed = json.loads(call("causes", "--since", "24h", "-o", "json").stdout)["causes"]
    assert [line.split()[0] for line in lines[1:]] == [cause["name"] for cause in listed]
    lost = [cause["gpu_seconds_lost"] for cause in listed]
    assert lost == sorted(lost, reverse=True)


def test_a_bundle_is_one_file_and_its_exit_code_says_whether_all_is_there(call, tmp_path: Path) -> None:
    result = call("download", MAIN, "--bundle", "--to", str(tmp_path / "out"))
    assert (result.exit_code, result.stdout) == (4, f"{tmp_path}/out/llama-ft-7b-attempt-3.zip\n")
    assert (tmp_path / "out/llama-ft-7b-attempt-3.zip").read_bytes() == b"<p>llama-ft-7b, attempt 3"


def test_a_bundle_that_breaks_off_leaves_no_file(call, archive: Archive, tmp_path: Path) -> None:
    archive.reader.bundle_error = StoreUnavailable("the bucket does not answer")
    assert call("download", MAIN, "--bundle", "--to", str(tmp_path)).exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_show_says_what_follows_and_which_setting_to_look_at(call) -> None:
    said = call("show", MAIN).stdout
    assert "driver:1813  exit code 1 of the driver (follows from it)" in said
    assert "setting: spec.ttlSecondsAfterFinished: Set it to 60 or more." in said
