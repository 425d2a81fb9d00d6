"""Parts, frames and the sealed object's index: standard zstd that can be entered anywhere."""

import shutil
import subprocess
from array import array
from io import BytesIO
from itertools import pairwise

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from archiver.core import segments
from archiver.core.frames import FrameTable, pack, time_span, unpack
from archiver.core.lines import Block, piece_count
from archiver.core.segments import (
    FRAME_BYTES,
    TRAILER_BYTES,
    Footer,
    PartBuilder,
    Span,
    StreamState,
    add_span,
    decode_footer,
    decode_frame,
    encode_footer,
    footer_bytes,
    missing_spans,
)
from archiver.errors import DataError
from archiver.store.codec import ZstdCodec
from tests.unit.core.logtext import lines_of

CODEC = ZstdCodec()
T0 = 1_772_366_400_000_000_000
texts = st.lists(st.binary(max_size=40).map(lambda text: text.replace(b"\n", b" ")), max_size=30)


def blocks(lines: list[bytes], cuts: list[int]) -> list[Block]:
    """The lines, each with its own time, in blocks that are cut anywhere."""
    text, times = b"".join(line + b"\n" for line in lines), [T0 + number for number in range(len(lines))]
    found, start, line, turn = [], 0, 0, 0
    while start < len(text):
        piece = text[start : start + (cuts[turn % len(cuts)] if cuts else len(text))]
        found.append(Block(piece, times[line : line + piece_count(piece)]))
        start, line, turn = start + len(piece), line + piece.count(b"\n"), turn + 1
    return found


def build(added: list[Block]) -> tuple[bytes, Footer, FrameTable]:
    builder = PartBuilder(CODEC)
    for block in added:
        builder.add(block)
    return builder.finish(sequence=0, writer="w", source=Span(0, 9), state=StreamState(next_sequence=1))


def decoded(body: bytes, table: FrameTable) -> list[Block]:
    return [decode_frame(body, frame, CODEC) for frame in table]


def plain(body: bytes) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True) as reader:
        return reader.read()


@given(texts, st.lists(st.integers(1, 50), max_size=4))
def test_text_and_times_come_back_whatever_the_blocks(lines: list[bytes], cuts: list[int]) -> None:
    body, footer, table = build(blocks(lines, cuts))
    assert lines_of(decoded(body, table)) == [(T0 + number, line + b"\n") for number, line in enumerate(lines)]
    assert plain(body) == b"".join(line + b"\n" for line in lines)
    assert (footer.newlines, footer.ends_line) == (len(lines), True)
    assert decode_footer(body, CODEC) == (footer, table)


@pytest.mark.parametrize("line_bytes", [3, 128, 70_000, 300_000, 1_000_000])
def test_frames_keep_to_their_size(line_bytes: int) -> None:
    line = b"x" * (line_bytes - 1)
    count = 700_000 // line_bytes + 2
    body, footer, table = build(blocks([line] * count, [65536]))
    sizes = table.column("raw_bytes")
    assert all(64 * 1024 <= size <= FRAME_BYTES for size in sizes[:-1])
    assert sum(sizes) == footer.raw_bytes == count * line_bytes
    assert lines_of(decoded(body, table)) == [(T0 + number, line + b"\n") for number in range(count)]


def test_a_plain_decoder_gives_exactly_the_text() -> None:
    lines = [b"line %d" % number for number in range(50_000)]
    body, _, _ = build(blocks(lines, [10_000]))
    more, _, _ = build(blocks([b"more"], []))
    assert command(body) == b"".join(line + b"\n" for line in lines)
    assert command(body + more).endswith(b"line 49999\nmore\n")
    assert command(CODEC.compress(b"") + build([])[0]) == b""


def command(stored: bytes) -> bytes:
    """The zstd command's word where there is one, the library's otherwise."""
    if shutil.which("zstd") is None:
        return plain(stored)
    return subprocess.run(["zstd", "-dc"], input=stored, capture_output=True, check=True).stdout


