"""Exit codes, and the one place where errors become sentences on standard error."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import click

from archiver.core.ansi import plain
from archiver.errors import ArchiverError, UserError

OK = 0
UNREADABLE = 1
USAGE = 2
NOT_FOUND = 3
INCOMPLETE = 4

EPILOG = (
    "Exit codes: 0 all is well; 1 the archive cannot be read; 2 wrong usage; 3 not found; "
    "4 found, but not complete or not as recorded."
)


class NotFound(click.ClickException):
    """There is no such thing in the archive."""

    exit_code = NOT_FOUND


class Unreadable(click.ClickException):
    """Postgres or the object store does not answer, or what it says cannot be understood."""

    exit_code = UNREADABLE


class WrongUse(click.ClickException):
    """What was asked makes no sense."""

    exit_code = USAGE


def run(work: Coroutine[Any, Any, int]) -> None:
    """Runs a command's work and exits with its code; an error of ours is one line, never a traceback."""
    try:
        code = asyncio.run(work)
    except UserError as error:
        raise WrongUse(plain(str(error))) from error
    except ArchiverError as error:
        raise Unreadable(plain(str(error))) from error
    raise SystemExit(code)
