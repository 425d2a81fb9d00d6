"""A driver whose every byte is known beforehand. What it prints it first writes to a file outside the pod.

`TRUTH/JOB.SUBMISSION.log` has all bytes that it printed or was about to print when it was killed;
`TRUTH/JOB.SUBMISSION.end` is there once it has printed all of them, with the moment and its exit code.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

STEP_SECONDS = 0.1
WORDS = ("epoch", "loss", "batch", "shard", "saved", "reading", "tokens", "evaluated", "warm", "restored")
SHAPES = ("text", "binary", "unended", "burst")


def output(seed: int, size: int, shape: str) -> Iterator[bytes]:
    """Lines, at least `size` bytes. `binary`: not UTF-8, NUL and CR in it; `unended`: no newline at the end."""
    dice, written, number = random.Random(seed), 0, 0
    while written < size:
        number += 1
        words = " ".join(dice.choices(WORDS, k=dice.randint(3, 14)))
        line = f"{number:08} {words} {dice.random():.4f}\n".encode()
        if shape == "binary" and number % 3 == 0:
            line = bytes(dice.choices((*range(0x0A), 0x0D, *range(0x80, 0x100)), k=dice.randint(1, 60))) + b"\n"
        written += len(line)
        yield line if written < size or shape != "unended" else line[:-1]


def steps(lines: list[bytes], seconds: float, shape: str) -> Iterator[bytes]:
    """What is printed at a time, a step after the other. `burst`: nearly all of it in the last one."""
    count = max(1, int(seconds / STEP_SECONDS))
    if shape == "burst":
        yield b"".join(lines[:1])
        yield from (b"" for _ in range(count - 2))
        yield b"".join(lines[1:])
        return
    edges = [len(lines) * step // count for step in range(count + 1)]
    yield from (b"".join(lines[start:end]) for start, end in pairwise(edges))


def main(arguments: list[str]) -> int:
    parser = ArgumentParser("standin-driver")
    parser.add_argument("--job", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--shape", choices=SHAPES, default="text")
    parser.add_argument(
        "--exits", default="0", help="the exit code of each attempt; the last one holds for all further"
    )
    parser.add_argument("--truth", type=Path, default=Path("/truth"))
    options = parser.parse_args(arguments)
    attempt = len(list(options.truth.glob(f"{options.job}.*.log")))
    exits = [int(code) for code in options.exits.split(",")]
    code = exits[min(attempt, len(exits) - 1)]
    stem = options.truth / f"{options.job}.{os.environ['RAY_STANDIN_SUBMISSION_ID']}"
    lines = list(output(options.seed + attempt, options.bytes, options.shape))
    with Path(f"{stem}.log").open("xb", buffering=0) as truth:
        for step in steps(lines, options.seconds, options.shape):
            _write_all(truth.fileno(), step)
            _write_all(sys.stdout.fileno(), step)
            time.sleep(STEP_SECONDS)
    Path(f"{stem}.end").write_text(json.dumps({"at": time.time(), "code": code}))
    return code


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
