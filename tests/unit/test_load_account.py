"""The mass test's own parts: who runs in it, what its drivers write, and what counts as explained."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.load import crowd
from tests.e2e.load.account import account, report, unexplained
from tests.e2e.load.harvest import Harvest, Kept, Wrote

DRIVER = Path(__file__).parents[1] / "e2e/cluster/images/ray-standin/files/usr/local/bin/standin-driver"
RAYS = (
    b"2026-12-01 03:00:00,000\tINFO job_manager.py:581 -- Runtime env is setting up.\nRunning entrypoint for job x: y\n"
)
TEXT = b"".join(b"line %d\n" % number for number in range(1000))


def artifact(
    *gaps: dict[str, Any], lines: int = 1002, completeness: str = "complete", reason: str = ""
) -> dict[str, Any]:
    return {
        "name": "logs/driver.log",
        "completeness": "partial" if gaps else completeness,
        "reason": reason,
        "masked": {},
        "gaps": list(gaps),
        "lines": lines,
    }


def gap(at_line: int, missing_bytes: int | None = None) -> dict[str, Any]:
    return {"reason": "source-gone", "detail": "the head was gone", "at_line": at_line, "missing_bytes": missing_bytes}


def wrote(data: bytes = TEXT, ended_at: float | None = 100.0, submission: str = "one-x") -> Wrote:
    return Wrote("one", submission, data, ended_at)


def kept(driver: bytes, row: dict[str, Any], submission: str = "one-x", uid: str = "u1", number: int = 1) -> Kept:
    attempt = {
        "number": number,
        "job_id": submission,
        "submission_mode": "HTTPMode",
        "margin_seconds": 1.5,
        "times": {"captured": "1970-01-01T00:01:42Z"},
        "artifacts": [row],
    }
    return Kept("one", uid, attempt, driver, [])


def test_a_whole_log_is_right() -> None:
    assert unexplained(wrote(), artifact(), RAYS + TEXT) is None


@pytest.mark.parametrize(
    ("driver", "row"),
    [
        (RAYS + TEXT[:-1], artifact()),
        (RAYS + TEXT[5:], artifact()),
        (RAYS + TEXT + TEXT, artifact()),
        (RAYS + TEXT, artifact(gap(1002, 5))),  # a gap where nothing is missing is no true gap
        (RAYS + TEXT[:80], artifact(gap(3), lines=12)),  # it is behind the end that something is missing
        (RAYS + TEXT[80:], artifact(gap(1002), lines=992)),
        (RAYS + TEXT[:80], artifact(gap(12, 10**9), lines=12)),
        (b"", artifact(completeness="lost")),
    ],
)
def test_what_is_missing_without_a_true_gap_is_wrong(driver: bytes, row: dict[str, Any]) -> None:
    assert unexplained(wrote(), row, driver)


@pytest.mark.parametrize(
    ("driver", "row"),
    [
        (RAYS + TEXT[:80], artifact(gap(13, len(TEXT) - 80), lines=13)),
        (RAYS + TEXT[:80], artifact(gap(14), lines=14)),
        (RAYS + TEXT[:80] + b"\n", artifact(gap(14), lines=14)),  # the archive ends a line that was cut
        (RAYS + TEXT, artifact(gap(1002))),  # nobody knew whether more was written
        (TEXT[-90:], artifact(gap(0), lines=10)),
        (RAYS + TEXT[:80] + TEXT[-90:], artifact(gap(13), lines=22)),
        (RAYS + TEXT[:70] + TEXT[790:880] + TEXT[-90:], artifact(gap(12), gap(22), lines=32)),
        (b"", artifact(completeness="lost", reason="no archiver was running")),
    ],
)
def test_a_true_gap_explains_what_is_missing(driver: bytes, row: dict[str, Any]) -> None:
    assert unexplained(wrote(), row, driver) is None


def test_a_killed_driver_may_have_noted_one_step_more_than_it_printed() -> None:
    assert unexplained(wrote(ended_at=None), artifact(), RAYS + TEXT[:-300]) is None
    assert unexplained(wrote(ended_at=None), artifact(), RAYS + TEXT[: len(TEXT) // 2])


def test_what_runs_without_an_attempt_is_lost_and_what_is_twice_is_counted() -> None:
    one, again = kept(RAYS + TEXT, artifact()), kept(RAYS + TEXT, artifact(), number=2)
    result = account(Harvest([wrote(), wrote(submission="other")], [one, again], ["u1", "u1"]), ["u1", "u2"])
    assert (result.lost_runs, result.whole_runs) == (1, 1)
    assert result.duplicates == 2  # the uid in the list, the submission in two attempts
    assert any("u2: the RayJob is not archived" in problem for problem in result.wrong)
    assert result.lags == [2.0]
    assert any("p50 2.0 s" in line for line in report(result))


def test_the_crowd_has_every_mode_and_what_the_issue_asks_for() -> None:
    members = crowd.crowd(200)
    modes = Counter(member.mode for member in members)
    assert set(modes) == {"K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode", "clusterSelector"}
    assert min(modes.values()) >= 20
    assert 60 <= sum(member.backoff_limit > 0 for member in members) <= 85
    assert 10 <= sum(member.is_deleted for member in members) <= 20
    assert all(0.2 <= member.seconds <= 20 for member in members)
    assert {member.shape for member in members} == {"text", "burst", "binary", "unended"}
    assert sum(member.bytes > 2_000_000 for member in members) >= 10
    assert members == crowd.crowd(200)


def test_a_small_crowd_has_every_mode_too() -> None:
    assert len({member.mode for member in crowd.crowd(40)}) == 5


def test_a_members_rayjob_deletes_its_cluster_at_once_and_runs_the_stand_in() -> None:
    images = {"ray-standin": "registry/ray-standin:dev"}
    for member in crowd.crowd(40):
        spec = crowd.document(member, "ns", images)["spec"]
        if member.mode == crowd.SHARED_MODE:
            assert spec["clusterSelector"] == {"ray.io/cluster": "shared"}
            continue
        head = spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
        assert (spec["ttlSecondsAfterFinished"], head["image"]) == (0, "registry/ray-standin:dev")
        assert spec.get("entrypoint", member.entrypoint) == member.entrypoint
        assert spec.get("backoffLimit", 0) == member.backoff_limit


@pytest.mark.parametrize("shape", ["text", "binary", "unended", "burst"])
def test_a_driver_prints_what_it_notes_and_ends_as_it_was_told(tmp_path: Path, shape: str) -> None:
    """The second attempt writes something else and ends otherwise."""
    outputs = []
    for attempt, code in enumerate((3, 0, 0), 1):
        command = f"--job one --seed 7 --bytes 5000 --seconds 0.2 --shape {shape} --exits 3,0 --truth {tmp_path}"
        environment = {"RAY_STANDIN_SUBMISSION_ID": f"sub{attempt}", "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run(
            [sys.executable, DRIVER, *command.split()], env=environment, stdout=subprocess.PIPE, check=False
        )
        assert ran.returncode == code
        assert (tmp_path / f"one.sub{attempt}.log").read_bytes() == ran.stdout
        assert json.loads((tmp_path / f"one.sub{attempt}.end").read_text())["code"] == code
        outputs.append(ran.stdout)
    assert len(set(outputs)) == 3
    assert min(map(len, outputs)) >= 4999
    assert all(one.endswith(b"\n") for one in outputs) == (shape != "unended")
