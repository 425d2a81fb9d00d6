"""The recordings that come with the product."""

from pathlib import Path

from archiver.sandbox.recording import SUFFIX, Recording
from archiver.sandbox.recordingfile import read_recording

FOLDER = Path(__file__).parent / "recordings"


def load_builtin_recordings() -> list[Recording]:
    """All of them, by name. Raises RecordingError where one is broken."""
    return [read_recording(path) for path in sorted(FOLDER.glob(f"*{SUFFIX}"))]
