"""Small notes on the local disk, beside the spool: what has to be known again after a kill while the store is away.

A note appears whole or not at all. It is a help and no evidence: a note that cannot be read is none.
"""

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from archiver.errors import SpoolFull, UserError

_SUFFIX = ".json"


class Notes:
    """A folder of notes by name. Blocking file work; ``open`` makes the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self) -> None:
        """Raises UserError where the folder cannot be used."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for half in self._folder.glob("*.tmp"):
                half.unlink()
        except OSError as error:
            raise UserError(f"the spool folder {self._folder} cannot be used: {error.strerror}") from error

    def write(self, name: str, body: bytes) -> None:
        """Replaces the note of that name, and outlives a power cut. Raises SpoolFull."""
        path = self._path(name)
        half = path.with_suffix(".tmp")
        try:
            with half.open("wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            half.replace(path)
        except OSError as error:
            with suppress(OSError):
                half.unlink(missing_ok=True)
            raise SpoolFull(f"the spool's disk takes nothing: {error.strerror}") from error

    def read_all(self) -> list[bytes]:
        """The bodies of all notes."""
        return [path.read_bytes() for path in sorted(self._folder.glob(f"*{_SUFFIX}"))]

    def drop(self, name: str) -> None:
        """The note is needed no more; one that is not there is no error."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{sha256(name.encode(errors='surrogateescape')).hexdigest()[:32]}{_SUFFIX}"
