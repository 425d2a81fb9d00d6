"""Bytes to blocks and lines: where a line came from, who wrote it, when. Not what it means."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

BLOCK_BYTES = 1 << 20
LINE_LIMIT_BYTES = 4096

# The last part: colours of which the escape character was lost on the way.
ANSI = re.compile(
    r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b\x0c\x0e-\x1f]|(?:#033)?\[(?:\d{1,2}(?:;\d{1,3}){0,4})?m"
)
_CRI = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?")
_COMPOSE = re.compile(r"^[a-z][\w.-]{0,60}\s*\| ")
_ACTOR = re.compile(r"^\((?P<who>(?:[\w:.<>\[\]()/+ -]{0,120}? ?)pid=\d+(?:, ip=[\w.:-]+)?(?:, [^)]{0,80})?)\) ?")
_RAY = re.compile(r"^\((?P<who>raylet|autoscaler|gcs_server|dashboard|scheduler)(?:[ ,+][^)]{0,80})?\) ?")
_RANK = re.compile(r"^\[?(?:default|rank)(?P<who>\d{1,6})\]?:\s?")
# How vLLM, SGLang and glog-like loggers begin each line of a traceback. Lines below error level keep their begin.
_LOGGED = re.compile(
    r"^(?:(?:ERROR|CRITICAL|FATAL)\s+(?:\d\d-\d\d |\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(?:[.,]\d+)? (?:\[?[\w./-]+\.py:\d+\] ?)"
    r"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?(?: (?:TP|DP|PP|EP)\d+)*\] )"
)
_REPEATED = re.compile(r" ?\[repeated (?P<count>\d+)x across cluster\].*$")
_TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
    r"(?:Z|(?P<sign>[+-])(?P<oh>\d\d):?(?P<om>\d\d)(?!\d))?"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line without colours and prefixes. `who` tells the writer apart inside one source; `repeated` is Ray's own count."""

    text: str
    who: str = ""
    time: float | None = None
    repeated: int = 1


def blocks(chunks: Iterable[bytes], size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Blocks of at most `size` bytes that end at a line's end where one exists; the same for any chunking."""
    rest = bytearray()
    for chunk in chunks:
        view = memoryview(chunk)
        for start in range(0, len(view), size):
            rest += view[start : start + size]
            while len(rest) >= size:
                cut = rest.rfind(b"\n", 0, size) + 1 or size
                yield bytes(rest[:cut])
                del rest[:cut]
    if rest:
        yield bytes(rest)


def clean(raw: bytes) -> Line:
    """Decode one line, drop colours, prefixes and Ray's repeat counter, and read its time."""
    text = raw.decode("utf-8", "replace").rstrip("\r\n")
    if not text.isprintable() or ("m" in text and "[" in text):
        text = ANSI.sub("", text)
    moment = parse_time(text[:80])
    who, repeated = "", 1
    for pattern in (_CRI, _COMPOSE, _ACTOR, _RAY, _RANK, _LOGGED):
        if found := pattern.match(text):
            who = found.groupdict().get("who") or who
            text = text[found.end() :]
    if "[repeated " in text and (found := _REPEATED.search(text)):
        repeated, text = int(found["count"][:9]), text[: found.start()].rstrip()
    return Line(text, who, moment, repeated)


def parse_time(text: str) -> float | None:
    """Unix seconds of the first date and time in the text; without a zone it is read as UTC."""
    found = _TIME.search(text)
    if found is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{found['day']}T{found['clock']}").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    if found["sign"]:
        offset_seconds = int(found["oh"]) * 3600 + int(found["om"]) * 60
        moment -= offset_seconds if found["sign"] == "+" else -offset_seconds
    return moment + float(f"0.{found['fraction'] or 0}")


def window(block: bytes, start: int, end: int, hit_end: int) -> bytes:
    """The line, or of a very long one the part around the hit."""
    if end - start <= LINE_LIMIT_BYTES:
        return block[start:end]
    middle = max(start, hit_end - LINE_LIMIT_BYTES // 2)
    return block[middle : min(end, middle + LINE_LIMIT_BYTES)]
