"""The list as CSV, streamed page by page so that an archive of any size is exported with bounded memory."""

import csv
import io
from collections.abc import AsyncIterator, Iterable, Sequence

from archiver.read.views import JobFilter, JobPage, JobRow, PageRequest
from web.deps import Viewer

PAGE = 500
HEADERS = {"Content-Disposition": 'attachment; filename="rayjobs.csv"', "X-Content-Type-Options": "nosniff"}
_COLUMNS = (
    "at",
    "uid",
    "cluster",
    "namespace",
    "name",
    "status",
    "reason",
    "cause",
    "category",
    "confidence",
    "team",
    "queue",
    "submitter",
    "attempts",
    "gpus",
    "gpu_seconds",
    "duration_seconds",
    "completeness",
    "decisive_line",
)
# a spreadsheet would run a cell that begins like this
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


async def csv_lines(viewer: Viewer, wanted: JobFilter, first: JobPage) -> AsyncIterator[str]:
    """The header, then one line a RayJob, newest first; ``first`` was read before the answer began."""
    yield _line(_COLUMNS)
    page = first
    while True:
        yield "".join(_line(_cells(row)) for row in page.rows)
        if page.next_token is None:
            return
        page = await viewer.reader.jobs(viewer.scope, PageRequest(wanted, PAGE, page.next_token))


def _cells(row: JobRow) -> Sequence[object]:
    return (
        row.at.isoformat(),
        row.uid,
        row.cluster,
        row.namespace,
        row.name,
        row.status,
        row.reason,
        row.cause.cause if row.cause else "",
        row.cause.category if row.cause else "",
        row.cause.confidence if row.cause else "",
        row.team.value if row.team else "",
        row.queue.value if row.queue else "",
        row.submitter.value if row.submitter else "",
        len(row.attempts),
        row.gpus,
        row.gpu_seconds,
        "" if row.duration_seconds is None else row.duration_seconds,
        row.completeness.value,
        row.decisive.text if row.decisive else "",
    )


def _line(cells: Iterable[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow([_harmless(cell) for cell in cells])
    return buffer.getvalue()


def _harmless(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
