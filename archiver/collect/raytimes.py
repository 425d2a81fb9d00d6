"""When Ray's first task of a job began, from the state that was read. Pure."""

from collections.abc import Mapping
from typing import Any

from archiver.collect.snapshot import first_start_ms
from archiver.core.lifecycle import JOB_TERMINAL
from archiver.core.objects import at, items, text

_TASKS = ("ray/tasks.json", "ray/tasks-failed.json")


def first_task_ms(documents: Mapping[str, Any]) -> float | None:
    """The earliest start among the tasks that were seen; None where none was."""
    found = [at(documents, name, "first_start_ms") for name in _TASKS]
    found += [first_start_ms(list(items(documents, name, "result"))) for name in _TASKS]
    return min((each for each in found if isinstance(each, int | float)), default=None)


def has_no_tasks(record: Mapping[str, Any] | None, documents: Mapping[str, Any]) -> bool:
    """Whether a job that is over never gave Ray anything to do.

    Ray's own job id is there only once the driver has reached ``ray.init``: without it there can be no task.
    """
    if record is None or text(record, "status") not in JOB_TERMINAL:
        return False
    if not text(record, "job_id"):
        return True
    rows = at(documents, "ray/tasks.json", "result")
    return isinstance(rows, list) and not rows and first_task_ms(documents) is None
