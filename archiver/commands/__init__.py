"""The command line for reading the archive: each command gets an opened Reader. Starting daemons is ``archiver.cli``."""

import click

from archiver.commands.diagnose import diagnose_command, rules_command
from archiver.commands.doors import Doors, Finding, ReindexReport, ReprocessReport, ReprocessRequest, VerifyReport
from archiver.commands.download import download_command
from archiver.commands.events import events_command
from archiver.commands.jobs import jobs_command
from archiver.commands.logs import logs_command
from archiver.commands.reports import causes_command, groups_command
from archiver.commands.reprocess import reprocess_command
from archiver.commands.search import search_command
from archiver.commands.show import show_command
from archiver.commands.upkeep import reindex_command, settings_command, verify_command

__all__ = ["COMMANDS", "Doors", "Finding", "ReindexReport", "ReprocessReport", "ReprocessRequest", "VerifyReport"]

COMMANDS: tuple[click.Command, ...] = (
    jobs_command,
    show_command,
    logs_command,
    search_command,
    events_command,
    download_command,
    groups_command,
    causes_command,
    verify_command,
    reindex_command,
    reprocess_command,
    settings_command,
    diagnose_command,
    rules_command,
)
