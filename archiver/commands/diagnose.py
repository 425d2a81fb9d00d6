"""``archiver diagnose`` and ``archiver rules``: why it died, from a case file or from the archive, and by which rules."""

import json
from pathlib import Path
from typing import Any

import click
import yaml

from archiver.commands.doors import Doors
from archiver.commands.exits import EPILOG, INCOMPLETE, OK, NotFound, run
from archiver.commands.output import echo
from archiver.commands.selection import find_job, reference_to
from archiver.core.ansi import plain
from archiver.diagnosis import load_ruleset
from archiver.diagnosis.report import check_rules, diagnose_cases, explain, list_rules, verdict_text
from archiver.diagnosis.verdict import Verdict
from archiver.errors import UserError
from archiver.read.views import JobView

_RULES_DIR = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command("diagnose", epilog=EPILOG)
@click.argument("targets", nargs=-1, required=True, metavar="FILE|NAMESPACE/RAYJOB…")
@click.option("--json", "as_json", is_flag=True, help="one JSON object a target")
@click.option("--rules", "rules_dir", type=_RULES_DIR, help="folder with further rules, for case files")
@click.pass_obj
def diagnose_command(doors: Doors, targets: tuple[str, ...], as_json: bool, rules_dir: Path | None) -> None:
    """Say why it died: from case files, or the stored verdict of an archived RayJob's last attempt."""
    run(_diagnose(doors, targets, as_json, rules_dir))


async def _diagnose(doors: Doors, targets: tuple[str, ...], as_json: bool, rules_dir: Path | None) -> int:
    files = list(dict.fromkeys(target for target in targets if Path(target).is_file()))  # noqa: ASYNC240
    verdicts: dict[str, Verdict] = {}
    if files:
        ruleset = load_ruleset(rules_dir)
        verdicts = dict(zip(files, diagnose_cases({name: _read_case(name) for name in files}, ruleset), strict=True))
    for target in targets:
        if target in verdicts:
            verdict = verdicts[target]
            _print(json.dumps(verdict.to_json(), ensure_ascii=False) if as_json else verdict_text(verdict))
        else:
            _print(await _stored(doors, target, as_json))
    return OK


def _print(text: str) -> None:
    """What logs and cases say is foreign text: nothing of it may act on the terminal."""
    echo("\n".join(plain(line) for line in text.split("\n")) + "\n")


async def _stored(doors: Doors, target: str, as_json: bool) -> str:
    async with doors.open_reader() as reader:
        document = _document(await find_job(reader, reference_to(target)))
    return json.dumps(document, ensure_ascii=False) if as_json else _words(document)


def _document(job: JobView) -> dict[str, Any]:
    verdict = job.newest.verdict
    if verdict is None:
        raise NotFound(f"{job.newest.outcome.ended_as}: no verdict is stored yet")
    return dict(verdict.raw)


def _words(document: dict[str, Any]) -> str:
    lines = [str(document.get("summary") or document.get("title") or document.get("cause"))]
    lines.append(" · ".join(str(document.get(key)) for key in ("cause", "category", "confidence", "owner")))
    for cited in document.get("evidence") or []:
        lines.append(f"  {cited.get('source')}:{cited.get('line')}  {cited.get('text')}")
    lines += [f"  next: {step}" for step in document.get("next_steps") or []]
    return "\n".join(lines)


def _read_case(name: str) -> object:
    """Anything that is no YAML or JSON is evidence of nothing, and the verdict will say so."""
    text = Path(name).read_bytes().decode("utf-8", "replace")
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return {"logs": {"driver": text}}


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
