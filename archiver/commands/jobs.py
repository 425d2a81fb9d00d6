"""``archiver jobs``: the list, newest first."""

from collections.abc import AsyncIterator
from datetime import datetime

import click

from archiver.commands import output
from archiver.commands.doors import Doors
from archiver.commands.exits import EPILOG, OK, run
from archiver.commands.selection import EVERYTHING, output_option, parse_moment, utc_now
from archiver.core.model import Attribution
from archiver.read.service import MAX_PAGE, Reader
from archiver.read.views import JobFilter, JobRow, PageRequest

_HEAD = ("NAMESPACE", "NAME", "STATUS", "ATTEMPTS", "CAUSE", "EVIDENCE", "AGE", "RAN")
_WIDE = ("CLUSTER", *_HEAD, "TEAM", "QUEUE", "GPUS", "UID", "DECISIVE LINE")


@click.command("jobs", epilog=EPILOG)
@click.option("-n", "--namespace", "namespaces", multiple=True, help="Only these namespaces; may be repeated.")
@click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces: what happens without -n.")
@click.option("--cluster", "clusters", multiple=True, help="Only these Kubernetes clusters.")
@click.option("--team", "teams", multiple=True, help="Only these teams.")
@click.option("--status", "statuses", multiple=True, help="Only these ends: failed, succeeded, running …")
@click.option("--cause", "causes", multiple=True, help="Only these causes, as `missing-module`.")
@click.option("--since", help="Ended at this time or later: 24h, 7d or 2026-08-19T03:00:00Z.")
@click.option("--until", help="Ended before this time.")
@click.option("-q", "--query", "text", default="", help="Part of the RayJob's name.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@click.option("--no-headers", is_flag=True, help="Rows only.")
@output_option()
@click.pass_obj
def jobs_command(doors: Doors, /, all_namespaces: bool, no_headers: bool, limit: int, **asked: object) -> None:
    """List archived RayJobs, newest first."""
    if all_namespaces and asked["namespaces"]:
        raise click.UsageError("-n and -A exclude each other")
    form = str(asked.pop("form"))
    run(_list(doors, asked, limit=limit, form=form, headers=not no_headers))


async def _list(doors: Doors, narrowing: dict[str, object], *, limit: int, form: str, headers: bool) -> int:
    now = utc_now()
    since, until = (parse_moment(_word(narrowing.pop(name)), now) for name in ("since", "until"))
    wanted = JobFilter(**narrowing, since=since, until=until)  # type: ignore[arg-type]
    async with doors.open_reader() as reader:
        rows = [row async for row in _rows(reader, wanted, limit)]
    _print(rows, form, headers=headers, now=now)
    return OK


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None


async def _rows(reader: Reader, wanted: JobFilter, limit: int) -> AsyncIterator[JobRow]:
    token: str | None = None
    while limit > 0:
        page = await reader.jobs(EVERYTHING, PageRequest(wanted, min(limit, MAX_PAGE), token))
        for row in page.rows:
            yield row
        limit, token = limit - len(page.rows), page.next_token
        if token is None:
            return


def _print(rows: list[JobRow], form: str, *, headers: bool, now: datetime) -> None:
    if form in ("json", "yaml"):
        output.echo(output.document({"jobs": rows}, form))
    elif form == "name":
        output.echo("".join(f"{output.harmless(row.uid)}\n" for row in rows))
    elif not rows:
        output.note("no archived RayJob fits")
    else:
        head, cells = (_WIDE, _wide) if form == "wide" else (_HEAD, _narrow)
        output.echo(output.table(head, (cells(row, now) for row in rows), headers=headers))


def _narrow(row: JobRow, now: datetime) -> tuple[str, ...]:
    cause = f"{row.cause.cause} ({row.cause.certainty})" if row.cause else row.reason
    ran = output.span(row.duration_seconds)
    attempts = str(len(row.attempts))
    return (row.namespace, row.name, row.status, attempts, cause, row.completeness, output.age(row.at, now), ran)


def _wide(row: JobRow, now: datetime) -> tuple[str, ...]:
    decisive = row.decisive.text if row.decisive else ""
    more = (_who(row.team), _who(row.queue), f"{row.gpus:g}", row.uid, decisive)
    return (row.cluster, *_narrow(row, now), *more)


def _who(value: Attribution | None) -> str:
    return value.value if value else ""
