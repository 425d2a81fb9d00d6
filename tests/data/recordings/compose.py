"""Makes the recordings that ship with the product from ``source/``: ``python -m tests.data.recordings.compose``.

The same source gives the same bytes. ``--check`` writes nothing and fails where a committed file differs.
"""

import sys

from archiver.sandbox.builtin import FOLDER
from archiver.sandbox.recording import SUFFIX, Recording
from archiver.sandbox.recordingfile import dump_recording, read_recording, write_recording
from tests.data.recordings.composing.registry import STORIES


def composed() -> list[Recording]:
    return [compose() for compose in STORIES]


def main(arguments: list[str]) -> int:
    FOLDER.mkdir(exist_ok=True)
    differing = []
    for recording in composed():
        path = FOLDER / f"{recording.header.name}{SUFFIX}"
        if "--check" not in arguments:
            write_recording(recording, path)
            read_recording(path)
        elif not path.exists() or dump_recording(read_recording(path)) != dump_recording(recording):
            differing.append(path.name)
    for name in differing:
        print(f"{name} is not what its source gives: run python -m tests.data.recordings.compose", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
