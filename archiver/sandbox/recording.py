"""The recording of one RayJob's life and death: ``NAME.rec.zst``, zstd-compressed NDJSON. Its player is elsewhere.

One JSON object a line, told apart by ``entry``; ``at`` is seconds since the recording's ``origin``, never falling.

========== =============================================================================================
header     first line. ``schema`` (rayjob-recording/1), ``name``, ``title``, ``made`` (``recorded`` from a real cluster
           or ``composed`` from real Ray samples and a measured timeline), ``how`` in words, ``origin`` (UTC, the moment
           of ``at`` 0), ``namespace``, ``rayjob``, ``mode``, ``versions`` {kubernetes, kuberay, ray}, ``sources``
watch      one watch event: ``type`` (ADDED, MODIFIED, DELETED), ``object``
log        what a container printed: ``pod``, ``container``, ``restart``, a content, and where they are known
           ``line_times`` (seconds, one for each line that ends in the content)
log-end    the container's output is over: ``pod``, ``container``, ``restart``
ray-up     a Ray node answers: ``pod``, ``role`` (head, worker), ``node_id``, ``token`` (optional)
ray-file   a file below session_latest/logs grows: ``pod``, ``path``, a content
ray-job    the Job API's record from now on: ``pod``, ``record``
ray-answer the dashboard's answer for a path from now on: ``pod``, ``path``, ``status``, ``body``, ``content_type``
ray-gone   the node stops answering: ``pod``, ``how`` (refused, silent)
truth      last line. ``outcome`` (the RayJob's last deployment status), ``attempts``: each ``number``,
           ``ray_cluster``, ``submission_id``, ``cause`` (a leaf of the taxonomy, or "" where nothing failed),
           ``acceptable`` (other leaves that can be defended), ``why``, ``shows``, and ``driver``: null where no
           driver ever ran, else {``sha256``, ``bytes``, ``lines``} of what the driver wrote
========== =============================================================================================

A content is one of ``text``, ``base64``, or ``lines``: {``template``, ``first``, ``count``}, a rule for big logs, where
``{n}`` is the line's number and ``{h}`` eight hex digits that depend on it (the CRC-32 of its decimal form).
"""

import base64
import binascii
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from zlib import crc32

from archiver.core.model import ContainerRun
from archiver.errors import DataError
from archiver.sandbox.jsontypes import JsonObject, JsonView

SCHEMA = "rayjob-recording/1"
SUFFIX = ".rec.zst"


class RecordingError(DataError):
    """A recording that breaks the format. The text names file and line."""


class Made(StrEnum):
    RECORDED = "recorded"
    COMPOSED = "composed"


@dataclass(frozen=True, slots=True)
class LineRule:
    """``count`` lines made from a template, numbered from ``first``."""

    template: str
    first: int
    count: int

    def text(self) -> bytes:
        return _rule_text(self)


@lru_cache(maxsize=8)
def _rule_text(rule: LineRule) -> bytes:
    """Kept for a while: the same rule stands for the driver's file and for the submitter's output."""
    template = (
        rule.template.replace("{", "{{").replace("}", "}}").replace("{{n}}", "{n}").replace("{{h}}", "{h}") + "\n"
    )
    numbers = range(rule.first, rule.first + rule.count)
    return "".join([template.format(n=n, h=f"{crc32(b'%d' % n):08x}") for n in numbers]).encode()


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes, written down in the way that is shortest to read."""

    data: bytes = b""
    rule: LineRule | None = None

    def to_bytes(self) -> bytes:
        return self.rule.text() if self.rule else self.data

    def to_json(self) -> JsonObject:
        if self.rule:
            rule = {"template": self.rule.template, "first": self.rule.first, "count": self.rule.count}
            return {"lines": rule}
        try:
            return {"text": self.data.decode()}
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(self.data).decode()}

    @classmethod
    def from_json(cls, document: JsonView) -> "Content":
        """Raises ValueError in words."""
        given = [name for name in ("text", "base64", "lines") if name in document]
        if len(given) != 1:
            raise ValueError("needs exactly one of text, base64 and lines")
        value = document[given[0]]
        if given[0] == "lines":
            return cls(rule=LineRule(str(value["template"]), int(value["first"]), int(value["count"])))
        if not isinstance(value, str):
            raise ValueError(f"{given[0]} is not a string")
        try:
            return cls(value.encode() if given[0] == "text" else base64.b64decode(value, validate=True))
        except binascii.Error as error:
            raise ValueError(f"base64 cannot be decoded: {error}") from error


@dataclass(frozen=True, slots=True)
class Header:
    name: str
    title: str
    made: Made
    how: str
    origin: datetime
    namespace: str
    rayjob: str
    mode: str
    versions: dict[str, str]
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchEntry:
    at: float
    type: str
    object: JsonObject


@dataclass(frozen=True, slots=True)
class LogEntry:
    at: float
    pod: str
    container: str
    restart: int
    content: Content
    line_times: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class LogEndEntry:
    at: float
    pod: str
    container: str
    restart: int


@dataclass(frozen=True, slots=True)
class RayUpEntry:
    at: float
    pod: str
    role: str
    node_id: str
    token: str = ""


@dataclass(frozen=True, slots=True)
class RayFileEntry:
    at: float
    pod: str
    path: str
    content: Content


@dataclass(frozen=True, slots=True)
class RayJobEntry:
    at: float
    pod: str
    record: JsonObject


@dataclass(frozen=True, slots=True)
class RayAnswerEntry:
    at: float
    pod: str
    path: str
    status: int
    body: object
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class RayGoneEntry:
    at: float
    pod: str
    how: str


Entry = WatchEntry | LogEntry | LogEndEntry | RayUpEntry | RayFileEntry | RayJobEntry | RayAnswerEntry | RayGoneEntry


@dataclass(frozen=True, slots=True)
class DriverTruth:
    """What the driver wrote, byte for byte."""

    sha256: str
    size_bytes: int
    lines: int

    @classmethod
    def of(cls, data: bytes) -> "DriverTruth":
        return cls(hashlib.sha256(data).hexdigest(), len(data), data.count(b"\n"))


@dataclass(frozen=True, slots=True)
class AttemptTruth:
    number: int
    ray_cluster: str
    submission_id: str
    cause: str
    why: str
    shows: str
    driver: DriverTruth | None
    acceptable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Truth:
    outcome: str
    attempts: tuple[AttemptTruth, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    header: Header
    entries: tuple[Entry, ...]
    truth: Truth
    source: str = field(default="", compare=False)

    @property
    def duration_seconds(self) -> float:
        return self.entries[-1].at if self.entries else 0.0

    def driver_log(self, submission_id: str) -> bytes:
        """Ray's own driver file of one submission, as it was in the end."""
        path = f"job-driver-{submission_id}.log"
        return b"".join(e.content.to_bytes() for e in self.entries if isinstance(e, RayFileEntry) and e.path == path)

    def container_logs(self) -> Iterator[tuple[ContainerRun, bytes]]:
        """Everything each container run printed. The pod's uid is empty where the pod was never seen."""
        uids = {
            e.object["metadata"]["name"]: e.object["metadata"]["uid"]
            for e in self.entries
            if isinstance(e, WatchEntry) and e.object.get("kind") == "Pod"
        }
        printed: dict[tuple[str, str, int], bytearray] = {}
        for e in self.entries:
            if isinstance(e, LogEntry):
                printed.setdefault((e.pod, e.container, e.restart), bytearray()).extend(e.content.to_bytes())
        for (pod, container, restart), data in printed.items():
            yield ContainerRun(self.header.namespace, pod, uids.get(pod, ""), container, restart), bytes(data)
