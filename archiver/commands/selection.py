"""Which RayJob, attempt and artifact a command is about; options that several commands share."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from archiver.commands.exits import NotFound
from archiver.commands.output import FORMATS, note
from archiver.errors import UserError
from archiver.read.service import Reader
from archiver.read.telling import telling_log
from archiver.read.views import ArtifactView, AttemptView, JobFilter, JobRow, JobView, PageRequest, Scope

EVERYTHING = Scope.everything()
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
# enough to see whether one name stands for several RayJobs
_CANDIDATES = 200

Command = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class JobReference:
    """A RayJob as a person names it: by uid, or by name within the namespace and cluster where given."""

    word: str
    namespace: str | None = None
    cluster: str | None = None


def reference_to(word: str, namespace: str | None = None, cluster: str | None = None) -> JobReference:
    """``NAMESPACE/NAME`` as kubectl's users write it, or a name, or a uid."""
    before, slash, name = word.partition("/")
    return JobReference(name, namespace or before, cluster) if slash else JobReference(word, namespace, cluster)


def job_argument(command: Command) -> Command:
    """JOB, -n and --cluster, handed to the command as ``reference``."""

    @functools.wraps(command)
    def collect(*args: Any, job: str, namespace: str | None, cluster: str | None, **rest: Any) -> Any:
        return command(*args, reference=reference_to(job, namespace, cluster), **rest)

    decorated = click.option("--cluster", help="Kubernetes cluster, where several are archived.")(collect)
    decorated = click.option("-n", "--namespace", help="Namespace of the RayJob.")(decorated)
    return click.argument("job", metavar="JOB")(decorated)


def output_option(*forms: str) -> Callable[[Command], Command]:
    choice = click.Choice(forms or FORMATS)
    return click.option("-o", "--output", "form", type=choice, default="table", show_default=True, help="How to print.")


def attempt_option(command: Command) -> Command:
    return click.option("--attempt", type=click.IntRange(min=1), help="Attempt number; without it the newest.")(command)


async def find_job(reader: Reader, reference: JobReference) -> JobView:
    """The RayJob meant. Raises NotFound, and UserError where several namespaces have one of that name."""
    by_uid = await reader.job(EVERYTHING, reference.word)
    if by_uid is not None:
        return by_uid
    rows = await _named(reader, reference)
    if not rows:
        raise NotFound(f"no RayJob named {reference.word!r} is archived{_where(reference)}; `archiver jobs` lists all")
    places = {(row.cluster, row.namespace) for row in rows}
    if len(places) > 1:
        listed = ", ".join(sorted(f"{cluster}/{namespace}" for cluster, namespace in places))
        raise UserError(f"{reference.word!r} is archived in several places: {listed}; choose with -n and --cluster")
    if len(rows) > 1:
        note(f"{len(rows)} RayJobs had the name {reference.word}; this is the newest ({rows[0].uid})")
    view = await reader.job(EVERYTHING, rows[0].uid)
    if view is None:
        raise NotFound(f"the RayJob {rows[0].uid} has just left the archive")
    return view


async def _named(reader: Reader, reference: JobReference) -> list[JobRow]:
    wanted = JobFilter(
        text=reference.word,
        namespaces=(reference.namespace,) if reference.namespace else (),
        clusters=(reference.cluster,) if reference.cluster else (),
    )
    page = await reader.jobs(EVERYTHING, PageRequest(wanted, _CANDIDATES))
    return [row for row in page.rows if row.name == reference.word]


def _where(reference: JobReference) -> str:
    return f" in namespace {reference.namespace}" if reference.namespace else ""


def find_attempt(view: JobView, number: int | None) -> AttemptView:
    """The attempt of that number, or the newest. Raises NotFound."""
    if number is None:
        return view.newest
    for attempt in view.attempts:
        if attempt.number == number:
            return attempt
    numbers = ", ".join(str(attempt.number) for attempt in view.attempts)
    raise NotFound(f"{view.row.name} has no attempt {number}; archived are {numbers}")


def find_log(attempt: AttemptView, name: str | None) -> ArtifactView:
    """The artifact of that name (or the end of it), or the log that says most. Raises NotFound, UserError."""
    if name is None:
        found = telling_log(attempt)
        if found is None:
            raise NotFound(
                f"attempt {attempt.number} has no log: {attempt.completeness_reason or 'nothing was captured'}"
            )
        return found
    exact = [artifact for artifact in attempt.artifacts if artifact.name == name]
    near = exact or [artifact for artifact in attempt.artifacts if name in artifact.name]
    if not near:
        listed = ", ".join(artifact.name for artifact in attempt.artifacts) or "none"
        raise NotFound(f"attempt {attempt.number} has no artifact {name!r}; archived: {listed}")
    if len(near) > 1:
        raise UserError(f"{name!r} fits several artifacts: {', '.join(artifact.name for artifact in near)}")
    return near[0]


def parse_moment(text: str | None, now: datetime) -> datetime | None:
    """``24h`` before now, or an RFC 3339 time. Raises UserError."""
    if not text:
        return None
    try:
        if text[-1] in _UNITS and text[:-1].isascii() and text[:-1].isdecimal():
            return now - timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
        parsed = datetime.fromisoformat(text)
        return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise UserError(f"{text!r} is no time: write 30m, 24h, 7d or 2026-08-19T03:00:00Z") from error


def utc_now() -> datetime:
    return datetime.now(UTC)
