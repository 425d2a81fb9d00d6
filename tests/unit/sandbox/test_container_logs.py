"""Container logs: any cutting of what is printed gives the same file; rotation, tail and since as a kubelet has them."""

import re

from hypothesis import given
from hypothesis import strategies as st

from archiver.sandbox.containerlogs import ENTRY_BYTES, ContainerLog, LogReader, ReadOptions, nano_time

BIG = 1 << 30


def read(log: ContainerLog, options: ReadOptions | None = None) -> bytes:
    return b"".join(LogReader(log, options or ReadOptions()).pieces())


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=8))
def test_any_chunking_gives_the_same_file(data: bytes, cuts: list[int]) -> None:
    log, position = ContainerLog(rotate_at_bytes=BIG), 0
    for cut in sorted(cuts):
        log.write(data[position:cut], stamp_ns=7)
        position = max(position, cut)
    log.write(data[position:], stamp_ns=7)
    log.finish(stamp_ns=7)
    whole = ContainerLog(rotate_at_bytes=BIG)
    whole.write(data, stamp_ns=7)
    whole.finish(stamp_ns=7)
    assert log.file.entries == whole.file.entries
    assert read(log) == data


def test_text_without_a_newline_waits_for_its_end() -> None:
    log = ContainerLog(rotate_at_bytes=BIG)
    log.write(b"half")
    assert read(log) == b""
    log.write(b" and half\n")
    assert read(log) == b"half and half\n"


def test_the_last_line_may_have_no_newline() -> None:
    log = ContainerLog(rotate_at_bytes=BIG)
    log.write(b"one\ntwo")
    log.finish()
    assert read(log) == b"one\ntwo"


def test_a_long_line_is_several_entries_with_one_timestamp() -> None:
    log = ContainerLog(rotate_at_bytes=BIG)
    line = b"x" * (ENTRY_BYTES * 2 + 5)
    log.write(line + b"\nshort\n", stamp_ns=1_700_000_000_000_000_001)
    assert [entry.full for entry in log.file.entries] == [False, False, True, True]
    stamp = b"2023-11-14T22:13:20.000000001Z "
    assert read(log, ReadOptions(timestamps=True)) == stamp + line + b"\n" + stamp + b"short\n"


def test_only_the_newest_file_is_read() -> None:
    log = ContainerLog(rotate_at_bytes=1000)
    for number in range(50):
        log.write(b"line %03d\n" % number)
    assert log.rotations == 2
    text = read(log)
    assert text.endswith(b"line 049\n")
    assert b"line 000\n" not in text


def test_a_reader_that_is_there_in_time_reads_over_a_rotation() -> None:
    log = ContainerLog(rotate_at_bytes=BIG)
    log.write(b"before\n")
    reader = LogReader(log, ReadOptions())
    log.write(b"last of the old file\n")
    log.rotate()
    log.write(b"first of the new file\n")
    assert b"".join(reader.pieces()) == b"before\nlast of the old file\nfirst of the new file\n"


def test_a_reader_that_is_late_by_two_rotations_misses_a_file() -> None:
    log = ContainerLog(rotate_at_bytes=BIG)
    reader = LogReader(log, ReadOptions())
    for text in (b"one\n", b"two\n", b"three\n"):
        log.write(text)
        log.rotate()
    log.write(b"four\n")
    assert b"".join(reader.pieces()) == b"one\nfour\n"


def test_tail_counts_lines_and_since_counts_time() -> None:
    log = ContainerLog(rotate_at_bytes=BIG)
    for number in range(5):
        log.write(b"%d\n" % number, stamp_ns=number * 1_000_000_000)
    assert read(log, ReadOptions(tail_lines=2)) == b"3\n4\n"
    assert read(log, ReadOptions(tail_lines=0)) == b""
    assert read(log, ReadOptions(since_ns=3_000_000_000)) == b"3\n4\n"


def test_a_removed_log_is_empty() -> None:
    log = ContainerLog(rotate_at_bytes=BIG)
    log.write(b"gone\n")
    log.remove()
    assert read(log) == b""
    assert log.is_finished


@given(st.integers(0, 4_000_000_000_000_000_000))
def test_stamps_have_nine_digits(stamp_ns: int) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", nano_time(stamp_ns))


def test_a_burst_between_two_checks_makes_one_large_file() -> None:
    log = ContainerLog(rotate_at_bytes=1000, check_seconds=3600)
    for number in range(50):
        log.write(b"line %03d\n" % number)
    assert log.rotations == 0
    assert read(log).startswith(b"line 000\n")


def test_a_rotation_by_size_waits_for_a_reader_that_is_behind() -> None:
    log = ContainerLog(rotate_at_bytes=1000)
    reader = LogReader(log, ReadOptions())
    printed = b"".join(b"line %03d\n" % number for number in range(100))
    log.write(printed)
    assert log.rotations == 1
    assert b"".join(reader.pieces()) == printed
    log.write(b"one more\n")
    assert log.rotations == 2
    assert b"".join(reader.pieces()) == b"one more\n"
