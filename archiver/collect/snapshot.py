"""What only a living Ray head knows, read within a time budget: state rows first, then the log files of the nodes.

Most telling first, so that a head that dies in the middle leaves the best part behind. One request at a time: a Ray head
answers big state requests one after another, and an archiver must not starve its dashboard.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archiver.errors import RayError
from archiver.ports import RayHead, RayNodes

SUPERVISOR_JOB = "01000000"  # Ray's own job, which holds the JobSupervisor actors
_SUMMARISED_ROWS = 500


@dataclass(frozen=True, slots=True)
class StateStep:
    """One question to the state API and the name of the document that keeps the answer."""

    document: str
    what: str
    only_failed: bool = False
    summarised: bool = False


# order: causes before context
STATE_STEPS = (
    StateStep("ray/tasks-failed.json", "tasks", only_failed=True),
    StateStep("ray/actors.json", "actors"),
    StateStep("ray/events.json", "events"),
    StateStep("ray/workers.json", "workers"),
    StateStep("ray/nodes.json", "nodes"),
    StateStep("ray/placement_groups.json", "placement_groups"),
    StateStep("ray/tasks.json", "tasks", summarised=True),
    StateStep("ray/jobs.json", "jobs"),
    StateStep("ray/version.json", "version"),
)

# which files of a node's session tell most; the first pattern that matches gives the rank
_RANKS = tuple(
    re.compile(pattern)
    for pattern in (
        r"^job-driver-.*\.log$",
        r"^worker-.*\.err$",
        r"^raylet\.(err|out)$",
        r"^gcs_server\.(err|out)$",
        r"^monitor\.(log|err|out)$",
        r"^runtime_env_setup-.*\.log$",
        r"^runtime_env_agent\.",
        r"^events/event_.*\.log$",
        r"^jobs/.*",
        r"^worker-.*\.out$",
        r"^dashboard_agent\.",
        r"^ray_process_exit\.log$",
        r"^dashboard\.(log|err|out)$",
        r"^python-core-driver-.*",
        r"^python-core-worker-.*",
    )
)


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A file of a Ray node's session log folder. ``node_ip`` is None for the head."""

    node: str
    node_ip: str | None
    path: str


async def read_state(
    ray: RayNodes, head: RayHead, job_id: str | None
) -> AsyncIterator[tuple[StateStep, Mapping[str, Any] | None, RayError | None]]:
    """Each step with its answer or the error that stood in its way. The job's rows only, where Ray can tell them apart."""
    for step in STATE_STEPS:
        try:
            answer = await ray.state(head, step.what, job_id=job_id, only_failed=step.only_failed)
        except RayError as error:
            yield step, None, error
            continue
        yield step, summarise(answer) if answer and step.summarised else answer, None


def summarise(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Rows counted by name and state, with the first few hundred whole: twelve thousand tasks are 24 MB."""
    rows = [row for row in answer.get("result") or [] if isinstance(row, dict)]
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        by_state = counts.setdefault(str(row.get("name") or row.get("class_name") or ""), {})
        state = str(row.get("state"))
        by_state[state] = by_state.get(state, 0) + 1
    return {
        **{key: value for key, value in answer.items() if key != "result"},
        "summary": counts,
        "first_start_ms": first_start_ms(rows),
        "result": rows[:_SUMMARISED_ROWS],
        "rows_left_out": max(0, len(rows) - _SUMMARISED_ROWS),
    }


def first_start_ms(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """When the first of some task rows began to run (an actor's creation is a task too); None where none did."""
    starts = [row.get("start_time_ms") for row in rows]
    return min((start for start in starts if isinstance(start, int | float) and start > 0), default=None)


async def node_files(
    ray: RayNodes, head: RayHead, workers: Mapping[str, str], *, only_of: Sequence[str] = ()
) -> list[NodeFile]:
    """Files worth keeping of the head and of every worker that answers, most telling first.

    ``only_of``: ids one of which a file's name must have, for a cluster that other jobs share.
    """
    listings = await asyncio.gather(
        _listing(ray, head, head.pod, None), *(_listing(ray, head, pod, ip) for pod, ip in workers.items())
    )
    files = [file for listing in listings for file in listing if rank(file.path) is not None]
    if only_of:
        files = [file for file in files if any(job in file.path for job in only_of)]
    return sorted(files, key=lambda file: (rank(file.path), file.node != head.pod, file.node, file.path))


def rank(path: str) -> int | None:
    """How telling a file is (0 most), None for what is not kept."""
    return next((number for number, pattern in enumerate(_RANKS) if pattern.match(path)), None)


async def _listing(ray: RayNodes, head: RayHead, node: str, node_ip: str | None) -> list[NodeFile]:
    try:
        names = await ray.list_logs(head, node_ip=node_ip)
    except RayError:
        return []
    return [NodeFile(node, node_ip, path) for path in names or ()]