def test_an_unfinished_last_line_is_counted_by_the_state() -> None:
    _, footer, table = build([Block(b"a\nb", [T0, T0 + 1])])
    assert (footer.newlines, footer.ends_line) == (1, False)
    assert list(table.column("open_end")) == [1]
    assert StreamState(newlines=1, ends_line=False).lines == 2
    assert StreamState().lines == 0


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_numbers_come_back(numbers: list[int]) -> None:
    assert list(unpack(pack(numbers))) == numbers


def test_arrival_times_cost_nearly_nothing() -> None:
    assert len(CODEC.compress(pack([T0] * 10_000))) < 100


@given(st.lists(st.sampled_from([0, 5, 7, 9])))
def test_the_time_span_knows_unknown_times(times: list[int]) -> None:
    known = [time for time in times if time]
    assert time_span(array("q", times)) == (known[0] if known else 0, max(known, default=0))


def test_a_footer_is_found_from_the_last_bytes() -> None:
    body, footer, table = build(blocks([b"a"] * 1000, []))
    size = footer_bytes(body[-TRAILER_BYTES:])
    assert decode_footer(body[-size:], CODEC) == (footer, table)
    assert plain(body[:-size]) == b"a\n" * 1000


def test_a_sealed_object_is_its_parts_and_one_more_footer() -> None:
    one, footer, table = build(blocks([b"a", b"b"], []))
    two, _, more = build(blocks([b"c"], []))
    table.extend(more, shift=len(one))
    whole = one + two + encode_footer(footer, table, CODEC)
    assert plain(whole) == b"a\nb\nc\n"
    assert lines_of(decoded(whole, decode_footer(whole, CODEC)[1])) == [(T0, b"a\n"), (T0 + 1, b"b\n"), (T0, b"c\n")]


@given(st.data())
def test_a_damaged_footer_is_an_error_and_never_a_crash(data: st.DataObject) -> None:
    body, _, _ = build(blocks([b"a", b"b"], []))
    damaged = bytearray(body[-footer_bytes(body) :])
    position = data.draw(st.integers(0, len(damaged) - 1))
    damaged[position] ^= data.draw(st.integers(1, 255))
    header = segments._HEADER.size
    if position >= header:
        with pytest.raises(DataError):
            decode_footer(bytes(damaged), CODEC)


@pytest.mark.parametrize("body", [b"", b"short", b"\0" * 100])
def test_what_has_no_footer_is_an_error(body: bytes) -> None:
    with pytest.raises(DataError):
        decode_footer(body, CODEC)


def test_a_cut_footer_is_an_error() -> None:
    body, _, _ = build(blocks([b"a"], []))
    with pytest.raises(DataError, match="cut"):
        decode_footer(body[-TRAILER_BYTES - 5 :], CODEC)


def test_a_frame_that_is_cut_or_foreign_is_an_error() -> None:
    body, _, table = build(blocks([b"a" * 50] * 100, []))
    for damaged in (body[:20], b"x" * len(body), b"\0" * 10 + body[10:]):
        with pytest.raises(DataError):
            decode_frame(damaged, table[0], CODEC)


def test_a_frame_that_would_blow_up_is_refused() -> None:
    bomb = CODEC.compress(bytes(10_000_000))
    with pytest.raises(DataError, match="at most 100"):
        CODEC.decompress(bomb, 100)


spans = st.builds(lambda start, length: Span(start, start + length), st.integers(0, 60), st.integers(0, 15))


@given(st.lists(spans, max_size=8), st.integers(0, 80))
def test_stored_and_missing_ranges_are_the_whole(parts: list[Span], size: int) -> None:
    merged: tuple[Span, ...] = ()
    for part in parts:
        merged = add_span(merged, part)
    stored = {byte for part in parts for byte in range(part.start, part.end)}
    assert {byte for span in merged for byte in range(span.start, span.end)} == stored
    assert all(one.end < two.start for one, two in pairwise(merged))
    missing = {byte for span in missing_spans(merged, size) for byte in range(span.start, span.end)}
    assert missing == set(range(size)) - stored


def test_text_is_written_in_the_order_it_was_added() -> None:
    body, _, table = build([Block(b"a\nb", [1, 2]), Block(b"b\n", [2]), Block(b"c", [3])])
    assert [line for block in decoded(body, table) for line in BytesIO(block.text)] == [b"a\n", b"bb\n", b"c"]
    assert list(decoded(body, table)[0].times) == [1, 2, 3]
