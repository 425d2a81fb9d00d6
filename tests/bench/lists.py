"""How fast lists, counts and jobs are read from a large index. Not a test: it prints, and judges nothing.

`python -m tests.bench.lists [ATTEMPTS]` fills a database of its own (200,000 by default) and reads it as the web does.
Every figure stands beside an empty statement of the same run, because machines differ.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.index import migrate, rows
from archiver.index.engine import Limits, open_engine, reading
from archiver.read.service import Reader
from archiver.read.views import JobFilter, PageRequest, Scope
from archiver.sandbox.postgres import EmbeddedPostgres
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import key_of, log, manifest

EVERYTHING = Scope.everything()
ROUNDS = 200
TEAMS, CAUSES, NAMESPACES, ARTIFACTS = 40, 68, 60, 4
# every fifth RayJob has a second attempt; a few teams and causes have most of the rows, as in life
_JOBS = """
INSERT INTO rayjobs
SELECT 'uid-' || n, 'cluster-' || n % 3, 'ns-' || n % :namespaces, 'job-' || n % 5000,
       now() - n * interval '30 seconds', now() - n * interval '30 seconds', now() - n * interval '30 seconds',
       now() - n * interval '30 seconds' + interval '4 minutes',
       (ARRAY['failed', 'failed', 'succeeded', 'succeeded', 'stopped'])[1 + n % 5], 'FAILED', 'Failed', 'AppFailed',
       'team-' || floor(:teams * power(random(), 3)), 'label:team', 'queue-' || n % 12, 'label:queue', NULL, NULL,
       CASE WHEN n % 5 < 2 THEN 'cause-' || floor(:causes * power(random(), 2)) END,
       CASE WHEN n % 5 < 2 THEN 'category-' || n % 12 END, 'A title', 'the owner', 0.9,
       '{"source": "driver", "artifact": "logs/driver.log", "line": 12, "text": "ValueError: wrong"}',
       '[{"number": 1, "status": "failed", "cause": "x", "started": null, "ended": null}]',
       8, 2000, 'complete', 'all', '2.52.0', ARRAY['node-' || n % 2000, 'node-' || n % 1999]
FROM generate_series(1, :jobs) AS n
"""
_ATTEMPTS = """
INSERT INTO attempts
SELECT uid, number, 'v1/' || uid || '/manifest.json', 1, 'final', cluster, namespace, name, status, job_status,
       deployment_status, reason, created_at, started_at, ended_at, ended_at, 1, 2, completeness, '', 'default', 8, 2000,
       4000, cause, category, confidence, '14', NULL,
       jsonb_set(CAST(:document AS jsonb), '{attempt}', jsonb_build_object('number', number, 'rayjob',
           jsonb_build_object('cluster', cluster, 'namespace', namespace, 'name', name, 'uid', uid)))
FROM rayjobs, generate_series(1, CASE WHEN right(uid, 1) IN ('0', '5') THEN 2 ELSE 1 END) AS number
"""
_ARTIFACTS = """
INSERT INTO artifacts
SELECT rayjob_uid, number, place, 'logs/' || place, 'log', 'v1/x', 1000, 300, 900, 'ab', 'complete', CAST(:document AS jsonb)
FROM attempts, generate_series(0, :artifacts - 1) AS place
"""


async def fill(engine: AsyncEngine, count: int) -> int:
    """Rows as the writer would make them; gives the number of RayJobs."""
    whole, jobs = manifest(), round(count / 1.2)
    document = rows.attempt_row(whole, key_of(whole))["document"]
    artifact = rows.artifact_rows(manifest(artifacts=[log()]))[0]["document"]
    async with engine.begin() as connection:
        await connection.execute(text("SET LOCAL statement_timeout = 0"))
        await connection.execute(
            text(_JOBS), {"jobs": jobs, "teams": TEAMS, "causes": CAUSES, "namespaces": NAMESPACES}
        )
        await connection.execute(text(_ATTEMPTS), {"document": json.dumps(document)})
        await connection.execute(text(_ARTIFACTS), {"document": json.dumps(artifact), "artifacts": ARTIFACTS})
    async with engine.connect() as plain:
        connection = await plain.execution_options(isolation_level="AUTOCOMMIT")
        await connection.execute(text("SET statement_timeout = 0"))
        await connection.execute(text("VACUUM ANALYZE"))
    return jobs


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


async def run(url: str, folder: Path, count: int) -> None:
    engine = open_engine(url, Limits(statement_seconds=30))
    try:
        began = time.perf_counter()
        jobs = await fill(engine, count)
        sys.stdout.write(f"{count} attempts of {jobs} RayJobs made in {time.perf_counter() - began:.0f} s\n")
        await _measure_all(Reader(engine, FilesystemStore(folder)), engine, jobs)
    finally:
        await engine.dispose()


async def _measure_all(reader: Reader, engine: AsyncEngine, jobs: int) -> None:
    luck = random.Random(1)

    async def empty(_: int) -> None:
        async with reading(engine) as connection:
            await connection.execute(text("SELECT 1"))

    def team(_: int) -> JobFilter:
        return JobFilter(teams=(f"team-{luck.randrange(TEAMS)}",))

    def team_and_cause(_: int) -> JobFilter:
        return JobFilter(teams=(f"team-{luck.randrange(TEAMS)}",), causes=(f"cause-{luck.randrange(CAUSES)}",))

    def failed_here(_: int) -> JobFilter:
        return JobFilter(namespaces=(f"ns-{luck.randrange(NAMESPACES)}",), statuses=("failed",))

    deep = await _deep_token(reader, pages=20)
    base = await measure("empty statement", empty)
    await measure("newest 50", lambda _: reader.jobs(EVERYTHING, PageRequest()), base)
    await measure("50 behind row 20,000", lambda _: reader.jobs(EVERYTHING, PageRequest(token=deep)), base)
    for name, made in (("team", team), ("team and cause", team_and_cause), ("namespace and status", failed_here)):

        async def page(number: int, made: Callable[[int], JobFilter] = made) -> None:
            await reader.jobs(EVERYTHING, PageRequest(made(number)))

        await measure(f"newest 50 of {name}", page, base)
    await measure("name contains", lambda n: reader.jobs(EVERYTHING, PageRequest(JobFilter(text=f"job-{n}"))), base)
    await measure("facets of all", lambda _: reader.facets(EVERYTHING, JobFilter()), base)
    await measure("facets of one team", lambda n: reader.facets(EVERYTHING, team(n)), base)
    await measure("one job, whole", lambda _: reader.job(EVERYTHING, f"uid-{luck.randrange(1, jobs)}"), base)


async def _deep_token(reader: Reader, *, pages: int) -> str | None:
    token = None
    for _ in range(pages):
        token = (await reader.jobs(EVERYTHING, PageRequest(size=1_000, token=token))).next_token or token
    return token


def main(arguments: list[str]) -> None:
    count = int(arguments[0]) if arguments else 200_000
    with TemporaryDirectory(prefix="archiver-bench-") as folder:
        server = EmbeddedPostgres(Path(folder) / "postgres")
        server.start()
        try:
            url = server.create_database("bench")
            migrate.upgrade(url)
            asyncio.run(run(url, Path(folder), count))
        finally:
            server.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
