"""Windows and bytes of archived logs, sealed or growing, against the same done naively on the whole text."""

import asyncio
import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core import keys
from archiver.core.manifest import Manifest
from archiver.core.model import Artifact, ArtifactKind, Completeness, Gap, GapReason
from archiver.errors import DataError
from archiver.index.writes import record
from archiver.read import logs
from archiver.read.service import Reader
from archiver.read.text import LogText, TextOpener, TextPlace
from archiver.read.views import LogLine, LogWindow, Scope
from archiver.read.windows import MAX_BYTES, MAX_LINES, Around, AtByte, AtTime, ByteRange, Lines, Tail, Window
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import key_of, manifest
from tests.fakes.streams import BASE_NS, put_parts, put_sealed, time_of_line

EVERYTHING = Scope.everything()
NAME = "logs/driver.log"
PREFIX = "v1/prod/ml-a/2026-03-01/llama-ft-7b/uid-1/attempt-001/"

pieces = st.lists(
    st.lists(st.sampled_from([b"\n", b"a", b"bb\n", b"\r", b"\xff\x00", b"ccc", b"\n\n"]), min_size=1, max_size=8).map(
        b"".join
    ),
    max_size=8,
)


def expected_lines(text: bytes) -> list[bytes]:
    lines = text.split(b"\n")
    return lines[:-1] if not lines[-1] else lines


async def open_text(store: FilesystemStore, parts: list[bytes], *, sealed: bool) -> LogText | None:
    if sealed:
        known = await put_sealed(store, PREFIX, NAME, parts)
        return await TextOpener(store).open(TextPlace(PREFIX, NAME, known))
    await put_parts(store, PREFIX, NAME, parts)
    return await TextOpener(store).open(TextPlace(PREFIX, NAME, None))


async def lines_of(store: FilesystemStore, text: LogText, window: Window) -> tuple[LogLine, ...]:
    wanted = await logs.plan(store, text, window)
    found, is_cut_short = await logs.read_lines(store, text, wanted)
    assert not is_cut_short
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pieces, st.booleans(), st.data())
def test_any_window_is_what_the_whole_text_says(parts: list[bytes], sealed: bool, data: st.DataObject) -> None:
    text = b"".join(parts)
    wanted = expected_lines(text)
    if not parts and not sealed:
        return
    first = data.draw(st.integers(1, len(wanted) + 2))
    last = data.draw(st.integers(first, len(wanted) + 3))
    offset = data.draw(st.integers(0, max(0, len(text) - 1)))
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(text) + 2), st.integers(0, len(text) + 2))))

    async def check(folder: str) -> None:
        store = FilesystemStore(Path(folder))
        log = await open_text(store, parts, sealed=sealed)
        assert log is not None
        assert (log.total_bytes, log.total_lines) == (len(text), len(wanted))
        lines = await lines_of(store, log, Lines(first, last))
        assert [line.data for line in lines] == wanted[first - 1 : last]
        assert [line.number for line in lines] == list(range(first, first + len(lines)))
        assert [line.time_ns for line in lines] == [time_of_line(line.number) for line in lines]
        for line in lines:
            assert text[line.offset_bytes : line.offset_bytes + len(line.data)] == line.data
        tail = await lines_of(store, log, Tail(last))
        assert [line.data for line in tail] == wanted[-last:]
        if text:
            (at_byte,) = await lines_of(store, log, AtByte(offset, 1))
            assert at_byte.number == text[:offset].count(b"\n") + 1
        if first <= len(wanted):
            moment = datetime.fromtimestamp(time_of_line(first) // 10**9, UTC)
            (at_time,) = await lines_of(store, log, AtTime(moment, 1))
            assert at_time.number == first
        span = logs.resolve(ByteRange(start, end), len(text))
        got = b"".join([chunk async for chunk in logs.read_span(store, log, span)])
        assert got == (text[start : end + 1] if start < len(text) else b"")
        assert span.is_satisfiable == (start < len(text))

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(folder))


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path)


@pytest.fixture
def reader(engine: AsyncEngine, store: FilesystemStore) -> Reader:
    return Reader(engine, store)


