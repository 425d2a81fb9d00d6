"""Records a scenario with the product's own recorder, and writes the truth into the recording once it has passed."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

from archiver.sandbox.recording import AttemptTruth, DriverTruth, Recording, Truth
from archiver.sandbox.recordingfile import read_recording, write_recording

KEPT_BYTES = 1_000_000
ENDS_SECONDS = 120.0
RECORDED = Path(__file__).parents[2] / "data/recordings/recorded"


class Recorder:
    """`archiver record` beside one RayJob, in a process of its own."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._kubeconfig, self._folder = kubeconfig, folder
        self._process: asyncio.subprocess.Process | None = None
        self._said: asyncio.Task[None] | None = None
        self.file: Path | None = None

    async def start(self, namespace: str, name: str) -> None:
        """Returns once it watches: a RayJob may be gone within two seconds."""
        self.file = self._folder / f"{name}.rec.zst"
        arguments = ("-m", "archiver.cli", "record", "--rayjob", f"{namespace}/{name}", "-o", str(self.file))
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ARCHIVER_")}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            "--seconds",
            "60",
            env=environment | {"KUBECONFIG": str(self._kubeconfig)},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert self._process.stderr
        while line := await self._process.stderr.readline():
            if b"watch synced" in line and b"watch events" in line:
                break
        self._said = asyncio.create_task(_pass_on(self._process.stderr), name=f"recorder of {name}")

    async def stop(self) -> None:
        """Waits until it has seen the end; afterwards `file` is there, or the recorder failed."""
        if self._process is None:
            return
        try:
            async with asyncio.timeout(ENDS_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.terminate()
            await self._process.wait()


async def _pass_on(said: asyncio.StreamReader) -> None:
    while line := await said.readline():
        sys.stderr.write(line.decode(errors="replace"))


def keep(file: Path, *, outcome: str, attempts: tuple[AttemptTruth, ...], title: str) -> Path | None:
    """The recording with its truth, among the committed ones; None where it is too large or has too little."""
    recording = read_recording(file)
    whole = replace(
        recording,
        header=replace(recording.header, title=title),
        truth=Truth(outcome, attempts),
    )
    if file.stat().st_size > KEPT_BYTES or not has_all(whole):
        return None
    RECORDED.mkdir(parents=True, exist_ok=True)
    kept = RECORDED / file.name
    write_recording(whole, kept)
    return kept


def has_all(recording: Recording) -> bool:
    """Whether the recorder got what the drivers wrote, to the last byte: it follows without a hold, and may come late."""
    return all(
        attempt.driver is None or DriverTruth.of(recording.driver_log(attempt.submission_id)) == attempt.driver
        for attempt in recording.truth.attempts
    )
