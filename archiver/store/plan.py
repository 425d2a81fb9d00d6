"""How to put objects together on S3: which bytes the server copies by itself, and which go through us. Arithmetic only."""

from collections.abc import Sequence
from dataclasses import dataclass

COPY_LEAST_BYTES = 5 * 1024 * 1024  # S3 takes no smaller part, but for the last one
COPY_MOST_BYTES = 1024 * 1024 * 1024
UPLOAD_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Copy:
    """A range of a source that the server copies itself. ``end`` is not included."""

    source: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Upload:
    """Ranges that are read and sent as one part."""

    ranges: tuple[Copy, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all ranges."""
        return sum(each.end - each.start for each in self.ranges)


Step = Copy | Upload


def plan_compose(sources: Sequence[tuple[str, int]]) -> list[Step]:
    """The parts of a multipart upload, in order, for sources with their sizes; every one but the last is large enough.

    Large sources are copied by the server; small ones gather in uploads of at most ``UPLOAD_BYTES``.
    """
    steps: list[Step] = []
    gathered: list[Copy] = []
    for source, size in sources:
        start = 0
        while start < size:
            held, is_large = Upload(tuple(gathered)).size_bytes, size - start >= COPY_LEAST_BYTES
            if (is_large and held >= COPY_LEAST_BYTES) or held >= UPLOAD_BYTES:
                steps.append(Upload(tuple(gathered)))
                gathered, held = [], 0
            if is_large and not held:
                end = min(size, start + COPY_MOST_BYTES)
                steps.append(Copy(source, start, end))
            else:
                # a large source only fills up what would be too small a part, and is copied from there on
                room = (COPY_LEAST_BYTES if is_large else UPLOAD_BYTES) - held
                end = min(size, start + room)
                gathered.append(Copy(source, start, end))
            start = end
    return [*steps, Upload(tuple(gathered))] if gathered else steps
