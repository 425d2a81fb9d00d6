"""From evidence to verdict: recordings of a real Ray, order of causes, hostile input."""

import json
import random
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archiver.diagnosis import Evidence, LogSource, Ruleset, Verdict, diagnose
from archiver.diagnosis.report import diagnose_cases, verdict_text
from archiver.diagnosis.scanner import ReScanner, build
from tests.bench.recordings import recorded_cases

RECORDED = recorded_cases()
SHARED = sorted((Path(__file__).parents[2] / "data" / "cases" / "shared").glob("*.yaml"))
KEYS = {
    "id", "cause", "category", "owner", "confidence", "evidence", "candidates", "symptoms", "missing", "summary",
    "next_steps", "ruleset",
}  # fmt: skip
OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.63 GiB (GPU 0; 44.56 GiB total capacity)"
WATCHDOG = (
    "[rank{rank}]:[E821 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=12, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600123 milliseconds before timing out."
)


def of(ruleset: Ruleset, **parts: object) -> Verdict:
    return diagnose(Evidence.from_case(parts), ruleset)


def is_right(verdict: Verdict, expected: Mapping[str, object]) -> bool:
    return verdict.cause == expected["cause"] or verdict.cause in (expected.get("acceptable") or [])


@pytest.mark.parametrize("file", SHARED, ids=lambda file: file.stem)
def test_public_reports_get_their_established_cause_with_a_root_line(ruleset: Ruleset, file: Path) -> None:
    case = yaml.safe_load(file.read_text("utf-8"))
    verdict = diagnose(Evidence.from_case(case), ruleset)
    roots = case["expected"]["root_lines"]
    assert is_right(verdict, case["expected"])
    assert any(root in cited.text or cited.text in root for root in roots for cited in verdict.evidence)
    assert set(verdict.to_json()) >= KEYS
    assert json.dumps(verdict.to_json())


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["id"])
def test_recorded_jobs_get_their_cause(ruleset: Ruleset, case: Mapping[str, Mapping[str, object]]) -> None:
    assert is_right(diagnose(Evidence.from_case(case), ruleset), case["expected"])


# --- injected variants ------------------------------------------------------------------------------------------------

CLEAR = (
    "import_error",
    "cmd_not_found",
    "file_not_found",
    "actor_init_exc",
    "oom_task_ray",
    "oom_actor_ray",
    "driver_segv",
)


def noise(rng: random.Random, lines: int) -> str:
    kinds = (
        lambda: f"\x1b[36m(Worker pid={rng.randint(1, 999)}, ip=10.0.0.{rng.randint(1, 9)})\x1b[0m read {rng.random()}",
        lambda: f"2026-11-30 18:46:{rng.randint(10, 59)},123\tINFO worker.py:1841 -- Connecting to existing Ray cluster",
        lambda: f"[2026-11-30 18:46:01,{rng.randint(100, 999)} I 57 57] (raylet) node_manager.cc:{rng.randint(1, 999)}: ok",
        lambda: f"wrote part-{rng.randint(0, 99999):05d}.parquet rows={rng.randint(1, 10**6)}",
    )  # fmt: skip
    return "".join(rng.choice(kinds)() + "\n" for _ in range(lines))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", [c for c in RECORDED if str(c["id"]).endswith(CLEAR)], ids=lambda case: case["id"])
def test_a_thousand_lines_of_noise_change_nothing(ruleset: Ruleset, case: Mapping[str, object], seed: int) -> None:
    rng = random.Random(seed)
    evidence = json.loads(json.dumps(case["evidence"]))
    evidence["logs"] = {
        name: noise(rng, rng.randint(0, 1000)) + text.rstrip("\n") + "\n" + noise(rng, rng.randint(0, 1000))
        for name, text in evidence["logs"].items()
    }
    before = diagnose(Evidence.from_case(case), ruleset)
    after = diagnose(Evidence.from_case({"evidence": evidence}), ruleset)
    assert after.cause == before.cause


def test_noise_alone_is_no_failure_of_anything(ruleset: Ruleset) -> None:
    verdict = of(ruleset, logs={"driver": noise(random.Random(7), 3000)})
    assert verdict.cause == "unknown"
    assert verdict.candidates == ()


