"""The same logs as loggers, launchers and collectors dress them: a prefix on every line, JSON, escaped newlines."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from archiver.diagnosis import Evidence, Ruleset, diagnose
from tests.unit.diagnosis.test_noise import FILES, is_right, load

Dress = Callable[[str], str]

TRACE = """\
Traceback (most recent call last):
  File "/app/train.py", line 3, in main
    rows = load(path)
  File "/app/data.py", line 9, in load
    return table[name]
"""
ENDS = ("KeyError: 'price'", "mylib.errors.SchemaDrift: price")


def each(prefix: str) -> Dress:
    """The prefix before every line."""
    return lambda text: "".join(f"{prefix}{line}\n" for line in text.rstrip("\n").split("\n"))


def as_fields(text: str) -> str:
    return json.dumps({"asctime": "2026-11-30 10:00:00", "levelname": "ERROR", "message": "x", "exc_info": text}) + "\n"


def as_docker_does(text: str) -> str:
    objects = ({"log": line + "\n", "stream": "stderr", "time": "now"} for line in text.rstrip("\n").split("\n"))
    return "".join(json.dumps(each) + "\n" for each in objects)


WHOLE: dict[str, Dress] = {
    "ray": each("\x1b[36m(RayTrainWorker pid=77, ip=10.0.0.3)\x1b[0m "),
    "vllm in ray": each("(EngineCore pid=9) (RayWorkerWrapper pid=7) ERROR 11-24 08:50:34 [worker_base.py:842] "),
    "cri": each("2026-11-30T21:15:13.000000000Z stderr F "),
    "kubectl --prefix": each("[pod/x-head-abc/ray-head] "),
    "compose": each("worker-1  | "),
    "torchrun": each("[rank3]: "),
    "mpirun": each("[1,3]<stderr>:"),
    "docker": as_docker_does,
}
TRACES_ONLY: dict[str, Dress] = {
    "logging": each("2026-11-30 10:00:00,123 - train - ERROR - "),
    "loguru": each("2026-11-30 10:00:00.123 | ERROR    | __main__:main:77 - "),
    "hydra": each("[2026-11-30 10:00:00,123][train][ERROR] - "),
    "glog": each("E1130 10:00:00.123456 140 train.py:77] "),
    "slurm": each("3: "),
    "pdsh": each("node-1: "),
    "stern": each("x-head-abc ray-head "),
    "indented": each("    "),
    "windows": lambda text: text.replace("\n", "\r\n"),
    "json": as_fields,
    "escaped": lambda text: f"ERROR it failed: {text.replace(chr(10), chr(92) + 'n')}\n",
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("dress", [*WHOLE.values(), *TRACES_ONLY.values()], ids=[*WHOLE, *TRACES_ONLY])
def test_a_traceback_is_read_in_any_dress(ruleset: Ruleset, dress: Dress, end: str) -> None:
    plain, verdict = (
        diagnose(Evidence.from_case({"id": "x", "evidence": {"logs": {"driver": text}}}), ruleset)
        for text in (TRACE + end, dress(TRACE + end))
    )
    assert verdict.cause == plain.cause == "user-exception"
    assert end in verdict.evidence[0].text
    assert verdict.fingerprint == plain.fingerprint


def dressed(case: Mapping[str, Any], dress: Dress) -> Evidence:
    logs = {name: dress(text) for name, text in case["evidence"]["logs"].items() if text}
    return Evidence.from_case({**case, "evidence": {**case["evidence"], "logs": logs}})


@pytest.mark.timeout(300)
@pytest.mark.parametrize("dress", WHOLE.values(), ids=WHOLE)
def test_real_reports_keep_their_cause_in_any_dress(ruleset: Ruleset, dress: Dress) -> None:
    cases = [case for case in map(load, map(Path, FILES)) if case["evidence"].get("logs")]
    right = [case for case in cases if is_right(diagnose(Evidence.from_case(case), ruleset), case)]
    verdicts = [(case, diagnose(dressed(case, dress), ruleset)) for case in right]
    lost = [case["id"] for case, verdict in verdicts if not is_right(verdict, case)]
    assert len(lost) <= len(right) // 100, lost
    assert [case["id"] for case, verdict in verdicts if case["id"] in lost and verdict.confidence >= 0.9] == []
