"""Whether reading works, and how capturing went lately as the index saw it. The watcher has a health page of its own."""

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.errors import ArchiverError
from archiver.index.captures import Captures, count_captures
from archiver.index.engine import reading
from archiver.index.filters import Scope
from archiver.index.revision import check_revision
from archiver.ports import ObjectStore
from archiver.read.views import Check, HealthView

WINDOW = timedelta(days=1)
CHECK_SECONDS = 5.0
_PROBE_KEY = "v1/probe"  # nothing lies there: the answer matters, not the object
_NOTHING = Captures(0, 0, 0, 0, 0, None, None, None, None)


async def check_all(engine: AsyncEngine, store: ObjectStore, *, prefix: str) -> tuple[Check, ...]:
    """Both at once, each within CHECK_SECONDS."""
    probe = f"{prefix}/{_PROBE_KEY}".lstrip("/")
    database, bucket = await asyncio.gather(
        _check("index", check_revision(engine)), _check("bucket", store.head(probe))
    )
    return database, bucket


async def health_view(engine: AsyncEngine, store: ObjectStore, scope: Scope, *, prefix: str) -> HealthView:
    """Figures are zero where the index cannot be asked; its check says why."""
    checks = await check_all(engine, store, prefix=prefix)
    captures = _NOTHING
    if checks[0].is_ok:
        async with reading(engine) as connection:
            captures = await count_captures(connection, scope, since=datetime.now(UTC) - WINDOW)
    return HealthView(
        is_ready=all(check.is_ok for check in checks),
        checks=checks,
        window_seconds=WINDOW.total_seconds(),
        attempts=captures.attempts,
        open_attempts=captures.open,
        complete=captures.complete,
        partial=captures.partial,
        lost=captures.lost,
        capture_lag_p50_seconds=captures.lag_p50_seconds,
        capture_lag_p99_seconds=captures.lag_p99_seconds,
        margin_min_seconds=captures.margin_min_seconds,
        newest_capture=captures.newest,
        versions={"archiver": version("rayjob-archiver")},
    )


async def _check(name: str, step: Awaitable[object]) -> Check:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await step
    except TimeoutError:
        return Check(name, False, f"no answer within {CHECK_SECONDS:.0f} s")
    except ArchiverError as error:
        return Check(name, False, str(error))
    return Check(name, True, "answers")
