"""Recordings: what is written is read again; what is wrong is named with file and line."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from archiver.sandbox.recording import (
    AttemptTruth,
    Content,
    DriverTruth,
    Entry,
    Header,
    LineRule,
    LogEndEntry,
    LogEntry,
    Made,
    RayAnswerEntry,
    RayFileEntry,
    RayGoneEntry,
    RayJobEntry,
    RayUpEntry,
    Recording,
    RecordingError,
    Truth,
    WatchEntry,
)
from archiver.sandbox.recordingfile import dump_recording, parse_recording, read_recording, write_recording

ORIGIN = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "uid": "u"}}


def recording(*entries: Entry, attempts: tuple[AttemptTruth, ...] = (), made: Made = Made.RECORDED) -> Recording:
    header = Header("a", "A death", made, "by hand", ORIGIN, "n", "job", "HTTPMode", {"ray": "2.60.0"}, ("x",))
    return Recording(header, entries, Truth("Failed", attempts))


def attempt(driver: DriverTruth | None) -> AttemptTruth:
    return AttemptTruth(1, "job-c", "job-s", "unknown", "why", "shows", driver, ("node-lost",))


def lines_of(whole: Recording) -> list[bytes]:
    return dump_recording(whole).splitlines()


contents = st.one_of(
    st.binary(max_size=200).map(Content),
    st.builds(LineRule, st.text(max_size=20), st.integers(0, 99), st.integers(0, 9)).map(
        lambda rule: Content(rule=rule)
    ),
)
names = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)
documents = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9) | st.none(), max_size=3)
moments = st.integers(0, 10**9).map(lambda micros: micros / 1_000_000)
entries = st.one_of(
    st.builds(WatchEntry, moments, st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), st.just(POD)),
    st.builds(LogEntry, moments, names, names, st.integers(0, 3), contents, st.tuples(moments)),
    st.builds(LogEndEntry, moments, names, names, st.integers(0, 3)),
    st.builds(RayUpEntry, moments, names, st.sampled_from(["head", "worker"]), names, names),
    st.builds(RayFileEntry, moments, names, names, contents),
    st.builds(RayJobEntry, moments, names, documents.map(lambda d: {**d, "submission_id": "s"})),
    st.builds(RayAnswerEntry, moments, names, names, st.integers(200, 599), documents),
    st.builds(RayGoneEntry, moments, names, st.sampled_from(["refused", "silent"])),
)


@given(st.lists(entries, max_size=12))
def test_what_is_written_is_read_again(found: list[Entry]) -> None:
    whole = recording(*sorted(found, key=lambda entry: entry.at), attempts=(attempt(DriverTruth("00", 3, 1)),))
    assert parse_recording(dump_recording(whole), source="a.rec.zst") == whole


def test_a_file_round_trips(tmp_path: Path) -> None:
    whole = recording(WatchEntry(0.5, "ADDED", POD))
    write_recording(whole, tmp_path / "a.rec.zst")
    assert read_recording(tmp_path / "a.rec.zst") == whole


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"at": -1}, "at has to be seconds"),
        ({"at": "0"}, "at has to be seconds"),
        ({"type": "GONE"}, "'GONE' is not ADDED"),
        ({"object": {"kind": "Pod"}}, "needs 'apiVersion'"),
        ({"entry": "watched"}, "there is no entry 'watched'"),
        ({"extra": 1}, "unknown keys extra"),
        ({"object": None}, "watch: "),
    ],
)
def test_a_broken_entry_is_named_with_file_and_line(change: dict[str, Any], says: str) -> None:
    first, second, *rest = lines_of(recording(WatchEntry(1.0, "ADDED", POD)))
    broken = json.dumps({**json.loads(second), **change}).encode()
    with pytest.raises(RecordingError) as caught:
        parse_recording(b"\n".join([first, broken, *rest]), source="mine.rec.zst")
    assert "mine.rec.zst line 2" in str(caught.value)
    assert says in str(caught.value)


def test_time_never_goes_back() -> None:
    whole = recording(WatchEntry(2.0, "ADDED", POD), WatchEntry(1.0, "MODIFIED", POD))
    with pytest.raises(RecordingError, match=r"line 3: at goes back from 2\.0 to 1\.0"):
        parse_recording(dump_recording(whole), source="a")


def test_a_line_that_is_no_json_is_named() -> None:
    first, last = lines_of(recording())
    with pytest.raises(RecordingError, match="a line 2: this is no JSON"):
        parse_recording(b"\n".join([first, b"{oops", last]), source="a")


def test_a_file_that_is_no_zstd_is_named(tmp_path: Path) -> None:
    (tmp_path / "b.rec.zst").write_bytes(b"plain text")
    with pytest.raises(RecordingError, match=r"b\.rec\.zst cannot be read"):
        read_recording(tmp_path / "b.rec.zst")


def test_an_empty_file_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "b.rec.zst").write_bytes(zstandard.compress(b""))
    with pytest.raises(RecordingError, match="at least a header and a truth line"):
        read_recording(tmp_path / "b.rec.zst")


def test_another_schema_is_refused() -> None:
    whole = dump_recording(recording()).replace(b"rayjob-recording/1", b"rayjob-recording/9")
    with pytest.raises(RecordingError, match="line 1: header: schema 'rayjob-recording/9'"):
        parse_recording(whole, source="a")


def test_a_ray_file_stays_below_the_log_folder() -> None:
    whole = dump_recording(recording(RayFileEntry(0.0, "p", "../secret", Content(b"x"))))
    with pytest.raises(RecordingError, match="has to stay below"):
        parse_recording(whole, source="a")


def test_a_composed_recording_serves_what_its_truth_says() -> None:
    files = (
        RayFileEntry(0.0, "p", "job-driver-job-s.log", Content(b"one\n")),
        RayFileEntry(1.0, "p", "job-driver-job-s.log", Content(b"two\n")),
    )
    right = recording(*files, attempts=(attempt(DriverTruth.of(b"one\ntwo\n")),), made=Made.COMPOSED)
    assert parse_recording(dump_recording(right), source="a").driver_log("job-s") == b"one\ntwo\n"
    wrong = recording(*files, attempts=(attempt(DriverTruth.of(b"one\n")),), made=Made.COMPOSED)
    with pytest.raises(RecordingError, match="driver log of attempt 1 is not what"):
        parse_recording(dump_recording(wrong), source="a")


def test_attempts_are_numbered_from_one() -> None:
    second = AttemptTruth(2, "c", "s", "", "", "", None)
    with pytest.raises(RecordingError, match="numbered from 1"):
        parse_recording(dump_recording(recording(attempts=(second,))), source="a")


def test_a_rule_stands_for_its_lines() -> None:
    rule = LineRule("step {n} {h} {", 9, 2)
    checks = [b"%08x" % crc32(number) for number in (b"9", b"10")]
    assert Content(rule=rule).to_bytes() == b"step 9 %b {\nstep 10 %b {\n" % tuple(checks)


def test_gives_what_each_container_printed() -> None:
    whole = recording(
        WatchEntry(0.0, "ADDED", POD),
        LogEntry(1.0, "p", "c", 0, Content(b"a\n")),
        LogEntry(2.0, "p", "c", 1, Content(b"b\n")),
        LogEntry(3.0, "p", "c", 0, Content(b"c\n")),
    )
    found = {(run.pod_uid, run.container, run.restart): data for run, data in whole.container_logs()}
    assert found == {("u", "c", 0): b"a\nc\n", ("u", "c", 1): b"b\n"}
