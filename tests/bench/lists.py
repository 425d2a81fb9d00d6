"""How fast lists, counts, groups, jobs and their pages are read from a large index. Not a test: it judges nothing.

`python -m tests.bench.lists [ATTEMPTS]` fills a database of its own (1,000,000 by default) and reads it as the web does;
with a database's URL in place of the number it reads what is there. Every figure stands beside an empty statement of the
same run, because machines differ.
"""

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.index import migrate
from archiver.index.engine import Limits, open_engine, reading
from archiver.read.groups import GroupFilter, GroupOrder, GroupRequest
from archiver.read.service import Reader
from archiver.read.views import FAILURES, JobFilter, PageRequest, Scope
from archiver.sandbox.postgres import EmbeddedPostgres
from archiver.store.filesystem import FilesystemStore
from tests.bench.archive import CAUSES, NAMESPACES, TEAMS, fill
from web.main import create_app

EVERYTHING = Scope.everything()
ROUNDS = 100
DEFAULT_ATTEMPTS = 1_000_000


async def measure(name: str, step: Callable[[int], Awaitable[object]], base_ms: float | None = None) -> float:
    """Prints median and 99th percentile of ROUNDS; gives the median in milliseconds."""
    times = []
    for number in range(ROUNDS):
        began = time.perf_counter()
        await step(number)
        times.append((time.perf_counter() - began) * 1000)
    times.sort()
    median, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
    beside = f"   {median / base_ms:5.1f} × empty" if base_ms else ""
    sys.stdout.write(f"{name:34} p50 {median:7.2f} ms   p99 {p99:7.2f} ms{beside}\n")
    return median


async def run(url: str, folder: Path, count: int | None) -> None:
    """``count`` None reads what is there."""
    engine = open_engine(url, Limits(statement_seconds=60))
    try:
        if count is not None:
            began = time.perf_counter()
            jobs = await fill(engine, count)
            sys.stdout.write(f"{count} attempts of {jobs} RayJobs made in {time.perf_counter() - began:.0f} s\n")
        async with reading(engine) as connection:
            jobs = await connection.scalar(text("SELECT count(*) FROM rayjobs")) or 0
        reader = Reader(engine, FilesystemStore(folder))
        base = await measure("empty statement", lambda _: _empty(engine))
        await _lists(reader, base)
        await _counts(reader, base)
        await _groups(reader, base)
        await _pages(reader, jobs, base)
    finally:
        await engine.dispose()


async def _empty(engine: AsyncEngine) -> None:
    async with reading(engine) as connection:
        await connection.execute(text("SELECT 1"))


async def _lists(reader: Reader, base: float) -> None:
    luck = random.Random(1)

    def team(_: int) -> JobFilter:
        return JobFilter(teams=(f"team-{luck.randrange(TEAMS)}",))

    def team_and_cause(_: int) -> JobFilter:
        return JobFilter(teams=(f"team-{luck.randrange(TEAMS)}",), causes=(f"cause-{luck.randrange(CAUSES)}",))

    def failed_here(_: int) -> JobFilter:
        return JobFilter(namespaces=(f"ns-{luck.randrange(NAMESPACES)}",), statuses=FAILURES)

    def named(number: int) -> JobFilter:
        return JobFilter(text=f"job-{number}-1")

    deep = await _deep_token(reader, pages=20)
    await measure("newest 50", lambda _: reader.jobs(EVERYTHING, PageRequest()), base)
    await measure("50 behind row 20,000", lambda _: reader.jobs(EVERYTHING, PageRequest(token=deep)), base)
    told = (("team", team), ("team and cause", team_and_cause), ("namespace, failed", failed_here), ("a name", named))
    for name, made in told:

        async def page(number: int, made: Callable[[int], JobFilter] = made) -> None:
            await reader.jobs(EVERYTHING, PageRequest(made(number)))

        await measure(f"newest 50 of {name}", page, base)


async def _counts(reader: Reader, base: float) -> None:
    now, luck = datetime.now(UTC), random.Random(2)

    def asked(days: int | None, *, of_team: bool = False) -> JobFilter:
        teams = (f"team-{luck.randrange(TEAMS)}",) if of_team else ()
        return JobFilter(statuses=FAILURES, teams=teams, since=now - timedelta(days=days) if days else None)

    for name, days in (("a day", 1), ("30 days", 30), ("all time", None)):

        async def facets(_: int, days: int | None = days) -> None:
            await reader.facets(EVERYTHING, asked(days))

        async def of_team(_: int, days: int | None = days) -> None:
            await reader.facets(EVERYTHING, asked(days, of_team=True))

        async def count(_: int, days: int | None = days) -> None:
            await reader.statistics.count(EVERYTHING, asked(days), now=now)

        await measure(f"facets of {name}", facets, base)
        await measure(f"facets of a team, {name}", of_team, base)
        await measure(f"statistics of {name}", count, base)


async def _groups(reader: Reader, base: float) -> None:
    now, luck = datetime.now(UTC), random.Random(3)
    for days, order in ((7, GroupOrder.NEWEST), (7, GroupOrder.COST), (30, GroupOrder.NEWEST)):

        async def page(_: int, days: int = days, order: GroupOrder = order) -> None:
            wanted = GroupFilter(since=now - timedelta(days=days), order=order)
            await reader.groups.page(EVERYTHING, GroupRequest(wanted), now=now)

        await measure(f"25 groups of {days} days, {order}", page, base)
    await measure(
        "one group", lambda _: reader.groups.group(EVERYTHING, f"v1-{int(5000 * luck.random() ** 3)}", now=now), base
    )
    await measure("nodes of 7 days", lambda _: reader.statistics.nodes(EVERYTHING, since=now - timedelta(days=7)), base)


async def _pages(reader: Reader, jobs: int, base: float) -> None:
    """Whole pages, HTML and all, without the network."""
    luck = random.Random(4)
    await measure("one job, whole", lambda _: reader.job(EVERYTHING, f"uid-{luck.randrange(1, jobs)}"), base)
    transport = httpx.ASGITransport(app=create_app(reader))
    async with httpx.AsyncClient(transport=transport, base_url="http://bench") as client:
        for name, address in (
            ("page of failures", lambda: "/"),
            ("page of failures of a team", lambda: f"/?team=team-{luck.randrange(TEAMS)}"),
            ("page of groups", lambda: "/groups"),
            ("page of a job", lambda: f"/jobs/uid-{luck.randrange(1, jobs)}"),
        ):

            async def get(_: int, address: Callable[[], str] = address) -> None:
                (await client.get(address())).raise_for_status()

            await measure(name, get, base)


async def _deep_token(reader: Reader, *, pages: int) -> str | None:
    token = None
    for _ in range(pages):
        token = (await reader.jobs(EVERYTHING, PageRequest(size=1_000, token=token))).next_token or token
    return token


def main(arguments: list[str]) -> None:
    asked = arguments[0] if arguments else str(DEFAULT_ATTEMPTS)
    with TemporaryDirectory(prefix="archiver-bench-") as folder:
        if not asked.isdecimal():
            asyncio.run(run(asked, Path(folder), None))
            return
        server = EmbeddedPostgres(Path(folder) / "postgres")
        server.start()
        try:
            url = server.create_database("bench")
            migrate.upgrade(url)
            asyncio.run(run(url, Path(folder), int(asked)))
        finally:
            server.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
