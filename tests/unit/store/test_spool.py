"""The spool's folder: counted, bounded, found again."""

from pathlib import Path

import pytest

from archiver.errors import SpoolFull, UserError
from archiver.store.spool import Spool, StreamId

ONE, TWO = StreamId("v1/c/n/d/j/u/attempt-001/", "logs/a.log"), StreamId("v1/c/n/d/j/u/attempt-001/", "logs/b.log")


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return opened(tmp_path)


def opened(root: Path, limit_bytes: int = 10_000) -> Spool:
    spool = Spool(root / "spool", limit_bytes=limit_bytes)
    spool.open()
    return spool


def on_disk(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def test_a_part_takes_the_place_of_its_write_ahead_file(spool: Spool, tmp_path: Path) -> None:
    spool.append_wal(ONE, 0, b"one")
    spool.append_wal(ONE, 0, b"two")
    assert spool.read_wal(ONE, 0) == b"onetwo"
    spool.write_part(ONE, 0, b"part")
    assert (spool.read_wal(ONE, 0), spool.read_part(ONE, 0), spool.queued(ONE)) == (b"", b"part", [0])
    assert spool.usage_bytes == on_disk(tmp_path)


def test_another_process_finds_everything(spool: Spool, tmp_path: Path) -> None:
    spool.write_part(ONE, 3, b"part")
    spool.append_wal(ONE, 4, b"tail")
    spool.append_wal(TWO, 0, b"tail")
    spool.write_document("v1/doc.json.zst", b"body\nwith lines")
    again = opened(tmp_path)
    assert again.streams() == [ONE, TWO]
    assert (again.queued(ONE), again.tails(ONE), again.read_wal(TWO, 0)) == ([3], [4], b"tail")
    (document,) = again.documents()
    assert (document.key, again.read_document(document)) == ("v1/doc.json.zst", b"body\nwith lines")
    assert again.usage_bytes == spool.usage_bytes == on_disk(tmp_path)


def test_what_is_half_written_or_empty_is_cleared_away(spool: Spool, tmp_path: Path) -> None:
    spool.append_wal(ONE, 0, b"x")
    spool.drop_wal(ONE, 0)
    (tmp_path / "spool" / "documents" / "x.tmp").write_bytes(b"half")
    again = opened(tmp_path)
    assert (again.streams(), again.usage_bytes, on_disk(tmp_path)) == ([], 0, 0)


def test_beyond_the_limit_only_parts_go_in(tmp_path: Path) -> None:
    spool = opened(tmp_path, 100)
    spool.append_wal(ONE, 0, b"x" * 200)
    assert spool.is_full
    with pytest.raises(SpoolFull):
        spool.append_wal(ONE, 0, b"x")
    spool.write_part(ONE, 0, b"small")
    spool.drop_stream(ONE)
    assert not spool.is_full
    assert (spool.usage_bytes, on_disk(tmp_path)) == (0, 0)


def test_a_document_that_was_replaced_meanwhile_stays(spool: Spool) -> None:
    old = spool.write_document("k", b"old")
    spool.write_document("k", b"new")
    spool.drop_document(old, b"old")
    assert [spool.read_document(document) for document in spool.documents()] == [b"new"]


def test_a_disk_without_room_refuses_and_recovers(tmp_path: Path) -> None:
    spool = opened(tmp_path, 1 << 40)
    spool.append_wal(ONE, 0, b"kept")
    folder = next((tmp_path / "spool" / "streams").iterdir())
    # what no file system takes, root or not: a folder where the file should be
    (folder / "00000001.tmp").mkdir()
    with pytest.raises(SpoolFull):
        spool.write_part(ONE, 1, b"part")
    assert spool.is_full
    with pytest.raises(SpoolFull):
        spool.append_wal(ONE, 0, b"more")
    spool.probe()
    assert not spool.is_full
    spool.append_wal(ONE, 0, b"!")
    assert spool.read_wal(ONE, 0) == b"kept!"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "spool").write_bytes(b"a file")
    with pytest.raises(UserError, match=r"spool.*cannot be used"):
        opened(tmp_path)
