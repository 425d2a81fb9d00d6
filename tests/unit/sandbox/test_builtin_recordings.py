"""The recordings that ship: complete, small, what their source gives, and as various as real deaths are."""

from collections import Counter

import pytest

from archiver.sandbox.builtin import FOLDER, load_builtin_recordings
from archiver.sandbox.recording import Made, RayFileEntry, Recording, WatchEntry
from archiver.sandbox.recordingfile import dump_recording
from tests.data.recordings.compose import composed

RECORDINGS = load_builtin_recordings()


def named(name: str) -> Recording:
    return next(recording for recording in RECORDINGS if recording.header.name == name)


def watches(recording: Recording, kind: str) -> list[WatchEntry]:
    return [e for e in recording.entries if isinstance(e, WatchEntry) and e.object["kind"] == kind]


def test_the_composed_ones_are_what_their_source_gives() -> None:
    committed = {r.header.name: dump_recording(r) for r in RECORDINGS if r.header.made is Made.COMPOSED}
    assert {recording.header.name: dump_recording(recording) for recording in composed()} == committed


def test_they_are_small_enough_to_ship() -> None:
    sizes = [path.stat().st_size for path in FOLDER.iterdir()]
    assert max(sizes) < 1_000_000
    assert sum(sizes) < 3_000_000


def test_they_are_various() -> None:
    causes = {attempt.cause for recording in RECORDINGS for attempt in recording.truth.attempts}
    assert len(causes) >= 10
    assert {recording.header.mode for recording in RECORDINGS} >= {"K8sJobMode", "HTTPMode", "SidecarMode"}
    assert {recording.truth.outcome for recording in RECORDINGS} >= {
        "Complete",
        "Failed",
        "Suspended",
        "ValidationFailed",
        "Running",
    }
    assert len({(recording.header.namespace, recording.header.rayjob) for recording in RECORDINGS}) == len(RECORDINGS)
    assert len({recording.header.namespace for recording in RECORDINGS}) >= 6


def test_every_rayjob_says_whose_it_is() -> None:
    for recording in RECORDINGS:
        labels = watches(recording, "RayJob")[0].object["metadata"]["labels"]
        assert labels["team"]
        assert labels["kueue.x-k8s.io/queue-name"]


def test_objects_of_a_recording_hang_together() -> None:
    """Every owner that is named was recorded, and every change is of something that was added."""
    for recording in RECORDINGS:
        seen: set[str] = set()
        for entry in recording.entries:
            if not isinstance(entry, WatchEntry):
                continue
            metadata = entry.object["metadata"]
            assert (entry.type == "ADDED") == (metadata["uid"] not in seen) or entry.object["kind"] == "Event"
            seen.add(metadata["uid"])
            for owner in metadata.get("ownerReferences", []):
                assert owner["uid"] in seen or owner["kind"] == "RayJob", (recording.header.name, metadata["name"])


def test_http_mode_leaves_nine_milliseconds() -> None:
    recording = named("early-exit")
    failed = next(
        e for e in watches(recording, "RayJob") if e.object.get("status", {}).get("jobDeploymentStatus") == "Failed"
    )
    deleted = next(e for e in watches(recording, "RayCluster") if e.type == "DELETED")
    assert deleted.at - failed.at == pytest.approx(0.009, abs=0.0005)
    statuses = [e.object.get("status", {}).get("jobStatus") for e in watches(recording, "RayJob")]
    assert "RUNNING" not in statuses, "a driver that dies at once is never seen running"


def test_a_retry_is_wiped_after_22_milliseconds() -> None:
    jobs = watches(named("retry-to-success"), "RayJob")
    for index, entry in enumerate(jobs):
        if entry.object.get("status", {}).get("jobDeploymentStatus") != "Retrying":
            continue
        wiped = jobs[index + 1]
        assert wiped.at - entry.at == pytest.approx(0.022, abs=0.0005)
        assert not {"jobId", "rayClusterName", "reason", "message"} & set(wiped.object["status"])
    clusters = Counter(e.type for e in watches(named("retry-to-success"), "RayCluster"))
    assert (clusters["ADDED"], clusters["DELETED"]) == (3, 3)


def test_both_shapes_of_events_are_there() -> None:
    shapes = {
        (entry.object["metadata"]["name"].split(".")[0], bool(entry.object.get("firstTimestamp")))
        for recording in RECORDINGS
        for entry in watches(recording, "Event")
    }
    assert {is_old for _, is_old in shapes} == {True, False}
    new = [
        e
        for e in watches(named("runtime-env-failed"), "Event")
        if e.object["reportingComponent"] == "rayjob-controller"
    ]
    assert all(entry.object["firstTimestamp"] is None and entry.object["eventTime"] for entry in new)
    assert new


def test_bytes_that_are_no_text_survive() -> None:
    recording = named("binary-output")
    data = recording.driver_log(recording.truth.attempts[0].submission_id)
    with pytest.raises(UnicodeDecodeError):
        data.decode()
    assert b"\x00" in data


def test_a_driver_that_never_ran_left_no_log() -> None:
    for name in ("image-pull", "validation-failed"):
        recording = named(name)
        assert recording.truth.attempts[0].driver is None
        assert not any(isinstance(entry, RayFileEntry) for entry in recording.entries)


def test_the_rotated_log_is_larger_than_a_kubelet_keeps() -> None:
    recording = named("rotated-log")
    printed = {run.container: len(data) for run, data in recording.container_logs()}
    assert printed["ray-job-submitter"] > 2 * 10 * 1024 * 1024 * 0.8
