"""Recordings of a real Ray as cases: job record, state rows, events and logs, trimmed. Not tests."""

import gzip
import json
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "data" / "diagnosis"
CATEGORIES = {"none": "none", "unknown": "unknown"}


def recorded_cases() -> list[dict[str, object]]:
    """Every recorded job of every version, in the shared case format; `expected` names the leaf."""
    cases = []
    for file in sorted(FOLDER.glob("ray-*.jsonl.gz")):
        cases += [json.loads(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines()]
    return cases
