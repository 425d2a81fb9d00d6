"""``archiver show``: one RayJob, the answer first."""

import click

from archiver.commands import output
from archiver.commands.doors import Doors
from archiver.commands.exits import EPILOG, OK, run
from archiver.commands.selection import (
    JobReference,
    attempt_option,
    find_attempt,
    find_job,
    job_argument,
    output_option,
)
from archiver.read.telling import advice, symptoms
from archiver.read.views import ArtifactView, AttemptView, JobView

_EVIDENCE = ("EVIDENCE", "LINES", "SIZE", "COMPLETE?", "SHA256", "REASON")


@click.command("show", epilog=EPILOG)
@job_argument
@attempt_option
@output_option()
@click.pass_obj
def show_command(doors: Doors, reference: JobReference, attempt: int | None, form: str) -> None:
    """Show why a RayJob ended, and what is archived of it. JOB is a name or a uid."""
    run(_show(doors, reference, attempt, form))


async def _show(doors: Doors, reference: JobReference, number: int | None, form: str) -> int:
    async with doors.open_reader() as reader:
        view = await find_job(reader, reference)
    attempt = find_attempt(view, number)
    if form in ("json", "yaml"):
        output.echo(output.document(view if number is None else attempt, form))
    elif form == "name":
        output.echo(f"{output.harmless(view.row.uid)}\n")
    else:
        output.echo(_told(view, attempt, is_wide=form == "wide"))
    return OK


def _told(view: JobView, attempt: AttemptView, *, is_wide: bool) -> str:
    row = view.row
    lines = [
        f"{row.name} in {row.cluster}/{row.namespace} ({row.uid})",
        f"attempt {attempt.number} of {len(view.attempts)}: {attempt.status}{_when(attempt)}",
        "",
        *_why(attempt),
        *(f"missing: {sentence}" for sentence in attempt.missing),
        "",
    ]
    told = "".join(f"{output.harmless(line)}\n" for line in lines)
    return told + output.table(_EVIDENCE, (_evidence(artifact, is_wide) for artifact in attempt.artifacts))


def _when(attempt: AttemptView) -> str:
    ended = f" at {output.utc(attempt.times.ended)}" if attempt.times.ended else ""
    ran = f" after {output.span(attempt.duration_seconds)}" if attempt.duration_seconds is not None else ""
    return ended + ran


def _why(attempt: AttemptView) -> list[str]:
    if attempt.verdict:
        brief = attempt.verdict.brief
        cited = [f"  {_place(cite.source, cite.line)}  {cite.text}" for cite in attempt.verdict.evidence]
        steps = [f"  {count}. {step}" for count, step in enumerate(attempt.verdict.next_steps, start=1)]
        certainty = f"{brief.certainty} ({brief.confidence:.2f})"
        next_steps = ["next:", *steps] if steps else []
        follows = [f"  {_place(each.source, each.line)}  {each.text} (follows from it)" for each in symptoms(attempt)]
        settings = [f"setting: {each.setting}: {each.change} {each.why}" for each in advice(attempt)]
        head = [attempt.verdict.summary, f"{brief.title} [{brief.cause}], {certainty}"]
        return [*head, *cited, *follows, *next_steps, *settings]
    outcome = attempt.outcome
    words = (outcome.job_status, outcome.deployment_status, outcome.reason, outcome.ray_error_type)
    said = ", ".join(word for word in words if word)
    code = [] if outcome.driver_exit_code is None else [f"driver's exit code {outcome.driver_exit_code}"]
    head = outcome.message.strip().splitlines()[:1]
    return [f"no verdict; KubeRay and Ray say: {said or 'nothing'}", *code, *head]


def _place(source: str, line: int | None) -> str:
    return f"{source}:{line}" if line else source


def _evidence(artifact: ArtifactView, is_wide: bool) -> tuple[str, ...]:
    digest = artifact.sha256 if is_wide else artifact.sha256[:12]
    state = "growing" if artifact.live else artifact.completeness.value
    return (artifact.name, str(artifact.lines), output.size(artifact.raw_bytes), state, digest, artifact.reason)
