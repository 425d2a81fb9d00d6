"""``archiver logs``: a log, whole, in part or as it grows. Into a pipe go the archived bytes, to a terminal safe text."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace

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
from archiver.core.search import Pattern
from archiver.errors import UserError
from archiver.read.follow import TailPart
from archiver.read.found import MAX_CONTEXT, MAX_MATCHES, Grep
from archiver.read.service import Reader
from archiver.read.views import LogLine, LogWindow
from archiver.read.windows import MAX_LINES, Around, Lines, Tail, Window

STEP_LINES = 5_000
DEFAULT_CONTEXT = 20


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
@click.option("--around", type=click.IntRange(1), metavar="LINE", help="Only this line and its neighbours.")
@click.option("--grep", metavar="TEXT", help="Only the lines that have this text (or with --regex match it).")
@click.option("-E", "--regex", is_flag=True, help="TEXT is a regular expression.")
@click.option("--case", is_flag=True, help="Capitals and small letters differ.")
@click.option("-C", "--context", type=click.IntRange(0, MAX_CONTEXT), default=0, help="Neighbours on each side.")
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
    window = _window(asked["tail"], asked["line_range"], asked["around"], int(str(asked["context"])))
    pattern = Pattern(str(asked["grep"]), bool(asked["regex"]), bool(asked["case"])) if asked["grep"] else None
    if pattern is not None and (window is not None or asked["follow"]):
        raise UserError("--grep looks through the whole log: it excludes --tail, --lines, --around and -f")
    async with doors.open_reader() as reader:
        view = await find_job(reader, reference)
        attempt = find_attempt(view, number)
        artifact = find_log(attempt, asked["artifact"] if isinstance(asked["artifact"], str) else None)
        log = Log(view.row.uid, attempt.number, artifact.name)
        if pattern is not None:
            await _grep(reader, log, Grep(pattern, limit=MAX_MATCHES, context=int(str(asked["context"]))), manner)
        elif window is None and not (asked["follow"] or manner.is_terminal or manner.timestamps or manner.is_json):
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


def _window(tail: object, line_range: object, around: object, context: int) -> Window | None:
    if sum(1 for each in (tail, line_range, around) if each) > 1:
        raise UserError("--tail, --lines and --around exclude each other")
    if isinstance(around, int):
        return Around(around, context or DEFAULT_CONTEXT)
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
    parts = _followed(reader, log, window) if follow else _parts(reader, log, window)
    async for part in parts:
        gaps = {gap.at_line: gap for gap in part.gaps}
        for line in part.lines:
            click.echo(_printed(line, manner), nl=False)
            if line.number in gaps:
                output.note(gap_words(gaps[line.number]))


async def _parts(reader: Reader, log: Log, window: Window | None) -> AsyncIterator[LogWindow]:
    """The windows to print, one behind the other."""
    last = window.last if isinstance(window, Lines) else None
    wanted: Window = window or Lines(1, STEP_LINES)
    while True:
        part = await reader.log_window(EVERYTHING, log.uid, log.number, log.name, wanted)
        if part is None:
            raise _gone(log)
        yield part
        if part.next_line is None or not isinstance(wanted, Lines) or (last is not None and part.next_line > last):
            return
        step_end = part.next_line + STEP_LINES - 1
        wanted = Lines(part.next_line, step_end if last is None else min(last, step_end))


async def _followed(reader: Reader, log: Log, window: Window | None) -> AsyncIterator[TailPart]:
    """What is there, and what is written until the attempt has ended: the read that the page follows a log by."""
    parts = await reader.log_tail(EVERYTHING, log.uid, log.number, log.name, await _before(reader, log, window))
    if parts is None:
        raise _gone(log)
    async with aclosing(parts):
        async for part in parts:
            yield part


async def _before(reader: Reader, log: Log, window: Window | None) -> int:
    """The line behind which to follow."""
    if window is None:
        return 0
    found = await reader.log_window(EVERYTHING, log.uid, log.number, log.name, window)
    return found.lines[0].number - 1 if found and found.lines else 0


async def _grep(reader: Reader, log: Log, wanted: Grep, manner: Manner) -> None:
    """Every line that matches, with its neighbours."""
    count, first = 0, wanted.first
    while True:
        found = await reader.log_grep(EVERYTHING, log.uid, log.number, log.name, replace(wanted, first=first))
        if found is None:
            raise _gone(log)
        for match in found.matches:
            if count and wanted.context:
                click.echo("--")
            for line in (*match.before, match.line, *match.after):
                click.echo(_printed(line, manner), nl=False)
            count += 1
        if found.next_line is None:
            output.note(f"{count} matching lines")
            return
        first = found.next_line


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
