"""Evidence that lies outside the archive: a case file, or any log, from a file or from standard input."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import yaml

from archiver.diagnosis import Evidence, LogSource
from archiver.diagnosis.signals import source_kind

STANDARD_INPUT = "-"
# the largest case; a log may have any size, and is read in pieces
CASE_BYTES = 16 << 20
_PARTS = (
    "evidence",
    "rayjob_status",
    "rayjob_spec",
    "pods",
    "k8s_events",
    "node_conditions",
    "ray",
    "workloads",
    "logs",
)
_LIKE_A_CASE = re.compile(rb"\A\s*\{|^(?:%s)\s*:" % "|".join(_PARTS).encode(), re.MULTILINE)
_PIECE = 1 << 20
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_file(path: Path) -> Evidence:
    """A case where it reads as one, otherwise a log by the file's name. Raises nothing for odd contents."""
    if path.stat().st_size <= CASE_BYTES:
        return _read(path.read_bytes(), path.name)
    return Evidence(logs={_source(path.name): LogSource(partial(_pieces_of, path))}, id=path.name)


def read_standard_input() -> Evidence:
    """The same of standard input; what is longer than a case can be is a log, and is read once, in pieces."""
    start = sys.stdin.buffer.read(CASE_BYTES + 1)
    if len(start) <= CASE_BYTES:
        return _read(start, "driver")
    return Evidence(logs={"driver": LogSource(partial(_rest, start, sys.stdin.buffer))}, id="standard input")


def _read(body: bytes, name: str) -> Evidence:
    case = _case(body)
    if case is None:
        return Evidence(logs={_source(name): LogSource.from_text(body)}, id=name)
    evidence = Evidence.from_case(case)
    return evidence if evidence.id else replace(evidence, id=name)


def _case(body: bytes) -> object | None:
    """A mapping with at least one of the parts of a case; None for everything else."""
    if not _LIKE_A_CASE.search(body):
        return None
    found = _parsed(body.decode("utf-8", "replace"))
    return found if isinstance(found, dict) and any(part in found for part in _PARTS) else None


def _parsed(text: str) -> object:
    """JSON is tried first, as by far the quicker one."""
    for parse in (json.loads, partial(yaml.load, Loader=_LOADER)):
        try:
            return parse(text)
        except (yaml.YAMLError, ValueError, RecursionError):
            continue
    return None


def _source(name: str) -> str:
    """A lone log that its name does not give away is the driver's: that is what people have at hand."""
    return name if source_kind(name) != "other" else f"{name} (driver)"


def _pieces_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from _rest(b"", file)


def _rest(start: bytes, file: BinaryIO) -> Iterator[bytes]:
    if start:
        yield start
    while piece := file.read(_PIECE):
        yield piece
