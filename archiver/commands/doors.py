"""What the commands are handed by ``archiver.cli`` as ``ctx.obj``: ways in, none of them opened yet."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from archiver.read.service import Reader
from archiver.settings import SettingLine


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. ``key`` is the object's key, or the row's uid and attempt."""

    key: str
    problem: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What comparing bucket and index looked at, and every difference."""

    attempts: int
    artifacts: int
    bytes_read: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class ReindexReport:
    """How many manifests were read from the bucket and written to the index; ``skipped`` could not be understood."""

    manifests: int
    written: int
    skipped: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Doors:
    """``open_reader`` opens the index and the bucket for one command."""

    open_reader: Callable[[], AbstractAsyncContextManager[Reader]]
    verify: Callable[[], Awaitable[VerifyReport]]
    reindex: Callable[[], Awaitable[ReindexReport]]
    setting_lines: Callable[[], Sequence[SettingLine]]
