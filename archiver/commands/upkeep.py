"""``archiver verify``, ``reindex`` and ``settings``: whether the archive is as it says, and what it runs with."""

from collections.abc import Iterable

import click

from archiver.commands import output
from archiver.commands.doors import Doors, Finding
from archiver.commands.exits import EPILOG, INCOMPLETE, OK, run
from archiver.commands.selection import output_option

_FINDINGS = ("KEY", "PROBLEM")
_SETTINGS = ("NAME", "VALUE", "SOURCE", "MEANING")


@click.command("verify", epilog=EPILOG)
@output_option("table", "json", "yaml")
@click.pass_obj
def verify_command(doors: Doors, form: str) -> None:
    """Compare the bucket with the index, and every object with its checksum."""
    run(_verify(doors, form))


async def _verify(doors: Doors, form: str) -> int:
    report = await doors.verify()
    if form == "table":
        looked_at = f"{report.attempts} attempts, {report.artifacts} artifacts, {output.size(report.bytes_read)} read"
        output.echo(_findings(report.findings))
        output.note(f"{looked_at}: {_count(len(report.findings), 'difference')}")
    else:
        output.echo(output.document(report, form))
    return INCOMPLETE if report.findings else OK


@click.command("reindex", epilog=EPILOG)
@output_option("table", "json", "yaml")
@click.pass_obj
def reindex_command(doors: Doors, form: str) -> None:
    """Rebuild the index from the bucket alone. Safe at any time; running it twice changes nothing."""
    run(_reindex(doors, form))


async def _reindex(doors: Doors, form: str) -> int:
    report = await doors.reindex()
    if form == "table":
        output.echo(_findings(report.skipped))
        output.note(f"{_count(report.manifests, 'manifest')} read, {_count(report.written, 'attempt')} written")
    else:
        output.echo(output.document(report, form))
    return INCOMPLETE if report.skipped else OK


@click.command("settings", epilog=EPILOG)
@output_option("table", "json", "yaml")
@click.pass_obj
def settings_command(doors: Doors, form: str) -> None:
    """Print every setting with its value (secrets masked), where it came from and what it means."""
    run(_settings(doors, form))


async def _settings(doors: Doors, form: str) -> int:
    lines = doors.setting_lines()
    rows = ((line.name, line.value, line.source, line.meaning) for line in lines)
    output.echo(output.table(_SETTINGS, rows) if form == "table" else output.document({"settings": lines}, form))
    return OK


def _findings(findings: Iterable[Finding]) -> str:
    rows = [(finding.key, finding.problem) for finding in findings]
    return output.table(_FINDINGS, rows) if rows else ""


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"
