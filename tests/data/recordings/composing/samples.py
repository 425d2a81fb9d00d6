"""Real Ray's answers and files (``source/``, made by real heads), moved in time and under another name.

What is replaced, everywhere and always the same: the submission id, the head's address, the scripts' folder, and every
moment by one difference. Nothing else is touched.
"""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from archiver.sandbox.rewriting import Clock, Rewriter

SOURCE = Path(__file__).parent.parent / "source"
_STAMP = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}")
_STATES = ("tasks", "actors", "workers", "placement_groups", "nodes")


@dataclass(frozen=True, slots=True)
class Localized:
    """One sample under the names and in the time of a recording."""

    driver: bytes
    record: dict[str, Any]
    states: dict[str, Any]
    events: list[dict[str, Any]]
    files: dict[str, bytes]
    node_id: str
    run_seconds: float

    def line_moments(self) -> list[tuple[datetime | None, bytes]]:
        """The driver log's lines with the moment that Ray wrote at their beginning, where it did."""
        lines = self.driver.splitlines(keepends=True)
        return [(_moment(match[0]) if (match := _STAMP.match(line)) else None, line) for line in lines]


def _moment(stamp: bytes) -> datetime:
    return datetime.strptime(stamp.decode(), "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)


def localized(
    sample: str, *, submission_id: str, script: str, addresses: dict[str, str], submitted: datetime
) -> Localized:
    """``sample``: version/case. ``addresses``: the sample's to the recording's.

    ``submitted``: the moment of the record's start_time in the recording.
    """
    folder = SOURCE / sample
    record = json.loads((folder / "job.json").read_text())
    start = datetime.fromtimestamp(record["start_time"] / 1000, UTC)
    words = {record["submission_id"]: submission_id, **addresses}
    old_script = next((word for word in record["entrypoint"].split() if word.endswith(".py")), "")
    if old_script:
        words[old_script] = script
    move = _Mover(words, start, submitted)
    states = {
        name: move.document(json.loads((folder / f"state_{name}.json").read_text()))
        for name in _STATES
        if (folder / f"state_{name}.json").exists()
    }
    return Localized(
        driver=move.bytes((folder / "driver.log").read_bytes()),
        record=move.document(record),
        states=states,
        events=[move.document(row) for row in _events(folder)],
        files={move.text(path): move.bytes(data) for path, data in _files(folder)},
        node_id=record["driver_node_id"] or "18a23552bceeb95ae59df4a83449b2c8829e30cc0867cba315084e5f",
        run_seconds=(record["end_time"] - record["start_time"]) / 1000,
    )


def _events(folder: Path) -> list[dict[str, Any]]:
    rows = []
    for path in sorted((folder / "events").glob("*.log")):
        rows += [json.loads(line) for line in path.read_text().splitlines() if line]
    return sorted(rows, key=lambda row: int(row["timestamp"]))


def _files(folder: Path) -> list[tuple[str, bytes]]:
    found = [
        (path.relative_to(folder / "logs").as_posix(), path.read_bytes())
        for path in sorted((folder / "logs").rglob("*"))
        if path.is_file()
    ]
    events = [(f"events/{path.name}", path.read_bytes()) for path in sorted((folder / "events").glob("*.log"))]
    return found + events


class _Mover:
    def __init__(self, words: dict[str, str], start: datetime, submitted: datetime) -> None:
        self._words = words
        self._difference: timedelta = submitted - start
        self._rewriter = Rewriter(Clock(start, submitted, 1.0), words)

    def text(self, value: str) -> str:
        return self.bytes(value.encode()).decode()

    def bytes(self, data: bytes) -> bytes:
        for word in sorted(self._words, key=len, reverse=True):
            data = data.replace(word.encode(), self._words[word].encode())
        return _STAMP.sub(lambda match: self._moved(match[0]), data)

    def _moved(self, stamp: bytes) -> bytes:
        moved = _moment(stamp) + self._difference
        return moved.strftime("%Y-%m-%d %H:%M:%S,%f")[:-3].encode()

    def document(self, value: Any) -> Any:
        return self._stamps(self._rewriter.document(value))

    def _stamps(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._stamps(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._stamps(item) for item in value]
        return self.text(value) if isinstance(value, str) else value
