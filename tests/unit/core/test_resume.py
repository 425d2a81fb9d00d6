"""Resuming a log: exactly what is stored is dropped, and a break is seen."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.core.lines import Block
from archiver.core.records import from_value, to_value
from archiver.core.resume import TAIL_LINES, Checkpoint, Seam, SeamState, Tracker
from tests.unit.core.logtext import chunked, lines_of, parse, stamped

T0 = 1_772_366_400_000_000_000
SECOND = 10**9
# few times and few texts: the same line again and again, at the same time; less than a second apart, out of order too
lines = st.tuples(
    st.integers(0, 4).map(lambda step: T0 + 500_000_000 + step * 200_000_000), st.sampled_from([b"a", b"b", b"", b"cc"])
)
logs = st.lists(lines, min_size=1, max_size=25)
cuts = st.lists(st.integers(1, 60), max_size=4)


def track(blocks: list[Block]) -> Checkpoint:
    tracker = Tracker(Checkpoint())
    for block in blocks:
        tracker.track(block)
    return tracker.checkpoint(0)


def served(log: list[tuple[int, bytes]], checkpoint: Checkpoint) -> list[tuple[int, bytes]]:
    """What the kubelet gives for the checkpoint's sinceTime: lines from that second on, each judged by itself."""
    since = checkpoint.since
    return log if since is None else [line for line in log if line[0] >= int(since.timestamp()) * SECOND]


def resume(text: bytes, checkpoint: Checkpoint, sizes: list[int]) -> tuple[list[Block], Seam]:
    seam = Seam(checkpoint)
    kept = [seam.drop(block) for block in parse(chunked(text, sizes))]
    seam.finish()
    return [block for block in kept if block is not None], seam


@given(logs, st.integers(0, 25), cuts, cuts, st.booleans())
def test_nothing_is_lost_and_nothing_comes_twice(
    log: list[tuple[int, bytes]], at: int, before: list[int], after: list[int], in_order: bool
) -> None:
    log = sorted(log, key=lambda line: line[0]) if in_order else log
    stored = parse(chunked(stamped(log[:at]), before))
    checkpoint = track(stored)
    fresh, seam = resume(stamped(served(log, checkpoint)), checkpoint, after)
    assert seam.state is SeamState.JOINED
    assert lines_of([*stored, *fresh]) == [(time, text + b"\n") for time, text in log]


@given(logs, st.integers(0, 24), st.integers(0, 3), cuts)
def test_a_line_that_was_stored_in_part_goes_on(
    log: list[tuple[int, bytes]], at: int, inside: int, sizes: list[int]
) -> None:
    at = at % len(log)
    log[at] = (log[at][0], b"long line")
    head = stamped(log[:at]) + stamped([log[at]])[: 31 + 1 + inside]
    stored = parse([head])
    checkpoint = track(stored)
    fresh, seam = resume(stamped(served(log, checkpoint)), checkpoint, sizes)
    assert seam.state is SeamState.JOINED
    assert lines_of([*stored, *fresh]) == [(time, text + b"\n") for time, text in log]


@given(logs, cuts, cuts)
def test_the_checkpoint_does_not_depend_on_the_chunks(
    log: list[tuple[int, bytes]], one: list[int], two: list[int]
) -> None:
    text = stamped(log)
    assert track(parse(chunked(text, one))) == track(parse(chunked(text, two)))


@given(logs)
def test_a_checkpoint_survives_json(log: list[tuple[int, bytes]]) -> None:
    checkpoint = track(parse([stamped(log)]))
    assert from_value(Checkpoint, to_value(checkpoint)) == checkpoint


def test_a_later_first_line_is_a_break() -> None:
    checkpoint = track(parse([stamped([(T0, b"a"), (T0 + 1, b"b")])]))
    fresh, seam = resume(stamped([(T0 + 9, b"later")]), checkpoint, [])
    assert seam.is_broken
    assert seam.broken_at is not None
    assert lines_of(fresh) == [(T0 + 9, b"later\n")]


