"""From bytes of the log endpoint to lines with times."""

from datetime import UTC, datetime
from io import BytesIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from archiver.core import lines
from archiver.core.lines import OPEN_BYTES, Block, TimedParser, arrived, in_pieces, to_ns, to_time
from tests.unit.core.logtext import chunked, lines_of, parse, stamped

T0 = to_ns(datetime(2026, 3, 1, 12, 0, tzinfo=UTC))
anything = st.binary(max_size=60).map(lambda text: text.replace(b"\n", b""))
logs = st.lists(st.tuples(st.integers(T0, T0 + 10**10), anything), max_size=20)
sizes = st.lists(st.integers(1, 90), max_size=5)


@given(logs, st.booleans(), sizes)
def test_any_chunking_gives_the_same_lines(log: list[tuple[int, bytes]], ends: bool, cuts: list[int]) -> None:
    found = lines_of(parse(chunked(stamped(log, ends=ends), cuts)))
    wanted = [(time, text + b"\n") for time, text in log]
    if log and not ends:
        wanted[-1] = (log[-1][0], log[-1][1])
    # a last line that is empty and has no newline has no text to carry its time
    assert found == [line for line in wanted if line[1]]


@given(st.binary(max_size=300), sizes)
@example(b"2026-13-45T99:00:00.000000000Z no date\n", [])
@example(b"\n\n\0\r\n", [1])
def test_what_has_no_stamp_is_kept_whole(junk: bytes, cuts: list[int]) -> None:
    blocks = parse(chunked(junk, cuts))
    if not lines._STAMP.search(junk):
        assert b"".join(block.text for block in blocks) == junk


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        (b"2026-03-01T12:00:00Z x", T0),
        (b"2026-03-01T12:00:00.5Z x", T0 + 500_000_000),
        (b"2026-03-01T12:00:00.123456Z x", T0 + 123_456_000),
        (b"2026-03-01T14:00:00.000000001+02:00 x", T0 + 1),
        (b"2026-03-01T06:30:00.000000002-05:30 x", T0 + 2),
    ],
)
def test_stamps_of_other_widths_and_zones_are_understood(text: bytes, ns: int) -> None:
    assert parse([text + b"\n"]) == [Block(b"x\n", [ns])]


def test_a_stamp_without_text_is_an_empty_line() -> None:
    assert parse([b"2026-03-01T12:00:00.000000000Z\n"]) == [Block(b"\n", [T0])]


def test_a_line_without_a_stamp_has_the_time_of_the_line_before() -> None:
    (block,) = parse([b"first\n2026-03-01T12:00:00.000000000Z a\nfailed to read log\n"])
    assert block == Block(b"first\na\nfailed to read log\n", [0, T0, T0])


def test_a_line_of_ten_megabytes_is_one_line_in_bounded_pieces() -> None:
    text = stamped([(T0, b"a"), (T0 + 5, b"x" * 10_000_000), (T0 + 7, b"b")])
    parser, blocks = TimedParser(), []
    for chunk in chunked(text, [65536]):
        block = parser.feed(chunk)
        assert parser._held_bytes < OPEN_BYTES
        if block:
            assert len(block.text) <= OPEN_BYTES + 65536
            blocks.append(block)
    assert lines_of(blocks) == [(T0, b"a\n"), (T0 + 5, b"x" * 10_000_000 + b"\n"), (T0 + 7, b"b\n")]


@given(st.binary(max_size=200))
def test_arrived_bytes_have_one_time_a_piece(data: bytes) -> None:
    block = arrived(data, 5)
    assert lines_of([block]) == [(5, piece) for piece in BytesIO(data)]


@given(st.binary(max_size=200), st.integers(1, 30))
def test_a_block_in_pieces_is_the_same_text_with_the_same_times(data: bytes, most: int) -> None:
    block = arrived(data, 5)
    found = list(in_pieces(block, most))
    assert b"".join(piece.text for piece in found) == data
    assert lines_of(found) == lines_of([block])
    assert all(len(piece.text) <= most for piece in found)


@given(st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC)))
def test_times_survive_the_way_there_and_back(moment: datetime) -> None:
    assert to_time(to_ns(moment)) == moment


def test_a_time_beyond_every_calendar_is_unknown() -> None:
    assert to_time(2**63 - 1) is not None
    assert to_time(10**30) is None
    assert to_time(0) is None
