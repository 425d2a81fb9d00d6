"""``archiver logs``: a log, whole, in part or as it grows. Into a pipe go the archived bytes, to a terminal safe text."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import click

from archiver.commands import output
from archiver.commands.doors import Doors
from archiver.commands.exits import EPILOG, INCOMPLETE, OK, NotFound, run
from archiver.commands.selection import (
    EVERYTHING,
    JobReference,
    attempt_option,
    find_attempt,
    find_job,
    find_log,
    job_argument,
)
from archiver.commands.terminal import terminal_line
from archiver.core.lines import to_time
from archiver.core.model import Completeness, Gap
from archiver.errors import UserError
from archiver.read.service import Reader
from archiver.read.views import LogLine, LogWindow
from archiver.read.windows import MAX_LINES, Lines, Tail, Window

FOLLOW_SECONDS = 1.0
STEP_LINES = 5_000


@dataclass(frozen=True, slots=True)
class Log:
    """The log that is printed."""

    uid: str
    number: int
    name: str


@dataclass(frozen=True, slots=True)
class Manner:
    """How lines are printed."""

    is_terminal: bool
    colour: bool
    timestamps: bool
    is_json: bool = False


@click.command("logs", epilog=EPILOG)
@job_argument
@attempt_option
@click.option("--artifact", help="Name of the log, or a part of it; without it the one that says most (the driver's).")
@click.option("--tail", type=click.IntRange(1, MAX_LINES), help="Only the last lines.")
@click.option("--lines", "line_range", metavar="A-B", help="Only these lines, counting from 1.")
@click.option("-f", "--follow", is_flag=True, help="Go on as the log grows, until the attempt has ended.")
@click.option("--timestamps", is_flag=True, help="Begin each line with the time it was written, in UTC.")
@click.option(
    "-o", "--output", "form", type=click.Choice(["text", "json"]), default="text", help="json: one line each."
)
@click.option(
    "--no-color", "no_colour", envvar="NO_COLOR", default="", is_flag=False, flag_value="1", help="No colours."
)
@click.pass_obj
def logs_command(doors: Doors, /, reference: JobReference, attempt: int | None, **asked: object) -> None:
    """Print a log of a RayJob. JOB is a name or a uid."""
    run(_logs(doors, reference, attempt, asked))


async def _logs(doors: Doors, reference: JobReference, number: int | None, asked: dict[str, object]) -> int:
    manner = manner_of(asked, is_terminal=sys.stdout.isatty())
    window = _window(asked["tail"], asked["line_range"])
    async with doors.open_reader() as reader:
        view = await find_job(reader, reference)
        attempt = find_attempt(view, number)
        artifact = find_log(attempt, asked["artifact"] if isinstance(asked["artifact"], str) else None)
        log = Log(view.row.uid, attempt.number, artifact.name)
        if window is None and not (asked["follow"] or manner.is_terminal or manner.timestamps or manner.is_json):
            await _copy(reader, log)
        else:
            await _print_lines(reader, log, window, manner, follow=bool(asked["follow"]))
    if artifact.completeness is Completeness.COMPLETE or artifact.live:
        return OK
    output.note(f"{artifact.name} is {artifact.completeness.value}: {artifact.reason}")
    return INCOMPLETE


def manner_of(asked: Mapping[str, object], *, is_terminal: bool) -> Manner:
    """Colours only on a terminal, and not where NO_COLOR or --no-color forbids them."""
    return Manner(
        is_terminal=is_terminal,
        colour=is_terminal and not asked["no_colour"],
        timestamps=bool(asked["timestamps"]),
        is_json=asked["form"] == "json",
    )


def _window(tail: object, line_range: object) -> Window | None:
    if tail and line_range:
        raise UserError("--tail and --lines exclude each other")
    if isinstance(tail, int):
        return Tail(tail)
    if not isinstance(line_range, str):
        return None
    first, _, last = line_range.partition("-")
    last = last or first
    if not all(part.isascii() and part.isdecimal() and len(part) < 16 for part in (first, last)):
        raise UserError(f"--lines {line_range!r} is no range: write 100-200, or 100")
    if not 1 <= int(first) <= int(last):
        raise UserError(f"--lines {line_range!r} is no range: lines count from 1, and the first comes first")
    return Lines(int(first), int(last))


async def _copy(reader: Reader, log: Log) -> None:
    """The archived bytes as they are."""
    raw = await reader.log_raw(EVERYTHING, log.uid, log.number, log.name)
    if raw is None:
        raise _gone(log)
    async for chunk in raw.chunks:
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


async def _print_lines(reader: Reader, log: Log, window: Window | None, manner: Manner, *, follow: bool) -> None:
    async for part in _parts(reader, log, window, follow=follow):
        gaps = {gap.at_line: gap for gap in part.gaps}
        for line in part.lines:
            click.echo(_printed(line, manner), nl=False)
            if line.number in gaps:
                output.note(gap_words(gaps[line.number]))


async def _parts(reader: Reader, log: Log, window: Window | None, *, follow: bool) -> AsyncIterator[LogWindow]:
    """The windows to print, one behind the other; with ``follow`` also what grows later."""
    last = window.last if isinstance(window, Lines) else None
    wanted: Window = window or Lines(1, STEP_LINES)
    following = wanted.first if isinstance(wanted, Lines) else 1
    while True:
        part = await reader.log_window(EVERYTHING, log.uid, log.number, log.name, wanted)
        if part is None:
            raise _gone(log)
        yield part
        following = part.lines[-1].number + 1 if part.lines else following
        if last is not None and following > last:
            return
        if part.next_line is None:
            if not (follow and part.artifact.live):
                return
            await asyncio.sleep(FOLLOW_SECONDS)
        step_end = following + STEP_LINES - 1
        wanted = Lines(following, step_end if last is None else min(last, step_end))


def _printed(line: LogLine, manner: Manner) -> str | bytes:
    """Text for a terminal or as JSON; into a pipe the bytes themselves."""
    if manner.is_json:
        return output.json_line({"line": line.number, "time": _time(line), "text": line.text})
    stamp = f"{_time(line) or '-'} " if manner.timestamps else ""
    if manner.is_terminal:
        return f"{stamp}{terminal_line(line.data, colour=manner.colour)}\n"
    return stamp.encode() + line.data + b"\n"


def _time(line: LogLine) -> str | None:
    moment = to_time(line.time_ns) if line.time_ns is not None else None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{(line.time_ns or 0) % 1_000_000_000:09}Z" if moment else None


def gap_words(gap: Gap) -> str:
    """A hole, as a line beside the text."""
    missing = f"{output.size(gap.missing_bytes)} missing" if gap.missing_bytes else "something is missing"
    return f"--- {missing} after line {gap.at_line}: {gap.reason.value} {gap.detail}".rstrip() + " ---"


def _gone(log: Log) -> NotFound:
    return NotFound(f"{log.name} of attempt {log.number} is not archived (any more)")
