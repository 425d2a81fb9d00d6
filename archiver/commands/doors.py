"""What the commands are handed by ``archiver.cli`` as ``ctx.obj``: ways in, none of them opened yet."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from archiver.read.bucket import Finding
from archiver.read.reindex import ReindexReport
from archiver.read.reprocess import ReprocessReport, ReprocessRequest
from archiver.read.service import Reader
from archiver.read.verify import VerifyReport
from archiver.read.views import AttemptView, JobView
from archiver.settings import SettingLine

__all__ = ["Doors", "Finding", "ReindexReport", "ReprocessReport", "ReprocessRequest", "VerifyReport"]


@dataclass(frozen=True, slots=True)
class Doors:
    """``open_reader`` opens the index and the bucket for one command."""

    open_reader: Callable[[], AbstractAsyncContextManager[Reader]]
    verify: Callable[[], Awaitable[VerifyReport]]
    reindex: Callable[[], Awaitable[ReindexReport]]
    # the second argument is the address of a Ray cluster to judge on, None to judge here
    reprocess: Callable[[ReprocessRequest, str | None], Awaitable[ReprocessReport]]
    setting_lines: Callable[[], Sequence[SettingLine]]
    # the page of an attempt as one file, for a bundle
    report: Callable[[Reader, JobView, AttemptView], Awaitable[bytes]]
