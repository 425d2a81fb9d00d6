"""Bytes to blocks and lines: where a line came from, who wrote it, when. Not what it means."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

BLOCK_BYTES = 1 << 20
LINE_LIMIT_BYTES = 4096
FOLDED_LIMIT_BYTES = 65_536

# The last part: colours of which the escape character was lost on the way.
ANSI = re.compile(
    r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b\x0c\x0e-\x1f]|(?:#033)?\[(?:\d{1,2}(?:;\d{1,3}){0,4})?m"
)
_CRI = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?")
_COMPOSE = re.compile(r"^[a-z][\w.-]{0,60}\s*\| ")
_COLLECTED = re.compile(
    r"^(?:\[pod/[\w.-]{1,253}/[\w.-]{1,63}\] |\[\d+,(?:mpirank:)?(?P<who>\d+)(?:,[\w.-]{1,63})?\]<std(?:err|out)>: ?)"
)
_ACTOR = re.compile(r"^\((?P<who>(?:[\w:.<>\[\]()/+ -]{0,120}? ?)pid=\d+(?:, ip=[\w.:-]+)?(?:, [^)]{0,80})?)\) ?")
_RAY = re.compile(r"^\((?P<who>raylet|autoscaler|gcs_server|dashboard|scheduler)(?:[ ,+][^)]{0,80})?\) ?")
_RANK = re.compile(r"^\[?(?:default|rank)(?P<who>\d{1,6})\]?:\s?")
# How vLLM, SGLang and glog-like loggers begin each line of a traceback. Lines below error level keep their begin.
_LOGGED = re.compile(
    r"^(?:(?:ERROR|CRITICAL|FATAL)\s+(?:\d\d-\d\d |\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d(?:[.,]\d+)? (?:\[?[\w./-]+\.py:\d+\] ?)"
    r"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?(?: (?:TP|DP|PP|EP)\d+)*\] )"
)
_REPEATED = re.compile(r" ?\[repeated (?P<count>\d+)x across cluster\].*$")
_TRACE_PART = re.compile(
    r'Traceback \(most recent call last\)|(?<!\S)(?P<frame>File \\?"[^"\\]{1,300}\\?", line \d+)'
    r"|(?<![\w.])(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}"
    r"(?:Error|Exception|Exit|Failure|Fault|Interrupt|Timeout)(?=: |:?$|:?\\n)"
)
_ERROR_LEVEL = re.compile(r"\b(?:ERROR|CRITICAL|FATAL|[EFC]\d{4})\b|\[E ")
_LOWER_LEVEL = re.compile(r"(?i)\b(?:WARN(?:ING)?|INFO|DEBUG|TRACE)\b|\b[IW]\d{4}\b")
_MARKED = re.compile(r"[\d\[\]<>|]")
HEAD_CHARS = 160
_SAID = ("message", "msg", "event", "text", "short_message", "error", "err", "exc_info", "exc_text", "exception",
         "traceback", "stack_trace", "stacktrace", "stack")  # fmt: skip
_LEVELS = ("level", "levelname", "severity", "lvl", "log.level")
_TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
    r"(?:Z|(?P<sign>[+-])(?P<oh>\d\d):?(?P<om>\d\d)(?!\d))?"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line without colours and prefixes. `who` tells the writer apart inside one source; `repeated` is Ray's own count.

    `head` is what a logger had put before a traceback's own text.
    """

    text: str
    who: str = ""
    time: float | None = None
    repeated: int = 1
    head: str = ""


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
    text = _decoded(raw)
    return _line(text, parse_time(text[:80]))


def clean_all(raw: bytes) -> list[Line]:
    """The same for a line that a structured logger may have made of several: those that it had been before."""
    text = _decoded(raw)
    for pattern in (_CRI, _COMPOSE, _COLLECTED):
        if found := pattern.match(text):
            text = text[found.end() :]
    moment = parse_time(text[: 80 if text[:1] != "{" else LINE_LIMIT_BYTES])
    if (inner := unfolded(text)) is None:
        return [clean(raw)]
    return [_line(part, moment) for part in inner.splitlines() if part.strip()]


def _decoded(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace").rstrip("\r\n")
    return ANSI.sub("", text) if not text.isprintable() or ("m" in text and "[" in text) else text


def _line(text: str, moment: float | None) -> Line:
    who, repeated = "", 1
    for pattern in (_CRI, _COMPOSE, _COLLECTED, _ACTOR, _ACTOR, _RAY, _RANK, _LOGGED):
        if found := pattern.match(text):
            who = found.groupdict().get("who") or who
            text = text[found.end() :]
    if "[repeated " in text and (found := _REPEATED.search(text)):
        repeated, text = int(found["count"][:9]), text[: found.start()].rstrip()
    head = _log_head(text)
    return Line(text[len(head) :], who, moment, repeated, head)


def _log_head(text: str) -> str:
    """What stands before a traceback's own text, if it is only a logger's or a launcher's head.

    Time, numbers, brackets and an error's level are such a head; with that level also the logger's words.
    """
    found = _TRACE_PART.search(text, 0, HEAD_CHARS * 2)
    if found is None or not found.start() or not (head := text[: found.start()].strip()):
        return ""
    is_error = bool(_ERROR_LEVEL.search(head))
    if len(head) > HEAD_CHARS or _LOWER_LEVEL.search(head):
        return ""
    if all(is_error or _MARKED.search(part) or not part.strip("-:|>") for part in head.split()):
        return text[: found.start()].removesuffix("  ") if found["frame"] else text[: found.start()]
    return ""


def unfolded(text: str) -> str | None:
    """Several lines that stand in one: as JSON of a structured logger, or with their newlines escaped. None: it is one."""
    if text[:1] == "{" and (said := _of_json(text)):
        return said
    if text.count("\\n") > 1 and _TRACE_PART.search(text):
        return text.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    return None


def _of_json(text: str) -> str:
    """Level, message and traceback of a structured logger's line, whatever it calls them; a collector's line as it was.

    Empty for an object of one line: its other fields tell too.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(document, dict):
        return ""
    parts = [document, *(value for value in document.values() if isinstance(value, dict))]
    said = [str(part[key]).rstrip() for part in parts for key in _SAID if isinstance(part.get(key), str)]
    if "log" in document:
        return str(document["log"])
    if not any("\n" in text for text in said):
        return ""
    level = next((document[key] for key in _LEVELS if isinstance(document.get(key), str)), "")
    return f"{level.upper()} {said[0]}\n" + "\n".join(said[1:]) if level and said else "\n".join(said)


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
    """The line, or of a very long one the part around the hit. One that holds several lines may be longer."""
    limit = LINE_LIMIT_BYTES if block.find(b"\\n", start, end) < 0 else FOLDED_LIMIT_BYTES
    if end - start <= limit:
        return block[start:end]
    middle = max(start, hit_end - LINE_LIMIT_BYTES // 2)
    return block[middle : min(end, middle + LINE_LIMIT_BYTES)]
