"""zstd frames by the zstandard library. The one home of that library."""

import zstandard

from archiver.errors import DataError

LEVEL = 3


class ZstdCodec:
    """One compressor and one decompressor for all streams of a thread: their contexts are the large part.

    Not for use by several threads at once.
    """

    def __init__(self, level: int = LEVEL) -> None:
        self._compressor = zstandard.ZstdCompressor(level=level, write_content_size=True)
        self._decompressor = zstandard.ZstdDecompressor()

    def compress(self, raw: bytes) -> bytes:
        """One frame that says its size."""
        return self._compressor.compress(raw)

    def decompress(self, frame: bytes, raw_bytes: int) -> bytes:
        """The frame's bytes. Raises DataError for a broken frame and for one longer than ``raw_bytes``."""
        try:
            size = zstandard.frame_content_size(frame)
            if size > raw_bytes:
                raise DataError(f"a frame of {size} bytes where at most {raw_bytes} are expected")
            return self._decompressor.decompress(frame, max_output_size=raw_bytes)
        except zstandard.ZstdError as error:
            raise DataError(f"a broken zstd frame: {error}") from error


def decompress_all(body: bytes, limit_bytes: int) -> bytes:
    """All frames of a small object one after the other, skippable ones passed over. Raises DataError."""
    try:
        with zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True) as reader:
            raw = reader.read(limit_bytes + 1)
    except zstandard.ZstdError as error:
        raise DataError(f"a broken zstd frame: {error}") from error
    if len(raw) > limit_bytes:
        raise DataError(f"the document is longer than {limit_bytes} bytes")
    return bytes(raw)