async def archive(
    engine: AsyncEngine, store: FilesystemStore, *artifacts: Artifact, ended_as: str = "failed"
) -> Manifest:
    written = manifest(artifacts=artifacts, ended_as=ended_as)
    await record(engine, written, key_of(written))
    return written


async def window_of(reader: Reader, window: Window, name: str = NAME) -> LogWindow:
    found = await reader.log_window(EVERYTHING, "uid-1", 1, name, window)
    assert found is not None
    return found


def numbered(count: int, width: int = 20) -> bytes:
    return b"".join(b"%0*d\n" % (width, number) for number in range(1, count + 1))


async def test_a_window_says_where_it_stands(engine: AsyncEngine, store: FilesystemStore, reader: Reader) -> None:
    text = numbered(500)
    await archive(engine, store, await put_sealed(store, PREFIX, NAME, [text[:3_333], text[3_333:]]))
    window = await window_of(reader, Lines(101, 200))
    assert [line.number for line in window.lines] == list(range(101, 201))
    assert (window.previous_line, window.next_line, window.total_lines) == (1, 201, 500)
    assert (window.total_bytes, window.is_bounded, window.focus_line) == (len(text), False, None)
    assert not window.artifact.live
    around = await window_of(reader, Around(250, 5))
    assert ([line.number for line in around.lines], around.focus_line) == (list(range(245, 256)), 250)
    end = await window_of(reader, Tail(10))
    assert (end.lines[-1].number, end.next_line, end.previous_line) == (500, None, 481)
    beyond = await window_of(reader, Lines(900, 950))
    assert (beyond.lines, beyond.next_line) == ((), None)
    late = await window_of(reader, AtTime(datetime(2030, 1, 1, tzinfo=UTC), 3))
    assert ([line.number for line in late.lines], late.focus_line) == ([498, 499, 500], None)
    early = await window_of(reader, AtTime(datetime(1999, 1, 1, tzinfo=UTC), 3))
    assert ([line.number for line in early.lines], early.focus_line) == ([1, 2, 3], 1)


async def test_a_window_has_at_most_so_many_lines(engine: AsyncEngine, store: FilesystemStore, reader: Reader) -> None:
    await archive(engine, store, await put_sealed(store, PREFIX, NAME, [b"x\n" * 30_000]))
    window = await window_of(reader, Lines(1, 30_000))
    assert (len(window.lines), window.is_bounded, window.next_line) == (MAX_LINES, True, MAX_LINES + 1)
    end = await window_of(reader, Tail(30_000))
    assert (len(end.lines), end.lines[-1].number, end.is_bounded) == (MAX_LINES, 30_000, True)
    around = await window_of(reader, Around(15_000, 20_000))
    assert around.is_bounded
    assert around.lines[0].number <= 15_000 <= around.lines[-1].number


@pytest.mark.parametrize("window", [Lines(1, 1_000), Tail(1_000), Around(150, 150)])
async def test_a_window_has_at_most_so_many_bytes(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader, window: Window
) -> None:
    text = numbered(200, width=100_000)  # 20 MB
    await archive(engine, store, await put_sealed(store, PREFIX, NAME, [text]))
    found = await window_of(reader, window)
    assert found.is_bounded
    assert MAX_BYTES // 4 < sum(len(line.data) for line in found.lines) <= MAX_BYTES
    assert not any(line.cut for line in found.lines[:-1])
    if isinstance(window, Around):
        assert 150 in [line.number for line in found.lines]
    if isinstance(window, Tail):
        assert found.lines[-1].number == 200
        assert not found.lines[-1].cut


async def test_a_line_longer_than_a_window_is_cut_and_the_next_one_can_be_reached(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader
) -> None:
    text = b"first\n" + b"x" * 10_000_000 + b"\nlast\n"
    await archive(engine, store, await put_sealed(store, PREFIX, NAME, [text]))
    window = await window_of(reader, Lines(2, 2))
    (line,) = window.lines
    assert (line.number, line.offset_bytes, len(line.data), line.cut) == (2, 6, MAX_BYTES, True)
    assert (window.is_bounded, window.next_line) == (True, 3)
    (last,) = (await window_of(reader, Lines(3, 3))).lines
    assert (last.data, last.cut, last.offset_bytes) == (b"last", False, 10_000_007)


