"""The write-ahead file of a stream's tail: masked text that is in no part yet, record by record. Bytes only, no files.

A record that was cut by a kill, and all after it, count as not written: their text is read from the source again.
"""

import json
import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

from archiver.core import records
from archiver.core.lines import Block
from archiver.core.segments import Span, StreamState
from archiver.errors import DataError

_HEADER = struct.Struct("<IIII")


@dataclass(frozen=True, slots=True)
class WalRecord:
    """Text that was taken in together. ``state`` is the stream's after it."""

    text: bytes
    times: "array[int]"
    source: Span
    state: StreamState

    @classmethod
    def of(cls, blocks: Sequence[Block], source: Span, state: StreamState) -> "WalRecord":
        """Blocks that follow each other; one that begins inside a line goes on with the one before."""
        times = array("q")
        is_inside = False
        for block in blocks:
            times.extend(block.times[1:] if is_inside else block.times)
            is_inside = not block.text.endswith(b"\n")
        return cls(b"".join([block.text for block in blocks]), times, source, state)

    @property
    def block(self) -> Block:
        """Text and times."""
        return Block(self.text, self.times)


def encode_record(record: WalRecord) -> bytes:
    """One record with its lengths and a checksum in front."""
    state = json.dumps({"source": records.to_value(record.source), "state": records.to_value(record.state)}).encode()
    times = record.times.tobytes()
    body = b"".join((record.text, times, state))
    return _HEADER.pack(len(record.text), len(times), len(state), crc32(body)) + body


def decode_records(body: bytes) -> Iterator[WalRecord]:
    """All whole records from the beginning."""
    position = 0
    while position + _HEADER.size <= len(body):
        text_bytes, times_bytes, state_bytes, crc = _HEADER.unpack_from(body, position)
        start = position + _HEADER.size
        position = start + text_bytes + times_bytes + state_bytes
        payload = body[start:position]
        if len(payload) < position - start or crc32(payload) != crc:
            return
        try:
            yield _decode(payload, text_bytes, times_bytes)
        except (DataError, ValueError):  # of another version
            return


def _decode(payload: bytes, text_bytes: int, times_bytes: int) -> WalRecord:
    fields = json.loads(payload[text_bytes + times_bytes :])
    times = array("q", payload[text_bytes : text_bytes + times_bytes])
    source, state = records.from_value(Span, fields["source"]), records.from_value(StreamState, fields["state"])
    return WalRecord(payload[:text_bytes], times, source, state)
