"""``archiver diagnose`` and ``archiver rules``: why it died, from the archive, a bundle, a case or a log; by which rules."""

import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import click

from archiver.collect.bundled import is_bundle, judge_bundle
from archiver.commands.doors import Doors
from archiver.commands.exits import EPILOG, INCOMPLETE, OK, NotFound, run
from archiver.commands.loose import STANDARD_INPUT, read_file, read_standard_input
from archiver.commands.output import echo
from archiver.commands.selection import attempt_option, find_attempt, find_job, reference_to
from archiver.core.ansi import plain
from archiver.diagnosis import Ruleset, load_ruleset
from archiver.diagnosis.engine import diagnose
from archiver.diagnosis.report import check_rules, explain, list_rules, verdict_text
from archiver.errors import UserError

_RULES_DIR = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command("diagnose", epilog=EPILOG)
@click.argument("targets", nargs=-1, required=True, metavar="FILE|BUNDLE|NAMESPACE/RAYJOB|-…")
@click.option("--json", "as_json", is_flag=True, help="one JSON object a target")
@click.option("--rules", "rules_dir", type=_RULES_DIR, help="folder with further rules, for files and bundles")
@attempt_option
@click.pass_obj
def diagnose_command(
    doors: Doors, targets: tuple[str, ...], as_json: bool, rules_dir: Path | None, attempt: int | None
) -> None:
    """Say why it died.

    FILE is a case file, or any log. BUNDLE is what `archiver download --bundle` or the page gave. Both are judged now, and
    need neither the archive nor a cluster. `-` reads a log or a case from standard input. NAMESPACE/RAYJOB is looked up
    in the archive, and has the verdict that is stored.
    """
    run(_diagnose(doors, targets, attempt, as_json=as_json, rules=cache(partial(load_ruleset, rules_dir))))


async def _diagnose(
    doors: Doors, targets: tuple[str, ...], attempt: int | None, *, as_json: bool, rules: Callable[[], Ruleset]
) -> int:
    for target in targets:
        document = await _loose(target, rules)
        if document is None:
            document = await _stored(doors, target, attempt)
        _print(json.dumps(document, ensure_ascii=False) if as_json else verdict_text(document))
    return OK


async def _loose(target: str, rules: Callable[[], Ruleset]) -> Mapping[str, Any] | None:
    """The verdict of what lies on this machine. None where the target is no file: then it names a RayJob."""
    if target == STANDARD_INPUT:
        return diagnose(read_standard_input(), rules()).to_json()
    path = Path(target)
    if not path.is_file():  # noqa: ASYNC240 - nothing else runs here
        return None
    if is_bundle(path):
        return await judge_bundle(path, rules())
    return diagnose(read_file(path), rules()).to_json()


async def _stored(doors: Doors, target: str, number: int | None) -> Mapping[str, Any]:
    async with doors.open_reader() as reader:
        attempt = find_attempt(await find_job(reader, reference_to(target)), number)
    if attempt.verdict is None:
        raise NotFound(f"{attempt.outcome.ended_as}: no verdict is stored yet")
    return dict(attempt.verdict.raw)


def _print(text: str) -> None:
    """What logs and cases say is foreign text: nothing of it may act on the terminal."""
    echo("\n".join(plain(line) for line in text.split("\n")) + "\n")


def _explained(rules_dir: Path | None, name: str) -> str:
    try:
        return explain(load_ruleset(rules_dir), name)
    except UserError as error:
        raise NotFound(str(error)) from error


@click.group("rules", epilog=EPILOG)
def rules_command() -> None:
    """The rules of the diagnosis."""


@rules_command.command("list")
@click.option("--rules", "rules_dir", type=_RULES_DIR, help="folder with further rules")
def rules_list(rules_dir: Path | None) -> None:
    """List every rule."""
    _print(list_rules(load_ruleset(rules_dir)))


@rules_command.command("explain")
@click.argument("name")
@click.option("--rules", "rules_dir", type=_RULES_DIR, help="folder with further rules")
def rules_explain(name: str, rules_dir: Path | None) -> None:
    """Say what a rule or a cause is, and when it holds."""
    _print(_explained(rules_dir, name))


@rules_command.command("test")
@click.argument("directory", type=_RULES_DIR)
def rules_test(directory: Path) -> None:
    """Check a folder of rules: their form, and their examples."""
    text, is_right = check_rules(directory)
    _print(text)
    raise SystemExit(OK if is_right else INCOMPLETE)