async def test_a_log_that_still_grows_is_read_from_its_parts(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader
) -> None:
    await archive(engine, store, ended_as="running")
    await put_parts(store, PREFIX, NAME, [b"one\ntw", b"o\nthr"])
    window = await window_of(reader, Lines(1, 10))
    assert [line.data for line in window.lines] == [b"one", b"two", b"thr"]
    assert (window.artifact.live, window.artifact.sha256, window.artifact.lines) == (True, "", 3)
    artifacts = await reader.artifacts(EVERYTHING, "uid-1", 1)
    assert artifacts is not None
    assert [(each.name, each.completeness) for each in artifacts] == [(NAME, Completeness.PARTIAL)]
    await put_parts(store, PREFIX, NAME, [b"one\ntw", b"o\nthr", b"ee\nfour\n"])
    assert [line.data for line in (await window_of(reader, Tail(2))).lines] == [b"three", b"four"]
    sealed = await put_sealed(store, PREFIX, NAME, [b"one\ntwo\nthree\nfour\n"])
    window = await window_of(reader, Tail(1))  # sealed in the bucket before the index knows
    assert ([line.data for line in window.lines], window.artifact.live) == ([b"four"], False)
    newer = manifest(revision=2, artifacts=[sealed])
    await record(engine, newer, key_of(newer))
    assert (await window_of(reader, Tail(1))).artifact.sha256 == sealed.sha256


async def test_gaps_stand_where_they_are(engine: AsyncEngine, store: FilesystemStore, reader: Reader) -> None:
    gaps = (Gap(GapReason.ROTATED, "rotated", 3), Gap(GapReason.SOURCE_GONE, "gone", 10))
    await archive(engine, store, await put_sealed(store, PREFIX, NAME, [numbered(10)], gaps=gaps))
    assert [gap.at_line for gap in (await window_of(reader, Lines(1, 5))).gaps] == [3]
    assert [gap.at_line for gap in (await window_of(reader, Lines(4, 6))).gaps] == [3]
    assert [gap.at_line for gap in (await window_of(reader, Tail(2))).gaps] == [10]
    assert (await window_of(reader, Lines(6, 8))).gaps == ()


async def test_a_lost_log_is_an_empty_window_with_its_reason(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader
) -> None:
    lost = Artifact(
        NAME, ArtifactKind.LOG, "", 0, 0, 0, "", Completeness.LOST, "the pod was deleted first",
        gaps=(Gap(GapReason.SOURCE_GONE, "gone", 0),),
    )  # fmt: skip
    await archive(engine, store, lost)
    window = await window_of(reader, Lines())
    assert (window.lines, window.total_lines, window.previous_line, window.next_line) == ((), 0, None, None)
    assert (window.artifact.reason, len(window.gaps)) == ("the pod was deleted first", 1)


async def test_an_object_that_is_gone_or_broken_is_not_an_empty_log(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader
) -> None:
    sealed = await put_sealed(store, PREFIX, NAME, [b"text\n"])
    await archive(engine, store, sealed)
    await store.put(sealed.key, b"not a log of ours, though long enough to have a trailer")
    with pytest.raises(DataError):
        await reader.log_window(EVERYTHING, "uid-1", 1, NAME, Lines())
    await store.delete([sealed.key])
    window = await window_of(reader, Lines())
    assert (window.lines, window.total_bytes, window.artifact.raw_bytes) == ((), 0, 5)


async def test_what_is_no_artifact_is_none(engine: AsyncEngine, store: FilesystemStore, reader: Reader) -> None:
    await archive(engine, store)
    for name in ("logs/none.log", "../../../etc/passwd", "", "\0"):
        assert await reader.log_window(EVERYTHING, "uid-1", 1, name, Lines()) is None
        assert await reader.log_raw(EVERYTHING, "uid-1", 1, name) is None
    assert await reader.log_window(Scope(frozenset()), "uid-1", 1, NAME, Lines()) is None


