"""``archiver download``: an attempt's evidence as a folder of plain files, checked against its manifest."""

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

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
from archiver.core.model import Completeness
from archiver.errors import UserError
from archiver.read.service import Reader
from archiver.read.views import ArtifactView, AttemptView


@dataclass(frozen=True, slots=True)
class Target:
    """Where it goes, and what it is of."""

    uid: str
    number: int
    folder: Path


@click.command("download", epilog=EPILOG)
@job_argument
@attempt_option
@click.option("--artifact", help="Only this one; a part of its name is enough.")
@click.option("--to", type=click.Path(file_okay=False, path_type=Path), help="Folder; without it NAME-attempt-N here.")
@click.option(
    "--bundle", is_flag=True, help="One zip for somebody without the archive, its report.html needs no server."
)
@click.pass_obj
def download_command(
    doors: Doors, reference: JobReference, attempt: int | None, *, artifact: str | None, to: Path | None, bundle: bool
) -> None:
    """Save the evidence of a RayJob's attempt as plain files. JOB is a name or a uid."""
    if bundle and artifact is not None:
        raise click.UsageError("--bundle is the whole attempt: leave out --artifact")
    work = _bundle(doors, reference, attempt, to=to) if bundle else None
    run(work or _download(doors, reference, attempt, artifact=artifact, to=to))


async def _download(
    doors: Doors, reference: JobReference, number: int | None, *, artifact: str | None, to: Path | None
) -> int:
    async with doors.open_reader() as reader:
        view = await find_job(reader, reference)
        attempt = find_attempt(view, number)
        folder = to or Path(f"{PurePosixPath(view.row.name).name}-attempt-{attempt.number}")
        target = Target(view.row.uid, attempt.number, folder)
        _make(folder)
        if artifact is None:
            await _save_manifest(reader, target)
        wrong = [await _save(reader, target, each) for each in _wanted(attempt, artifact)]
    output.echo(f"{folder}\n")
    return INCOMPLETE if any(wrong) else OK


async def _bundle(doors: Doors, reference: JobReference, number: int | None, *, to: Path | None) -> int:
    """A file that was begun and not ended is taken away again: half a zip helps nobody."""
    async with doors.open_reader() as reader:
        view = await find_job(reader, reference)
        attempt = find_attempt(view, number)
        report = await doors.report(reader, view, attempt)
        found = await reader.bundle(EVERYTHING, view.row.uid, attempt.number, report)
        if found is None:
            raise NotFound(f"attempt {attempt.number} of {view.row.name} has just left the archive")
        folder = to or Path()
        _make(folder)
        place = folder / found.file_name
        part = place.with_name(f"{place.name}.part")
        try:
            with part.open("wb") as file:
                async for chunk in found.chunks:
                    file.write(chunk)
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
    output.echo(f"{place}\n")
    return OK if attempt.completeness is Completeness.COMPLETE else INCOMPLETE


def _wanted(attempt: AttemptView, name: str | None) -> tuple[ArtifactView, ...]:
    return attempt.artifacts if name is None else (find_log(attempt, name),)


async def _save_manifest(reader: Reader, target: Target) -> None:
    body = await reader.manifest(EVERYTHING, target.uid, target.number)
    if body is None:
        raise NotFound(f"attempt {target.number} has no manifest (any more)")
    _place(target, "manifest.json").write_bytes(body)


async def _save(reader: Reader, target: Target, artifact: ArtifactView) -> bool:
    """Writes one artifact; True (and a note) where it is not whole."""
    raw = await reader.log_raw(EVERYTHING, target.uid, target.number, artifact.name) if _has_bytes(artifact) else None
    if raw is None:
        output.note(f"{artifact.name}: {artifact.completeness.value}, {artifact.reason or 'nothing was saved'}")
        return True
    digest = hashlib.sha256()
    with _place(target, artifact.name).open("wb") as file:
        async for chunk in raw.chunks:
            digest.update(chunk)
            file.write(chunk)
    return _is_wrong(artifact, digest.hexdigest())


def _has_bytes(artifact: ArtifactView) -> bool:
    return bool(artifact.key) or artifact.live


def _is_wrong(artifact: ArtifactView, digest: str) -> bool:
    if artifact.sha256 and digest != artifact.sha256:
        output.note(f"{artifact.name}: its sha256 is {digest}, but the manifest says {artifact.sha256}")
        return True
    if artifact.completeness is Completeness.COMPLETE:
        return False
    output.note(f"{artifact.name}: {artifact.completeness.value}, {artifact.reason}")
    return True


def _place(target: Target, name: str) -> Path:
    """The file for an artifact, inside the folder whatever its name says."""
    parts = [part for part in PurePosixPath(name).parts if part not in ("/", "..", ".")]
    place = target.folder.joinpath(*parts)
    _make(place.parent)
    return place


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the folder {folder} cannot be made: {error.strerror}") from error
