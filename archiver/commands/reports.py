"""``archiver groups`` and ``archiver causes``: what fails again and again, and what it costs."""

from collections.abc import Mapping

import click

from archiver.commands import output
from archiver.commands.doors import Doors
from archiver.commands.exits import EPILOG, OK, NotFound, run
from archiver.commands.selection import EVERYTHING, output_option, parse_moment, utc_now
from archiver.diagnosis import load_ruleset
from archiver.diagnosis.ruleset import Leaf
from archiver.read.groups import MAX_PAGE, GroupFilter, GroupOrder, GroupRequest, GroupRow, GroupView
from archiver.read.statistics import Share
from archiver.read.views import JobFilter

_FORMS = ("table", "json", "yaml")
_GROUPS = ("FINGERPRINT", "STATE", "ATTEMPTS", "GPU-HOURS", "LAST", "FIRST", "CAUSE", "LINE")
_CAUSES = ("CAUSE", "CATEGORY", "FAILURES", "GPU-HOURS LOST", "TITLE")


@click.command("groups", epilog=EPILOG)
@click.argument("fingerprint", required=False)
@click.option("--team", "teams", multiple=True, help="Only with failures of these teams.")
@click.option("--state", "states", multiple=True, help="open, muted, resolved, grown, came-back.")
@click.option("--since", default="7d", show_default=True, help="Failed at this time or later: 24h, 7d or a date.")
@click.option(
    "--order",
    type=click.Choice([order.value for order in GroupOrder]),
    default=GroupOrder.NEWEST.value,
    show_default=True,
)
@click.option("--limit", type=click.IntRange(1, MAX_PAGE), default=25, show_default=True, help="At most so many.")
@output_option(*_FORMS)
@click.pass_obj
def groups_command(doors: Doors, /, fingerprint: str | None, limit: int, form: str, **asked: object) -> None:
    """List groups of the same failure over jobs and teams, or show one."""
    run(_one(doors, fingerprint, form) if fingerprint else _groups(doors, asked, limit, form))


async def _groups(doors: Doors, asked: dict[str, object], limit: int, form: str) -> int:
    now = utc_now()
    wanted = GroupFilter(
        teams=tuple(map(str, asked["teams"])),  # type: ignore[call-overload]
        states=tuple(map(str, asked["states"])),  # type: ignore[call-overload]
        since=parse_moment(str(asked["since"]), now),
        order=GroupOrder(str(asked["order"])),
    )
    async with doors.open_reader() as reader:
        page = await reader.groups.page(EVERYTHING, GroupRequest(wanted, limit), now=now)
    if form != "table":
        output.echo(output.document({"groups": page.rows}, form))
    elif not page.rows:
        output.note("no group of failures fits")
    else:
        output.echo(output.table(_GROUPS, (_cells(row) for row in page.rows)))
    return OK


async def _one(doors: Doors, fingerprint: str, form: str) -> int:
    async with doors.open_reader() as reader:
        view = await reader.groups.group(EVERYTHING, fingerprint, now=utc_now())
    if view is None:
        raise NotFound(f"no group {fingerprint!r} is archived; `archiver groups` lists them")
    output.echo(_words(view) if form == "table" else output.document(view, form))
    return OK


def _cells(row: GroupRow) -> tuple[str, ...]:
    now = utc_now()
    last, first = output.age(row.last_at, now), output.age(row.first_at, now)
    hours = f"{row.gpu_seconds / 3600:.1f}"
    return (row.fingerprint, row.state, str(row.attempts), hours, last, first, row.cause, row.line)


def _words(view: GroupView) -> str:
    row = view.row
    lines = [
        row.title,
        f"  {row.line}",
        f"{row.attempts} attempts, {row.gpu_seconds / 3600:.1f} GPU-hours, {row.state}",
    ]
    for name, involved in (("jobs", view.jobs), ("teams", view.teams), ("nodes", view.nodes), ("images", view.images)):
        lines.append(f"{name}: " + ", ".join(f"{each.name} ({each.attempts})" for each in involved[:10]))
    lines += [f"{each.who}: {each.state} {output.utc(each.at)} {each.note}" for each in view.history]
    return "".join(f"{output.harmless(line)}\n" for line in lines)


@click.command("causes", epilog=EPILOG)
@click.option("--team", "teams", multiple=True, help="Only failures of these teams.")
@click.option("--since", default="30d", show_default=True, help="Failed at this time or later: 24h, 7d or a date.")
@output_option(*_FORMS)
@click.pass_obj
def causes_command(doors: Doors, teams: tuple[str, ...], since: str, form: str) -> None:
    """List what attempts failed of, dearest first."""
    run(_causes(doors, teams, since, form))


async def _causes(doors: Doors, teams: tuple[str, ...], since: str, form: str) -> int:
    now = utc_now()
    async with doors.open_reader() as reader:
        wanted = JobFilter(teams=teams, since=parse_moment(since, now))
        found = await reader.statistics.count(EVERYTHING, wanted, now=now)
    if form != "table":
        output.echo(output.document({"causes": found.causes}, form))
    elif not found.causes:
        output.note("nothing failed in this time")
    else:
        leaves = load_ruleset().leaves
        output.echo(output.table(_CAUSES, (_cause_cells(share, leaves) for share in found.causes)))
    return OK


def _cause_cells(share: Share, leaves: Mapping[str, Leaf]) -> tuple[str, ...]:
    leaf = leaves.get(share.name)
    hours = f"{share.gpu_seconds_lost / 3600:.1f}"
    return (
        share.name or "-",
        share.category or "-",
        str(share.failed),
        hours,
        leaf.title if leaf else "no verdict yet",
    )