async def test_small_documents_read_like_logs(engine: AsyncEngine, store: FilesystemStore, reader: Reader) -> None:
    text = b'{\n  "a": 1\n}\n'
    key = keys.artifact_key(PREFIX, "ray/job.json")
    await store.put(key, zstandard.compress(text))
    document = Artifact(
        "ray/job.json", ArtifactKind.RAY_RECORD, key, len(text), 20, 3, "", Completeness.COMPLETE, "whole"
    )
    await archive(engine, store, document)
    window = await window_of(reader, Lines(2, 3), "ray/job.json")
    assert [line.data for line in window.lines] == [b'  "a": 1', b"}"]
    raw = await reader.log_raw(EVERYTHING, "uid-1", 1, "ray/job.json", ByteRange(suffix=3))
    assert raw is not None
    assert b"".join([chunk async for chunk in raw.chunks]) == b"\n}\n"[-3:]


async def test_raw_bytes_come_whole_and_by_range(engine: AsyncEngine, store: FilesystemStore, reader: Reader) -> None:
    text = numbered(100_000)  # several frames
    await archive(engine, store, await put_sealed(store, PREFIX, NAME, [text[:1_000_001], text[1_000_001:]]))
    for asked, expected in (
        (None, text),
        (ByteRange(5, 9), text[5:10]),
        (ByteRange(1_000_000, 1_000_003), text[1_000_000:1_000_004]),
        (ByteRange(len(text) - 3), text[-3:]),
        (ByteRange(suffix=10), text[-10:]),
        (ByteRange(suffix=10**9), text),
    ):
        raw = await reader.log_raw(EVERYTHING, "uid-1", 1, NAME, asked)
        assert raw is not None
        assert b"".join([chunk async for chunk in raw.chunks]) == expected
        assert (raw.length_bytes, raw.total_bytes) == (len(expected), len(text))
    for asked in (ByteRange(len(text)), ByteRange(suffix=0)):
        raw = await reader.log_raw(EVERYTHING, "uid-1", 1, NAME, asked)
        assert raw is not None
        assert (raw.is_satisfiable, raw.length_bytes) == (False, 0)


