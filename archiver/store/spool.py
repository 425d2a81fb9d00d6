"""What is not in the object store yet, on disk, within a limit. Blocking file work; the uploader empties it.

``streams/<id>/`` has a stream's queued parts (``00000007.part``) and the write-ahead file of what is in no part yet
(``00000008.wal``); ``documents/`` whole small objects. A part appears by rename; the write-ahead file of its number is
removed after that. A killed process loses what it had not appended, which is at most a second's reading. Against a power
cut only parts that wait for the store are synced: what is younger can be read from the source again.
"""

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock

from archiver.errors import SpoolFull, UserError

_PART, _WAL, _DOCUMENT, _META = ".part", ".wal", ".doc", "stream.json"
_PROBE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, order=True)
class StreamId:
    """One log of one attempt: its prefix in the bucket, and its name below it."""

    prefix: str
    name: str


@dataclass(frozen=True, slots=True)
class Document:
    """A small object that waits for the store."""

    key: str
    path: Path


class Spool:
    """A bounded folder. ``open`` makes it and counts what an earlier process left."""

    def __init__(self, root: Path, *, limit_bytes: int) -> None:
        self._streams, self._documents = root / "streams", root / "documents"
        self._limit_bytes = limit_bytes
        self._usage_bytes = 0
        self._disk_is_full = False
        self._lock = Lock()

    @property
    def usage_bytes(self) -> int:
        """Bytes in the folder's files."""
        return self._usage_bytes

    @property
    def limit_bytes(self) -> int:
        """Where writers begin to wait."""
        return self._limit_bytes

    @property
    def is_full(self) -> bool:
        """The limit or the disk's end is reached. A disk counts as full until something was removed."""
        return self._disk_is_full or self._usage_bytes >= self._limit_bytes

    def open(self) -> None:
        """Raises UserError where the folder cannot be used."""
        try:
            for folder in (self._streams, self._documents):
                folder.mkdir(parents=True, exist_ok=True)
            found = (path for folder in (self._streams, self._documents) for path in folder.rglob("*"))
            files = [path for path in found if path.is_file()]
            self._usage_bytes = sum(_clean(path) for path in files)
            for folder in self._streams.iterdir():
                self._forget_empty(folder)
        except OSError as error:
            raise UserError(f"the spool folder {self._streams.parent} cannot be used: {error.strerror}") from error

    def probe(self) -> None:
        """Finds out whether a disk that was full takes something again: others may have made room."""
        if not self._disk_is_full:
            return
        path = self._streams.parent / "probe.tmp"
        with suppress(OSError):
            path.write_bytes(bytes(_PROBE_BYTES))
            self._disk_is_full = False
        path.unlink(missing_ok=True)

    def streams(self) -> list[StreamId]:
        """All that have something here."""
        found = [_read_meta(folder) for folder in self._streams.iterdir()]
        return sorted(stream for stream in found if stream)

    def queued(self, stream: StreamId) -> list[int]:
        """The numbers of the parts that wait, in order."""
        return sorted(int(path.stem) for path in self._folder(stream).glob(f"*{_PART}"))

    def tails(self, stream: StreamId) -> list[int]:
        """The numbers of the write-ahead files: one, or more after a kill at the wrong moment."""
        return sorted(int(path.stem) for path in self._folder(stream).glob(f"*{_WAL}"))

    def read_part(self, stream: StreamId, sequence: int) -> bytes | None:
        """A queued part's bytes."""
        return _read(self._part(stream, sequence))

    def read_wal(self, stream: StreamId, sequence: int) -> bytes:
        """The tail that would become part ``sequence``; empty where there is none."""
        return _read(self._wal(stream, sequence)) or b""

    def append_wal(self, stream: StreamId, sequence: int, record: bytes) -> None:
        """Raises SpoolFull; the file is then as before."""
        if self.is_full:
            raise SpoolFull(f"the spool holds {self._usage_bytes} of {self._limit_bytes} bytes")
        self._write(self._wal(stream, sequence), record, stream, append=True)

    def write_part(self, stream: StreamId, sequence: int, body: bytes) -> None:
        """Queues a part in place of its write-ahead file. May pass the limit, for it frees more than it takes.

        Raises SpoolFull where the disk has no room.
        """
        self._write(self._part(stream, sequence), body, stream, append=False)
        self._remove(self._wal(stream, sequence))

    def drop_wal(self, stream: StreamId, sequence: int) -> None:
        """The tail is safe elsewhere."""
        self._remove(self._wal(stream, sequence))

    def drop_part(self, stream: StreamId, sequence: int) -> None:
        """The part is in the store."""
        self._remove(self._part(stream, sequence))

    def drop_stream(self, stream: StreamId) -> None:
        """Everything of a stream goes."""
        folder = self._folder(stream)
        if folder.is_dir():
            for path in folder.iterdir():
                self._remove(path)
            with suppress(OSError):  # filled again at this moment
                folder.rmdir()

    def sync_part(self, stream: StreamId, sequence: int) -> None:
        """Makes a part outlive a power cut."""
        _sync(self._part(stream, sequence))

    def write_document(self, key: str, body: bytes) -> Document:
        """Queues an object; an older one of the same key is replaced. Raises SpoolFull."""
        path = self._documents / f"{sha256(key.encode()).hexdigest()[:32]}{_DOCUMENT}"
        self._write(path, key.encode() + b"\n" + body, None, append=False)
        return Document(key, path)

    def documents(self) -> list[Document]:
        """Those that wait."""
        found = [(path, _read(path) or b"") for path in sorted(self._documents.glob(f"*{_DOCUMENT}"))]
        return [Document(body.partition(b"\n")[0].decode(), path) for path, body in found if b"\n" in body]

    def read_document(self, document: Document) -> bytes | None:
        """Its body."""
        body = _read(document.path)
        return body.partition(b"\n")[2] if body is not None else None

    def drop_document(self, document: Document, body: bytes) -> None:
        """The document is in the store; one that was replaced meanwhile stays."""
        if self.read_document(document) == body:
            self._remove(document.path)

    def _write(self, path: Path, body: bytes, stream: StreamId | None, *, append: bool) -> None:
        target = path if append else path.with_suffix(".tmp")
        before = _size(path)
        try:
            if stream and not path.parent.is_dir():
                self._make(path.parent, stream)
            with target.open("ab" if append else "wb") as file:
                file.write(body)
            if not append:
                target.replace(path)
        except OSError as error:
            self._undo(target, before if append else None)
            self._disk_is_full = True
            raise SpoolFull(f"the spool's disk takes nothing: {error.strerror}") from error
        self._count(_size(path) - before)

    def _make(self, folder: Path, stream: StreamId) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        meta = json.dumps({"prefix": stream.prefix, "name": stream.name}).encode()
        (folder / _META).write_bytes(meta)
        self._count(len(meta))

    def _undo(self, path: Path, size: int | None) -> None:
        try:
            if size is None:
                path.unlink(missing_ok=True)
            elif path.exists():
                os.truncate(path, size)
        except OSError:
            # The half record that stays has no valid checksum and ends the file for its reader.
            return

    def _remove(self, path: Path) -> None:
        size = _size(path)
        path.unlink(missing_ok=True)
        self._disk_is_full = False
        self._count(-size)

    def _forget_empty(self, folder: Path) -> None:
        if [path.name for path in folder.iterdir()] in ([], [_META]):
            self._remove(folder / _META)
            folder.rmdir()

    def _count(self, change: int) -> None:
        with self._lock:
            self._usage_bytes = max(0, self._usage_bytes + change)

    def _folder(self, stream: StreamId) -> Path:
        return (
            self._streams / sha256(f"{stream.prefix}\0{stream.name}".encode(errors="surrogateescape")).hexdigest()[:32]
        )

    def _part(self, stream: StreamId, sequence: int) -> Path:
        return self._folder(stream) / f"{sequence:08d}{_PART}"

    def _wal(self, stream: StreamId, sequence: int) -> Path:
        return self._folder(stream) / f"{sequence:08d}{_WAL}"


def _clean(path: Path) -> int:
    if path.suffix == ".tmp":
        path.unlink()
        return 0
    return path.stat().st_size


def _read_meta(folder: Path) -> StreamId | None:
    body = _read(folder / _META)
    try:
        meta = json.loads(body or b"null")
        return StreamId(meta["prefix"], meta["name"])
    except (ValueError, TypeError, KeyError):
        return None


def _read(path: Path) -> bytes | None:
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return None


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def _sync(path: Path) -> None:
    with suppress(OSError), path.open("rb") as file:
        os.fsync(file.fileno())
