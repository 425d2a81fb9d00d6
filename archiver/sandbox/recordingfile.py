"""Reads and writes recordings, strictly: a mistake is named with its file and line. What they mean is elsewhere."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import zstandard

from archiver.sandbox.jsontypes import JsonObject
from archiver.sandbox.recording import (
    SCHEMA,
    AttemptTruth,
    Content,
    DriverTruth,
    Entry,
    Header,
    LogEndEntry,
    LogEntry,
    Made,
    RayAnswerEntry,
    RayFileEntry,
    RayGoneEntry,
    RayJobEntry,
    RayUpEntry,
    Recording,
    RecordingError,
    Truth,
    WatchEntry,
)

_MAX_RAW_BYTES = 512 * 1024 * 1024
_Value = TypeVar("_Value")


def read_recording(path: Path) -> Recording:
    """Raises RecordingError."""
    try:
        with path.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as unpacked:
            raw = unpacked.read(_MAX_RAW_BYTES + 1)
    except (OSError, zstandard.ZstdError) as error:
        raise RecordingError(f"{path.name} cannot be read: {error}") from error
    if len(raw) > _MAX_RAW_BYTES:
        raise RecordingError(f"{path.name} unpacks to more than {_MAX_RAW_BYTES >> 20} MiB")
    return parse_recording(raw, source=path.name)


def write_recording(recording: Recording, path: Path) -> None:
    raw = dump_recording(recording)
    path.write_bytes(zstandard.ZstdCompressor(level=19, write_checksum=True).compress(raw))


def parse_recording(raw: bytes, *, source: str) -> Recording:
    """``source`` is what errors call the file."""
    lines = raw.rstrip(b"\n").split(b"\n")
    if len(lines) < 2:
        raise RecordingError(f"{source}: a recording needs at least a header and a truth line")
    documents = [_document(line, source, number) for number, line in enumerate(lines, 1)]
    header = _checked(_parse_header, documents[0], source, 1)
    truth = _checked(_parse_truth, documents[-1], source, len(lines))
    entries = tuple(_entries(documents[1:-1], source))
    recording = Recording(header, entries, truth, source)
    _check_truth(recording, len(lines))
    return recording


def _document(line: bytes, source: str, number: int) -> JsonObject:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise RecordingError(f"{source} line {number}: this is no JSON: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("entry"), str):
        raise RecordingError(f"{source} line {number}: every line is an object with a string called entry")
    return document


def _checked(parse: Callable[[JsonObject], _Value], document: JsonObject, source: str, number: int) -> _Value:
    try:
        return parse(document)
    except KeyError as error:
        raise RecordingError(f"{source} line {number}: {document['entry']} needs {error}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise RecordingError(f"{source} line {number}: {document['entry']}: {error}") from error


def _entries(documents: list[JsonObject], source: str) -> Iterator[Entry]:
    at = 0.0
    for number, document in enumerate(documents, 2):
        parse = _PARSERS.get(document["entry"])
        if parse is None:
            known = ", ".join(_PARSERS)
            raise RecordingError(f"{source} line {number}: there is no entry {document['entry']!r}; known: {known}")
        entry = _checked(parse, document, source, number)
        if entry.at < at:
            raise RecordingError(f"{source} line {number}: at goes back from {at} to {entry.at}")
        at = entry.at
        yield entry


def _only(document: JsonObject, *names: str) -> JsonObject:
    unknown = sorted(set(document) - {"entry", *names})
    if unknown:
        raise ValueError(f"unknown keys {', '.join(unknown)}")
    return document


def _parse_header(document: JsonObject) -> Header:
    names = ("schema", "name", "title", "made", "how", "origin", "namespace", "rayjob", "mode", "versions", "sources")
    d = _only(document, *names)
    if d["entry"] != "header":
        raise ValueError("the first line has to be the header")
    if d["schema"] != SCHEMA:
        raise ValueError(f"schema {d['schema']!r} is not {SCHEMA!r}")
    return Header(
        name=_name(d["name"]),
        title=_text(d["title"], "title"),
        made=Made(d["made"]),
        how=_text(d["how"], "how"),
        origin=datetime.fromisoformat(d["origin"]).astimezone(UTC),
        namespace=_text(d["namespace"], "namespace"),
        rayjob=_text(d["rayjob"], "rayjob"),
        mode=_text(d["mode"], "mode"),
        versions={str(key): str(value) for key, value in d["versions"].items()},
        sources=tuple(str(item) for item in d.get("sources", [])),
    )


def _name(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", value):
        raise ValueError("name has to be lower-case letters, digits, dots and dashes")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} has to be a string that is not empty")
    return value


def _at(document: JsonObject) -> float:
    value = document["at"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e7:
        raise ValueError("at has to be seconds since the origin, not negative")
    return float(value)


def _parse_watch(document: JsonObject) -> WatchEntry:
    d = _only(document, "at", "type", "object")
    if d["type"] not in ("ADDED", "MODIFIED", "DELETED"):
        raise ValueError(f"type {d['type']!r} is not ADDED, MODIFIED or DELETED")
    item = d["object"]
    for name in ("apiVersion", "kind"):
        _text(item[name], f"object.{name}")
    _text(item["metadata"]["name"], "object.metadata.name")
    _text(item["metadata"]["uid"], "object.metadata.uid")
    return WatchEntry(_at(d), d["type"], item)


def _restart(document: JsonObject) -> int:
    value = document["restart"]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("restart has to be a whole number, not negative")
    return value


def _parse_log(document: JsonObject) -> LogEntry:
    d = _only(document, "at", "pod", "container", "restart", "text", "base64", "lines", "line_times")
    pod, container = _text(d["pod"], "pod"), _text(d["container"], "container")
    times = tuple(float(value) for value in d.get("line_times", []))
    return LogEntry(_at(d), pod, container, _restart(d), Content.from_json(d), times)


def _parse_log_end(document: JsonObject) -> LogEndEntry:
    d = _only(document, "at", "pod", "container", "restart")
    return LogEndEntry(_at(d), _text(d["pod"], "pod"), _text(d["container"], "container"), _restart(d))


def _parse_ray_up(document: JsonObject) -> RayUpEntry:
    d = _only(document, "at", "pod", "role", "node_id", "token")
    if d["role"] not in ("head", "worker"):
        raise ValueError(f"role {d['role']!r} is not head or worker")
    return RayUpEntry(_at(d), _text(d["pod"], "pod"), d["role"], str(d["node_id"]), str(d.get("token", "")))


def _parse_ray_file(document: JsonObject) -> RayFileEntry:
    d = _only(document, "at", "pod", "path", "text", "base64", "lines")
    path = _text(d["path"], "path")
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError("path has to stay below the session's log folder")
    return RayFileEntry(_at(d), _text(d["pod"], "pod"), path, Content.from_json(d))


def _parse_ray_job(document: JsonObject) -> RayJobEntry:
    d = _only(document, "at", "pod", "record")
    _text(d["record"]["submission_id"], "record.submission_id")
    return RayJobEntry(_at(d), _text(d["pod"], "pod"), d["record"])


def _parse_ray_answer(document: JsonObject) -> RayAnswerEntry:
    d = _only(document, "at", "pod", "path", "status", "body", "content_type")
    path, content_type = _text(d["path"], "path"), str(d.get("content_type", "application/json"))
    return RayAnswerEntry(_at(d), _text(d["pod"], "pod"), path, int(d["status"]), d["body"], content_type)


def _parse_ray_gone(document: JsonObject) -> RayGoneEntry:
    d = _only(document, "at", "pod", "how")
    if d["how"] not in ("refused", "silent"):
        raise ValueError(f"how {d['how']!r} is not refused or silent")
    return RayGoneEntry(_at(d), _text(d["pod"], "pod"), d["how"])


_PARSERS: dict[str, Callable[[JsonObject], Entry]] = {
    "watch": _parse_watch,
    "log": _parse_log,
    "log-end": _parse_log_end,
    "ray-up": _parse_ray_up,
    "ray-file": _parse_ray_file,
    "ray-job": _parse_ray_job,
    "ray-answer": _parse_ray_answer,
    "ray-gone": _parse_ray_gone,
}


def _parse_truth(document: JsonObject) -> Truth:
    d = _only(document, "outcome", "attempts")
    if d["entry"] != "truth":
        raise ValueError("the last line has to be the truth")
    attempts = tuple(_parse_attempt(row) for row in d["attempts"])
    if [attempt.number for attempt in attempts] != list(range(1, len(attempts) + 1)):
        raise ValueError("attempts have to be numbered from 1 without a gap")
    return Truth(_text(d["outcome"], "outcome"), attempts)


def _parse_attempt(row: JsonObject) -> AttemptTruth:
    names = ("number", "ray_cluster", "submission_id", "cause", "acceptable", "why", "shows", "driver")
    _only(row, *names)
    driver = row["driver"]
    if driver is not None:
        driver = DriverTruth(str(driver["sha256"]), int(driver["bytes"]), int(driver["lines"]))
    return AttemptTruth(
        number=int(row["number"]),
        ray_cluster=str(row["ray_cluster"]),
        submission_id=str(row["submission_id"]),
        cause=str(row["cause"]),
        why=str(row["why"]),
        shows=str(row["shows"]),
        driver=driver,
        acceptable=tuple(str(item) for item in row.get("acceptable", [])),
    )


def _check_truth(recording: Recording, last_line: int) -> None:
    """A composed recording serves exactly what its truth says; a real one may have lost something."""
    if recording.header.made is not Made.COMPOSED:
        return
    for attempt in recording.truth.attempts:
        served = recording.driver_log(attempt.submission_id) if attempt.submission_id else b""
        if attempt.driver != (DriverTruth.of(served) if served else None):
            raise RecordingError(
                f"{recording.source} line {last_line}: truth: the driver log of attempt {attempt.number} is not what "
                f"the ray-file entries of job-driver-{attempt.submission_id}.log add up to"
            )


def dump_recording(recording: Recording) -> bytes:
    """The uncompressed file."""
    rows = [_header_json(recording.header), *map(_entry_json, recording.entries), _truth_json(recording.truth)]
    return b"".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" for row in rows)


def _header_json(header: Header) -> JsonObject:
    return {
        "entry": "header",
        "schema": SCHEMA,
        "name": header.name,
        "title": header.title,
        "made": header.made.value,
        "how": header.how,
        "origin": header.origin.isoformat().replace("+00:00", "Z"),
        "namespace": header.namespace,
        "rayjob": header.rayjob,
        "mode": header.mode,
        "versions": header.versions,
        "sources": list(header.sources),
    }


def _entry_json(entry: Entry) -> JsonObject:
    at: JsonObject = {"at": round(entry.at, 6)}
    match entry:
        case WatchEntry():
            return {"entry": "watch", **at, "type": entry.type, "object": entry.object}
        case LogEntry():
            row = {"entry": "log", **at, **_run_json(entry), **entry.content.to_json()}
            return {**row, "line_times": list(entry.line_times)} if entry.line_times else row
        case LogEndEntry():
            return {"entry": "log-end", **at, **_run_json(entry)}
        case _:
            return _ray_json(entry, at)


def _run_json(entry: LogEntry | LogEndEntry) -> JsonObject:
    return {"pod": entry.pod, "container": entry.container, "restart": entry.restart}


def _ray_json(
    entry: RayUpEntry | RayFileEntry | RayJobEntry | RayAnswerEntry | RayGoneEntry, at: JsonObject
) -> JsonObject:
    match entry:
        case RayUpEntry():
            row = {"entry": "ray-up", **at, "pod": entry.pod, "role": entry.role, "node_id": entry.node_id}
            return {**row, "token": entry.token} if entry.token else row
        case RayFileEntry():
            return {"entry": "ray-file", **at, "pod": entry.pod, "path": entry.path, **entry.content.to_json()}
        case RayJobEntry():
            return {"entry": "ray-job", **at, "pod": entry.pod, "record": entry.record}
        case RayAnswerEntry():
            row = {"entry": "ray-answer", **at, "pod": entry.pod, "path": entry.path, "status": entry.status}
            return {**row, "body": entry.body, "content_type": entry.content_type}
        case RayGoneEntry():
            return {"entry": "ray-gone", **at, "pod": entry.pod, "how": entry.how}


def _truth_json(truth: Truth) -> JsonObject:
    return {"entry": "truth", "outcome": truth.outcome, "attempts": [_attempt_json(a) for a in truth.attempts]}


def _attempt_json(attempt: AttemptTruth) -> JsonObject:
    driver = attempt.driver
    return {
        "number": attempt.number,
        "ray_cluster": attempt.ray_cluster,
        "submission_id": attempt.submission_id,
        "cause": attempt.cause,
        "acceptable": list(attempt.acceptable),
        "why": attempt.why,
        "shows": attempt.shows,
        "driver": driver and {"sha256": driver.sha256, "bytes": driver.size_bytes, "lines": driver.lines},
    }