def version(how: str, obj: dict[str, object], second: int = 0) -> bytes:
    seen = (datetime.fromtimestamp(BASE_NS // 10**9, UTC) + timedelta(seconds=second)).isoformat()
    return json.dumps({"seen_at": seen, "type": how, "relisted": False, "object": obj}).encode() + b"\n"


async def test_events_are_folded_and_both_generations_are_read(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader
) -> None:
    name = "events/kubernetes.ndjson"
    old = {
        "metadata": {"uid": "e1"}, "reason": "BackOff", "message": "back-off", "type": "Warning", "count": 1,
        "firstTimestamp": "2026-03-01T12:00:05Z", "lastTimestamp": "2026-03-01T12:00:05Z",
        "involvedObject": {"kind": "Pod", "name": "head"}, "source": {"component": "kubelet"},
    }  # fmt: skip
    new = {
        "metadata": {"uid": "e2", "creationTimestamp": "2026-03-01T12:00:01Z"}, "reason": "Created", "note": "made",
        "type": "Normal", "eventTime": None, "regarding": {"kind": "RayJob", "name": "j"},
        "reportingController": "kuberay", "series": {"count": 4, "lastObservedTime": "2026-03-01T12:00:09.5Z"},
    }  # fmt: skip
    text = (
        version("ADDED", old)
        + version("ADDED", new)
        + b"{ broken\n"
        + version("MODIFIED", {**old, "count": 7, "lastTimestamp": "2026-03-01T12:01:00Z"})
        + version("DELETED", {"metadata": {"uid": "e1"}})
    )
    sealed = await put_sealed(store, PREFIX, name, [text])
    events = Artifact(name, ArtifactKind.KUBE_EVENTS, sealed.key, sealed.raw_bytes, sealed.stored_bytes, sealed.lines,
                      sealed.sha256, Completeness.COMPLETE, "all of them")  # fmt: skip
    await archive(engine, store, events)
    page = await reader.events(EVERYTHING, "uid-1", 1)
    assert page is not None
    assert [(e.uid, e.count, e.component, e.message, e.object_kind) for e in page.events] == [
        ("e2", 4, "kuberay", "made", "RayJob"),
        ("e1", 7, "kubelet", "back-off", "Pod"),
    ]
    assert page.events[1].last_time == datetime(2026, 3, 1, 12, 1, tzinfo=UTC)
    assert page.completeness is Completeness.COMPLETE


async def test_no_events_are_said_to_be_lost(engine: AsyncEngine, store: FilesystemStore, reader: Reader) -> None:
    await archive(engine, store)
    page = await reader.events(EVERYTHING, "uid-1", 1)
    assert page is not None
    assert (page.events, page.completeness) == ((), Completeness.LOST)
    assert "no Kubernetes Events" in page.reason
    assert await reader.events(EVERYTHING, "other", 1) is None


async def test_the_timeline_puts_everything_on_one_axis(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader
) -> None:
    statuses = version("ADDED", {"metadata": {"name": "j"}, "status": {"jobDeploymentStatus": "Running"}}, 1) + version(
        "MODIFIED", {"metadata": {"name": "j"}, "status": {"jobDeploymentStatus": "Failed", "reason": "AppFailed"}}, 200
    )
    pod = {
        "metadata": {"uid": "p", "name": "head", "creationTimestamp": "2026-03-01T12:00:02Z"},
        "spec": {"nodeName": "node-1"},
        "status": {
            "phase": "Failed",
            "containerStatuses": [
                {
                    "name": "ray-head",
                    "state": {
                        "terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-03-01T12:03:00Z"}
                    },
                }
            ],
        },
    }
    jobs = await put_sealed(store, PREFIX, "kube/rayjobs.ndjson", [statuses])
    pods = await put_sealed(store, PREFIX, "kube/pods.ndjson", [version("ADDED", pod), b"\xff\n"])
    await archive(engine, store, jobs, pods, await put_sealed(store, PREFIX, NAME, [b"x\n"]))
    entries = await reader.timeline(EVERYTHING, "uid-1", 1)
    assert entries is not None
    assert [entry.at for entry in entries] == sorted(entry.at for entry in entries)
    told = [(entry.lane.value, entry.severity.value, entry.title) for entry in entries]
    for expected in (
        ("rayjob", "info", "created"),
        ("rayjob", "error", "failed"),
        ("rayjob", "error", "Failed"),
        ("pod", "error", "Failed"),
        ("pod", "error", "ray-head: OOMKilled"),
        ("raycluster", "info", "deleted"),
        ("capture", "info", "evidence is safe"),
    ):
        assert expected in told
    (bar,) = [entry for entry in entries if entry.title == "Failed" and entry.lane.value == "pod"]
    assert bar.until == datetime(2026, 3, 1, 12, 3, tzinfo=UTC)


async def test_health_tells_of_captures_and_of_what_does_not_answer(
    engine: AsyncEngine, store: FilesystemStore, reader: Reader
) -> None:
    now = datetime.now(UTC)
    for number, worth in enumerate(Completeness, 1):
        written = manifest(f"uid-{number}", start=now - timedelta(minutes=10 * number), completeness=worth,
                           margin_seconds=float(number) - 1.5)  # fmt: skip
        await record(engine, written, key_of(written))
    running = manifest("uid-9", start=now, ended_as="running")
    await record(engine, running, key_of(running))
    health = await reader.health(EVERYTHING)
    assert (health.is_ready, [check.is_ok for check in health.checks]) == (True, [True, True])
    assert (health.complete, health.partial, health.lost, health.open_attempts) == (2, 1, 1, 1)
    assert (health.capture_lag_p50_seconds, health.margin_min_seconds) == (1.0, -0.5)
    nobody = await reader.health(Scope(frozenset()))
    assert (nobody.attempts, nobody.open_attempts, nobody.newest_capture) == (0, 0, None)