def test_the_stored_line_missing_among_others_of_its_nanosecond_is_a_break() -> None:
    checkpoint = track(parse([stamped([(T0, b"a"), (T0, b"b")])]))
    fresh, seam = resume(stamped([(T0, b"other"), (T0 + 1, b"c")]), checkpoint, [])
    assert seam.is_broken
    assert lines_of(fresh) == [(T0, b"other\n"), (T0 + 1, b"c\n")]


def test_a_beginning_that_was_rotated_away_within_the_tail_still_joins() -> None:
    checkpoint = track(parse([stamped([(T0, b"a"), (T0, b"b")])]))
    fresh, seam = resume(stamped([(T0, b"b"), (T0 + 1, b"c")]), checkpoint, [])
    assert seam.state is SeamState.JOINED
    assert lines_of(fresh) == [(T0 + 1, b"c\n")]


def test_a_stream_that_ends_without_the_stored_line_is_a_break() -> None:
    checkpoint = track(parse([stamped([(T0, b"a")])]))
    for text in (b"", stamped([(T0 - 1, b"older")])):
        fresh, seam = resume(text, checkpoint, [])
        assert seam.is_broken
        assert fresh == []


def test_a_stream_that_ends_with_the_stored_line_is_none() -> None:
    checkpoint = track(parse([stamped([(T0, b"a")])]))
    fresh, seam = resume(stamped([(T0, b"a")]), checkpoint, [])
    assert (seam.state, fresh) == (SeamState.JOINED, [])


def test_an_empty_checkpoint_keeps_all() -> None:
    assert Checkpoint().since is None
    fresh, seam = resume(stamped([(T0, b"a")]), Checkpoint(), [])
    assert seam.state is SeamState.JOINED
    assert lines_of(fresh) == [(T0, b"a\n")]


def test_the_resumed_read_begins_at_a_whole_second_before() -> None:
    checkpoint = track(parse([stamped([(T0 + 999_999_999, b"a")])]))
    assert checkpoint.since is not None
    assert int(checkpoint.since.timestamp()) * SECOND == T0 - SECOND
    assert checkpoint.since.microsecond == 0


@pytest.mark.parametrize("count", [TAIL_LINES, TAIL_LINES + 1000])
def test_more_lines_of_one_time_than_are_remembered_are_dropped_by_count(count: int) -> None:
    log = [(T0, b"line %d" % number) for number in range(count)]
    stored = parse([stamped(log)])
    checkpoint = track(stored)
    assert len(checkpoint.tail) <= TAIL_LINES
    log.append((T0, b"new"))
    fresh, seam = resume(stamped(log), checkpoint, [1000])
    assert seam.state is SeamState.JOINED
    assert lines_of(fresh) == [(T0, b"new\n")]


def test_a_huge_line_is_dropped_piece_by_piece() -> None:
    log = [(T0, b"x" * 1_000_000), (T0 + 1, b"y" * 500_000), (T0 + 2, b"z")]
    stored = parse(chunked(stamped(log[:2]), [65536]))
    fresh, seam = resume(stamped(log), track(stored), [65536])
    assert seam.state is SeamState.JOINED
    assert lines_of(fresh) == [(T0 + 2, b"z\n")]


def test_a_huge_line_stored_in_part_goes_on_at_its_byte() -> None:
    log = [(T0, b"x" * 1_000_000), (T0 + 2, b"z")]
    stored = [block for block in parse(chunked(stamped(log), [65536])) if not block.text.endswith(b"\n")][:2]
    checkpoint = track(stored)
    assert 100_000 < checkpoint.open_bytes < 1_000_000
    fresh, seam = resume(stamped(log), checkpoint, [50_000])
    assert seam.state is SeamState.JOINED
    assert lines_of([*stored, *fresh]) == [(time, text + b"\n") for time, text in log]


def test_the_checksum_cannot_carry_a_secret() -> None:
    checkpoint = track(parse([stamped([(T0, b"password=hunter2" * 100)])]))
    assert all(0 <= each < 2**32 for each in checkpoint.tail)
    assert replace(checkpoint, tail=()) == replace(track(parse([stamped([(T0, b"other")])])), tail=())