@pytest.mark.parametrize("first", [True, False])
def test_symptoms_before_and_after_do_not_hide_the_root(ruleset: Ruleset, first: bool) -> None:
    watchdogs = [WATCHDOG.format(rank=rank) for rank in range(1, 8)]
    died = ["ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."]
    lines = [*died, *watchdogs, OOM] if first else [OOM, *watchdogs, *died]
    verdict = of(ruleset, logs={"worker": "\n".join(lines)})
    assert verdict.cause == "gpu-oom"
    assert verdict.evidence[0].text == OOM
    assert {symptom.of for symptom in verdict.symptoms} == {"gpu-oom"}


# --- order of causes --------------------------------------------------------------------------------------------------


def test_a_recorded_disruption_beats_what_ray_says_of_the_death(ruleset: Ruleset) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "x"}
    verdict = of(
        ruleset,
        pods=[{"role": "worker", "phase": "Failed", "conditions": [condition]}],
        logs={
            "driver": "ray.exceptions.NodeDiedError: Task failed because the node it was running on is dead or unavailable."
        },
    )
    assert verdict.cause == "preempted-by-priority"
    assert verdict.evidence[0].object == "pod/worker"


def test_a_disruption_after_the_end_is_tear_down(ruleset: Ruleset) -> None:
    trace = "Traceback (most recent call last):\n  File \"/home/ray/job.py\", line 1, in f\n    g()\nKeyError: 'a'\n"
    event = {"reason": "Preempted", "message": "Preempted by a pod", "firstTimestamp": "2026-11-30T10:10:00Z"}
    job = {"status": "FAILED", "end_time": 1796032800000}  # 2026-11-30T10:00:00Z
    assert of(ruleset, k8s_events=[event], ray={"job": job}, logs={"driver": trace}).cause == "user-exception"


def test_a_scheduling_delay_before_a_real_error_is_not_the_cause(ruleset: Ruleset) -> None:
    events = [
        {"reason": "FailedScheduling", "object": "pod/x", "message": "0/3 nodes are available: 3 Insufficient cpu."},
        {"reason": "Scheduled", "object": "pod/x", "message": "Successfully assigned ns/x to n", "type": "Normal"},
    ]
    assert of(ruleset, k8s_events=events, logs={"driver": f"{OOM}\n"}).cause == "gpu-oom"


def test_a_fault_followed_by_progress_is_recovered(ruleset: Ruleset) -> None:
    steps = "\n".join(f"step {number} loss=0.5" for number in range(5, 20))
    assert of(ruleset, logs={"driver": f"{OOM}\n{steps}\n"}).confidence < 0.9


def test_a_job_that_succeeded_has_no_cause(ruleset: Ruleset) -> None:
    verdict = of(
        ruleset, rayjob_status={"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"}, logs={"driver": OOM}
    )
    assert (verdict.cause, verdict.category) == ("none", "none")


def test_the_oom_text_of_rays_death_message_is_no_evidence(ruleset: Ruleset) -> None:
    text = (
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
        "unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) the process was "
        "killed by the OOM killer due to high memory usage, (2) ray stop --force was called, or (3) the worker crashed "
        "unexpectedly due to SIGSEGV or another unexpected error."
    )
    verdict = of(ruleset, logs={"driver": text})
    assert verdict.cause == "unknown"
    assert verdict.reason == "only-symptoms"
    assert {"pods", "kernel log"} <= set(verdict.missing)
    assert len(verdict.candidates) == 2


def test_contradictory_status_fields_are_said(ruleset: Ruleset) -> None:
    verdict = of(ruleset, rayjob_status={"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Failed"})
    assert (verdict.cause, verdict.reason) == ("unknown", "contradictory")
    assert "may have done its work" in verdict.notes[0]


def test_a_clock_in_the_future_is_said(ruleset: Ruleset) -> None:
    logs = {"driver": LogSource.from_text(f"2026-11-30 12:00:00,000 ERROR x\n{OOM}")}
    line = {"driver": LogSource.from_text(f"2026-11-30 12:00:00,000 {OOM}")}
    assert diagnose(Evidence(logs=logs), ruleset, now=1796036400.0).cause == "gpu-oom"
    assert "clock" in diagnose(Evidence(logs=line), ruleset, now=1796036400.0).notes[0]


def test_at_most_ten_citations_and_none_twice(ruleset: Ruleset) -> None:
    verdict = of(ruleset, logs={"worker": "\n".join([OOM] * 500)})
    places = [(cited.source, cited.line) for cited in verdict.evidence]
    assert len(places) == 10 == len(set(places))
    assert all(first < second for first, second in pairwise(place[1] for place in places))


