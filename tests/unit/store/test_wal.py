"""The write-ahead file: whole records come back, cut and damaged ones end it."""

from array import array
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from archiver.core.lines import Block, piece_count
from archiver.core.resume import Checkpoint
from archiver.core.segments import Span, StreamState
from archiver.store.wal import WalRecord, decode_records, encode_record

records = st.builds(
    lambda text, end, masked: WalRecord.of(
        [Block(text, [7] * piece_count(text))],
        Span(0, end),
        StreamState(raw_bytes=len(text), masked=masked, checkpoint=Checkpoint(time=5, tail=(1, 2))),
    ),
    st.binary(max_size=60),
    st.integers(0, 99),
    st.dictionaries(st.text(), st.integers(0)),
)


def encoded(found: Sequence[WalRecord]) -> bytes:
    return b"".join(encode_record(record) for record in found)


@given(st.lists(records, max_size=4))
def test_records_come_back(written: list[WalRecord]) -> None:
    assert list(decode_records(encoded(written))) == written


@given(st.lists(records, min_size=1, max_size=4), st.data())
def test_a_cut_file_gives_its_whole_records(written: list[WalRecord], data: st.DataObject) -> None:
    body = encoded(written)
    cut = data.draw(st.integers(0, len(body) - 1))
    found = list(decode_records(body[:cut]))
    assert found == written[: len(found)]
    assert len(encoded(written[: len(found) + 1])) > cut


@given(st.lists(records, min_size=1, max_size=3), st.data())
def test_a_damaged_record_ends_the_file(written: list[WalRecord], data: st.DataObject) -> None:
    body = bytearray(encoded(written))
    position = data.draw(st.integers(0, len(body) - 1))
    body[position] ^= data.draw(st.integers(1, 255))
    found = list(decode_records(bytes(body)))
    assert found == written[: len(found)]
    assert len(found) < len(written)


@given(st.binary(max_size=200))
def test_junk_is_no_record(junk: bytes) -> None:
    assert list(decode_records(junk)) == []


def test_blocks_that_go_on_inside_a_line_have_one_time_for_it() -> None:
    record = WalRecord.of([Block(b"a\nb", [1, 2]), Block(b"b\nc\n", [2, 3])], Span(0, 7), StreamState())
    assert (record.text, record.times) == (b"a\nbb\nc\n", array("q", [1, 2, 3]))
