"""HTTP's Range header (RFC 9110): one range of bytes. What is not understood is ignored, as the standard wants."""

import re

from archiver.read.windows import ByteRange

_RANGE = re.compile(r"\s*bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", re.IGNORECASE)


def parse_range(header: str | None) -> ByteRange | None:
    """None for no header, for several ranges and for what is no range: then the whole is sent."""
    found = _RANGE.fullmatch(header) if header else None
    if found is None:
        return None
    start, end = found.groups()
    if not start:
        return ByteRange(suffix=int(end)) if end else None
    if end and int(end) < int(start):
        return None
    return ByteRange(start=int(start), end=int(end) if end else None)