def test_secrets_are_masked_in_citations(ruleset: Ruleset) -> None:
    text = "NoCredentialsError: Unable to locate credentials AKIAABCDEFGHIJKLMNOP password=hunter2hunter2"
    shown = json.dumps(of(ruleset, logs={"driver": text}).to_json())
    assert "AKIA" not in shown
    assert "hunter2" not in shown


def test_the_fingerprint_ignores_ids_and_line_numbers(ruleset: Ruleset) -> None:
    def trace(line: int, key: str) -> dict[str, str]:
        frame = f'  File "/app/a.py", line {line}, in f'
        return {"driver": f"Traceback (most recent call last):\n{frame}\n    g()\nKeyError: '{key}'\n"}

    one, two, other = (
        of(ruleset, logs=trace(*pair)).fingerprint for pair in ((1, "shard-17"), (9, "shard-23"), (1, "an other key"))
    )
    assert one
    assert two
    assert other
    assert one.key == two.key != other.key
    assert one.used == ("leaf", "exception", "frames", "message")


def test_the_affected_thing_is_a_key_of_its_own(ruleset: Ruleset) -> None:
    verdict = of(ruleset, logs={"kernel": "NVRM: Xid (PCI:0000:05:00): 79, pid=1, GPU has fallen off the bus."})
    assert verdict.to_json()["entity"] == "PCI:0000:05:00"


def test_a_verdict_reads_as_text(ruleset: Ruleset) -> None:
    (verdict,) = diagnose_cases({"case-1": {"logs": {"worker": OOM}}}, ruleset)
    text = verdict_text(verdict.to_json())
    assert text.startswith("case-1: gpu-oom")
    assert f"worker:1  {OOM}" in text
    assert "docs/causes.md#gpu-oom" in text


# --- hostile input ----------------------------------------------------------------------------------------------------


def test_no_evidence_is_an_honest_unknown(ruleset: Ruleset) -> None:
    verdict = diagnose(Evidence(), ruleset)
    assert (verdict.cause, verdict.reason) == ("unknown", "no-evidence")
    assert verdict.missing


def test_a_big_log_is_read_in_pieces_of_any_size(ruleset: Ruleset) -> None:
    def chunks() -> Iterator[bytes]:
        rng = random.Random(3)
        for _ in range(24):
            yield noise(rng, 2000).encode()
        yield OOM.encode()

    verdict = diagnose(Evidence(logs={"driver": LogSource(chunks)}), ruleset)
    assert verdict.cause == "gpu-oom"
    assert verdict.evidence[0].line == 48_001


def test_garbage_is_read_without_an_error(ruleset: Ruleset) -> None:
    rng = random.Random(5)
    raw = rng.randbytes(300_000) + b"A" * 200_000 + b"\n" + OOM.encode() + b"\n" + b"=" * 50_000
    assert diagnose(Evidence(logs={"x": LogSource.from_text(raw)}), ruleset).cause == "gpu-oom"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=30)
    | st.sampled_from(["OOMKilled", OOM]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
PARTS = ("rayjob_status", "rayjob_spec", "pods", "k8s_events", "node_conditions", "ray", "workloads", "logs")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(PARTS, JSON)) | JSON)
def test_any_json_gives_a_verdict(ruleset: Ruleset, case: object) -> None:
    verdict = diagnose(Evidence.from_case(case), ruleset)
    assert 0 <= verdict.confidence <= 1
    assert json.dumps(verdict.to_json())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(min_value=0, max_value=4000), max_size=6))
def test_any_chunking_gives_the_same_verdict(ruleset: Ruleset, cuts: list[int]) -> None:
    (case,) = [case for case in RECORDED if case["id"] == "2.60.0/task_exc"]
    raw = "".join(case["evidence"]["logs"].values()).encode()
    places = [0, *sorted(cuts), len(raw)]
    pieces = [raw[start:end] for start, end in pairwise(places)]
    whole = diagnose(Evidence(logs={"driver": LogSource.from_text(raw)}), ruleset)
    assert diagnose(Evidence(logs={"driver": LogSource(lambda: pieces)}), ruleset) == whole


