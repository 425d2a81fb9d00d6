"""``archiver events``: the Kubernetes Events of an attempt, in time order."""

from collections.abc import Iterable

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
    job_argument,
    output_option,
)
from archiver.core.model import Completeness
from archiver.read.views import EventPage, EventView

_HEAD = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "COUNT", "MESSAGE")
_WIDE = ("FIRST SEEN", *_HEAD[:-1], "FROM", "MESSAGE")


@click.command("events", epilog=EPILOG)
@job_argument
@attempt_option
@click.option("--warnings", is_flag=True, help="Only Events of type Warning.")
@output_option("table", "wide", "json", "yaml")
@click.pass_obj
def events_command(doors: Doors, reference: JobReference, attempt: int | None, warnings: bool, form: str) -> None:
    """Print the Kubernetes Events of a RayJob's attempt, oldest first. JOB is a name or a uid."""
    run(_events(doors, reference, attempt, warnings=warnings, form=form))


async def _events(doors: Doors, reference: JobReference, number: int | None, *, warnings: bool, form: str) -> int:
    async with doors.open_reader() as reader:
        view = await find_job(reader, reference)
        attempt = find_attempt(view, number)
        page = await reader.events(EVERYTHING, view.row.uid, attempt.number)
    if page is None:
        raise NotFound(f"attempt {attempt.number} of {view.row.name} has just left the archive")
    shown = [event for event in page.events if not warnings or event.type == "Warning"]
    output.echo(output.document({"events": shown}, form) if form in ("json", "yaml") else _table(shown, form))
    return _say_completeness(page)


def _say_completeness(page: EventPage) -> int:
    if page.is_bounded:
        output.note("there are more Events than are shown; `archiver download` gets all")
    if page.completeness is Completeness.COMPLETE:
        return OK
    output.note(f"the Events are not all here ({page.completeness.value}): {page.reason}")
    return INCOMPLETE


def _table(shown: Iterable[EventView], form: str) -> str:
    head, cells = (_WIDE, _wide) if form == "wide" else (_HEAD, _narrow)
    return output.table(head, (cells(event) for event in shown))


def _narrow(event: EventView) -> tuple[str, ...]:
    subject = f"{event.object_kind.lower()}/{event.object_name}"
    return (output.utc(event.last_time), event.type, event.reason, subject, str(event.count), event.message)


def _wide(event: EventView) -> tuple[str, ...]:
    *most, message = _narrow(event)
    return (output.utc(event.first_time), *most, event.component, message)
