"""The real cases in other surroundings: a thousand lines of what Ray prints all day, and symptoms on both sides."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from archiver.diagnosis import Evidence, Ruleset, Verdict, diagnose

CASES = Path(__file__).parents[2] / "data" / "cases"
FILES = sorted([*CASES.glob("shared/*.yaml"), *CASES.glob("learn/*.yaml")])
SURE = 0.9

QUIET = (
    "2026-08-19 02:10:{s:02d},{ms}\tINFO worker.py:1841 -- Connecting to existing Ray cluster at address: 10.0.0.2:6379...",
    "(raylet, ip=10.0.0.{n}) [2026-08-19 02:10:{s:02d},{ms} I {pid} {pid}] node_manager.cc:{n}: Sending Python GC request.",
    "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py:{n}: UserWarning: It will create {n}.",
    "(autoscaler +{s}s) Adding 1 node(s) of type gpu-group.",
    "(autoscaler +{s}s) Resized to {n} CPUs.",
    "(pid={pid}) FutureWarning: The pynvml package is deprecated. Use nvidia-ml-py. [repeated {n}x across cluster]",
    "(raylet) Spilled {n} MiB, {n} objects, write throughput {ms} MiB/s.",
    "2026-08-19 02:10:{s:02d},{ms}\tWARNING util.py:{n} -- The `process_trial_save` operation took 0.{ms} s.",
    "W0819 02:10:{s:02d}.{ms}000 {pid} torch/distributed/run.py:{n}] Setting OMP_NUM_THREADS for each process to be 1.",
)
AT_WORK = (
    "(RayTrainWorker pid={pid}, ip=10.0.0.{n}) INFO {n} step={n} loss=2.{ms} lr=3.0e-05 tok/s=18{ms}",
    "INFO 08-19 02:10:{s:02d} metrics.py:{n}] Avg prompt throughput: {ms}.1 tokens/s, Running: {n} reqs, KV cache 7.{ms}%",
    'INFO:     10.0.0.{n}:{pid} - "GET /health HTTP/1.1" 200 OK',
    "Loading checkpoint shards: {n}%|████      | {n}/100 [00:{s:02d}<00:10,  1.{ms}it/s]",
)
BEFORE = (
    "[2026-08-19 02:09:01,100 W 99 99] (core_worker.cc) gcs_client: Failed to connect to GCS, retrying in 1 s",
    "urllib3.connectionpool WARNING Retrying (Retry(total=2)) after connection broken by 'ConnectTimeoutError': /api/v1/x",
)
AFTER = (
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    "\tclass_name: RayTrainWorker",
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
    "unexpectedly exits with a connection error code 2. End of file.",
    "[rank3]:[E819 02:40:00.123456789 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.",
    "[rank5]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 5.",
    "Job 'rayjob-x' failed with status: FAILED, exit code 1",
)

pytestmark = pytest.mark.timeout(300)


def noise(kinds: tuple[str, ...], count: int, dice: random.Random) -> str:
    """So many lines."""
    numbers = {"s": (0, 59), "ms": (100, 999), "pid": (100, 9999), "n": (3, 60)}
    filled = (
        dice.choice(kinds).format(**{name: dice.randint(*span) for name, span in numbers.items()}) for _ in range(count)
    )
    return "".join(f"{line}\n" for line in filled)


def in_noise(text: str, dice: random.Random) -> str:
    """After the case's own lines nothing shows that work went on: that would be a recovery."""
    return noise(QUIET + AT_WORK, 1000, dice) + text.rstrip("\n") + "\n" + noise(QUIET, 1000, dice)


def among_symptoms(text: str, dice: random.Random) -> str:
    """What goes wrong and recovers before, and what breaks as a consequence after."""
    before = noise(QUIET + AT_WORK, 500, dice) + "\n".join(BEFORE) + "\n" + noise(QUIET + AT_WORK, 500, dice)
    after = noise(QUIET, 500, dice) + "\n".join(AFTER) + "\n" + noise(QUIET, 500, dice)
    return before + text.rstrip("\n") + "\n" + after


@cache
def load(path: Path) -> Mapping[str, Any]:
    case: dict[str, Any] = yaml.load(path.read_text(), yaml.CSafeLoader)
    return case


def surrounded(case: Mapping[str, Any], change: Callable[[str, random.Random], str]) -> Evidence:
    """The case with each of its logs changed; the same at every run."""
    dice = random.Random(int(case["id"]))
    logs = {name: change(text, dice) for name, text in (case["evidence"].get("logs") or {}).items() if text}
    return Evidence.from_case({**case, "evidence": {**case["evidence"], "logs": logs}})


def is_right(verdict: Verdict, case: Mapping[str, Any]) -> bool:
    return verdict.cause in (case["expected"]["cause"], *(case["expected"].get("acceptable") or []))


@pytest.fixture(scope="module")
def right(ruleset: Ruleset) -> list[Mapping[str, Any]]:
    """The cases that are explained rightly as they are: those that are not belong to the figures, not here."""
    return [case for case in map(load, FILES) if is_right(diagnose(Evidence.from_case(case), ruleset), case)]


def test_noise_around_changes_no_cause(ruleset: Ruleset, right: list[Mapping[str, Any]]) -> None:
    wrong = [case["id"] for case in right if not is_right(diagnose(surrounded(case, in_noise), ruleset), case)]
    assert wrong == []


def test_symptoms_on_both_sides_leave_forty_causes_known_and_none_surely_wrong(
    ruleset: Ruleset, right: list[Mapping[str, Any]]
) -> None:
    failed = [case for case in right if case["expected"]["cause"] != "none" and case["expected"]["visible"] == "yes"]
    verdicts = [(case, diagnose(surrounded(case, among_symptoms), ruleset)) for case in failed]
    assert [
        case["id"] for case, verdict in verdicts if not is_right(verdict, case) and verdict.confidence >= SURE
    ] == []
    known = Counter(case["expected"]["cause"] for case, verdict in verdicts if is_right(verdict, case))
    assert sum(count >= 3 for count in known.values()) >= 40, known
    assert sum(known.values()) >= 0.9 * len(failed)