def test_both_scanners_find_the_same_lines() -> None:
    patterns = ["CUDA out of memory", r"Xid \d+", "(?i)oom(?!killer)", "never"]
    text = (noise(random.Random(1), 200) + OOM + "\nXid 79\noomkiller\nOOM\n").encode()

    def lines(hits: list[tuple[int, int]]) -> set[tuple[int, int]]:
        return {(number, text.count(b"\n", 0, end - 1)) for number, end in hits}

    fast = build(patterns)
    fast.prepare()
    slow = lines(ReScanner(patterns).scan(text))
    assert slow <= lines(fast.scan(text))
    assert (1, 201) in slow


# --- seen on a real cluster -------------------------------------------------------------------------------------------

SUPERVISOR = (
    'Traceback (most recent call last):\n  File "/opt/dist-packages/ray/dashboard/modules/job/{file}", line 438, '
    "in run\n    log_tail = await self._log_client.get_last_n_log_lines(self._job_id)\n"
    '  File "<frozen codecs>", line 322, in decode\n'
    "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80 in position 271: invalid start byte\n"
)
RESET = (
    'Traceback (most recent call last):\n  File "/driver/driver.py", line 5, in <module>\n'
    '    raise ConnectionResetError("the feature store hung up")\nConnectionResetError: the feature store hung up\n'
)


def test_output_that_the_job_supervisor_cannot_read_is_no_broken_data(ruleset: Ruleset) -> None:
    job = {"status": "FAILED", "error_type": "JOB_ENTRYPOINT_COMMAND_START_ERROR"}
    seen = of(ruleset, ray={"job": job | {"message": SUPERVISOR.format(file="job_supervisor.py")}})
    assert seen.cause != "data-corrupt-or-schema"
    mine = SUPERVISOR.replace("/opt/dist-packages/ray/dashboard/modules/job/{file}", "/app/train.py")
    assert of(ruleset, logs={"driver": mine}).cause == "data-corrupt-or-schema"


def test_a_connection_error_that_the_driver_raises_itself_is_its_cause(ruleset: Ruleset) -> None:
    failed = {"job": {"status": "FAILED", "driver_exit_code": 1}}
    verdict = of(ruleset, logs={"driver": RESET}, ray=failed)
    assert verdict.cause in ("user-exception", "dns-or-connectivity")
    assert "hung up" in verdict.evidence[0].text
    event = {"type": "Warning", "reason": "FailedToCreateRayCluster", "count": 1}
    event["message"] = 'Failed to create RayCluster a/b-z49q5: rayclusters.ray.io "b-z49q5" already exists'
    assert of(ruleset, logs={"driver": RESET}, ray=failed, k8s_events=[event]).cause == verdict.cause


IN_LIBRARY = (
    'Traceback (most recent call last):\n  File "/app/train.py", line 5, in main\n    save()\n'
    '  File "/opt/venv/lib/python3.11/site-packages/{file}", line 77, in write\n    raise error\n{error}\n'
)


@pytest.mark.parametrize(
    ("file", "error", "cause"),
    [
        ("s3fs/core.py", "OSError: an answer that no rule knows", "object-storage-error"),
        ("s3fs/core.py", "TypeError: an answer that no rule knows", "user-exception"),
        ("huggingface_hub/hf_api.py", "requests.exceptions.ConnectionError: gone", "model-hub-access"),
        ("ray/_private/runtime_env/conda.py", "ValueError: what nobody saw before", "runtime-env-failed"),
        ("somebody/lib.py", "OSError: an answer that no rule knows", "user-exception"),
    ],
)
def test_an_unknown_error_is_told_by_the_library_that_raised_it(
    ruleset: Ruleset, file: str, error: str, cause: str
) -> None:
    verdict = of(ruleset, logs={"driver": IN_LIBRARY.format(file=file, error=error)})
    assert (verdict.cause, verdict.evidence[0].line) == (cause, 6)


def test_a_watchdog_that_fires_after_a_death_does_not_hide_it(ruleset: Ruleset) -> None:
    watchdog = "[rank3]: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9) ran for 600029 ms\n"
    died = "mylib.errors.ShardLost: shard 7 went missing\nmylib.errors.ReaderFailure: shard 7 went missing\n"
    assert of(ruleset, logs={"worker": died + watchdog}).cause == "user-exception"
    assert of(ruleset, logs={"worker": watchdog + died}).cause == "collective-timeout"


def test_a_job_that_succeeded_cites_who_says_so(ruleset: Ruleset) -> None:
    verdict = of(ruleset, rayjob_status={"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"})
    assert (verdict.cause, verdict.evidence[0].text) == ("none", "jobStatus: SUCCEEDED")
