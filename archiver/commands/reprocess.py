"""``archiver reprocess``: history judged again with the rules of now, and what that changes."""

import click

from archiver.commands import output
from archiver.commands.doors import Doors, ReprocessReport, ReprocessRequest
from archiver.commands.exits import EPILOG, INCOMPLETE, OK, run
from archiver.commands.selection import output_option, parse_moment, utc_now

_CHANGES = ("FROM", "TO", "ATTEMPTS", "EXAMPLES")


@click.command("reprocess", epilog=EPILOG)
@click.option("--since", help="Only attempts that ended at this time or later: 24h, 7d or a date.")
@click.option("--dry-run", is_flag=True, help="Say what would change, and write nothing.")
@click.option("--all", "is_all", is_flag=True, help="Also attempts that this ruleset has judged already.")
@click.option("--ray", "ray_address", metavar="ADDRESS", help="Judge on this Ray cluster (`auto`, HOST:PORT, ray://…).")
@output_option("table", "json", "yaml")
@click.pass_obj
def reprocess_command(
    doors: Doors, *, since: str | None, dry_run: bool, is_all: bool, ray_address: str | None, form: str
) -> None:
    """Judge archived attempts again with the rules of now. Evidence is never changed; running it again goes on."""
    run(_reprocess(doors, form, since=since, ray_address=ray_address, is_all=is_all, is_dry_run=dry_run))


async def _reprocess(
    doors: Doors, form: str, *, since: str | None, ray_address: str | None, is_all: bool, is_dry_run: bool
) -> int:
    request = ReprocessRequest(parse_moment(since, utc_now()), is_all=is_all, is_dry_run=is_dry_run)
    report = await doors.reprocess(request, ray_address)
    if form == "table":
        rows = [(each.before, each.after, str(each.count), ", ".join(each.examples)) for each in report.changes]
        output.echo(output.table(_CHANGES, rows) if rows else "")
        output.note(_sum(report))
        for finding in report.findings:
            output.note(f"unreadable: {finding.key}: {finding.problem}")
    else:
        output.echo(output.document(report, form))
    return INCOMPLETE if report.unreadable else OK


def _sum(report: ReprocessReport) -> str:
    changed = report.judged - report.unchanged
    return (
        f"ruleset {report.ruleset}: {report.judged} attempts judged, {changed} {_verb(report)}, "
        f"{report.unchanged} unchanged, {report.passed_over} judged by it already, {report.unreadable} unreadable"
    )


def _verb(report: ReprocessReport) -> str:
    return "would change" if report.is_dry_run else "changed"
