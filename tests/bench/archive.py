"""A large archive in Postgres, made by the database itself: a million attempts in minutes. Not evidence: no bucket.

Skewed as in life: a few teams and causes have most of the failures, a namespace belongs to one team, the same failures
come again and again, one node fails more than chance would have it.
"""

import asyncio
import json

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.index import rows
from tests.fakes.manifests import key_of, log, manifest

TEAMS, CAUSES, NAMESPACES, NODES, FINGERPRINTS, ARTIFACTS = 40, 68, 60, 2_000, 5_000, 4
PIECE = 20_000
BAD_NODE = "node-13"
_CATEGORIES = (
    "user-code",
    "data-storage",
    "environment",
    "memory",
    "accelerator",
    "network-collective",
    "scheduling-capacity",
    "ray-runtime",
    "kubernetes-node",
    "submission-config",
    "cancelled",
    "unknown",
)
# every fifth RayJob has a second attempt
_JOBS = """
INSERT INTO rayjobs
SELECT 'uid-' || n, 'cluster-' || ns % 3, 'ns-' || ns, 'job-' || kind || '-' || n % 97,
       now() - n * every, now() - n * every, now() - n * every, now() - n * every + interval '4 minutes',
       CASE WHEN failed THEN 'failed' WHEN n % 5 = 4 THEN 'stopped' ELSE 'succeeded' END, 'FAILED', 'Failed', 'AppFailed',
       'team-' || ns % :teams, 'label:team', 'queue-' || ns % 12, 'label:queue', NULL, NULL,
       CASE WHEN failed THEN 'cause-' || cause END,
       CASE WHEN failed THEN (CAST(:categories AS text[]))[1 + cause % 12] END, 'A title', 'the owner', 0.9,
       '{"source": "driver", "artifact": "logs/driver.log", "line": 12, "text": "ValueError: wrong"}',
       '[{"number": 1, "status": "failed", "cause": "x", "started": null, "ended": null}]',
       8, 2000, CASE WHEN n % 50 = 0 THEN 'partial' ELSE 'complete' END, 'all', '2.52.0',
       CASE WHEN cause % 12 = 4 AND failed AND n % 3 = 0 THEN ARRAY['node-13', 'node-' || n % 1999]
            ELSE ARRAY['node-' || n % :nodes, 'node-' || n % 1999] END,
       CASE WHEN failed THEN 'v1-' || kind END, ARRAY['sha256:' || n % 500],
       ARRAY(SELECT DISTINCT substr(name, place, 3) FROM (SELECT 'job-' || kind || '-' || n % 97) AS named(name),
             generate_series(1, length(name) - 2) AS place)
FROM (SELECT n, n % 5 < 2 AS failed, floor(:namespaces * power(random(), 2))::int AS ns,
             floor(:causes * power(random(), 2))::int AS cause, floor(:kinds * power(random(), 3))::int AS kind,
             :days * interval '1 day' / :jobs AS every
      FROM generate_series(CAST(:first AS int), :last) AS n) AS drawn
"""
_ATTEMPTS = """
INSERT INTO attempts
SELECT uid, number, 'v1/' || uid || '/manifest.json', 1, 'final', cluster, namespace, name, status, job_status,
       deployment_status, reason, created_at, started_at, ended_at, ended_at, 1, 2, completeness, '', 'default', 8, 2000,
       4000, cause, category, confidence, '14', fingerprint,
       jsonb_set(CAST(:document AS jsonb), '{attempt}', jsonb_build_object('number', number, 'rayjob',
           jsonb_build_object('cluster', cluster, 'namespace', namespace, 'name', name, 'uid', uid))),
       at, team, queue, nodes, images
FROM rayjobs, generate_series(1, CASE WHEN right(uid, 1) IN ('0', '5') THEN 2 ELSE 1 END) AS number
WHERE uid = ANY(ARRAY(SELECT 'uid-' || n FROM generate_series(CAST(:first AS int), :last) AS n))
"""
_ARTIFACTS = """
INSERT INTO artifacts
SELECT rayjob_uid, number, place, 'logs/' || place, 'log', 'v1/x', 1000, 300, 900, 'ab', 'complete', CAST(:document AS jsonb)
FROM attempts, generate_series(0, :artifacts - 1) AS place
WHERE rayjob_uid = ANY(ARRAY(SELECT 'uid-' || n FROM generate_series(CAST(:first AS int), :last) AS n))
"""


async def fill(engine: AsyncEngine, attempts: int, *, days: int = 180, pause_seconds: float = 0.0) -> int:
    """Rows as the writer would make them, spread evenly over the last ``days``; gives the number of RayJobs.

    In pieces, so that a machine that is shared can breathe in between.
    """
    jobs = round(attempts / 1.2)
    for first in range(1, jobs + 1, PIECE):
        await _piece(engine, first, min(first + PIECE - 1, jobs), (jobs, days))
        await asyncio.sleep(pause_seconds)
    async with engine.connect() as plain:
        connection = await plain.execution_options(isolation_level="AUTOCOMMIT")
        await connection.execute(text("SET statement_timeout = 0"))
        await connection.execute(text("VACUUM ANALYZE"))
    return jobs


async def _piece(engine: AsyncEngine, first: int, last: int, whole: tuple[int, int]) -> None:
    written, span = manifest(), {"first": first, "last": last}
    document = rows.attempt_row(written, key_of(written))["document"]
    artifact = rows.artifact_rows(manifest(artifacts=[log()]))[0]["document"]
    drawn = {"jobs": whole[0], "days": whole[1], "teams": TEAMS, "causes": CAUSES, "namespaces": NAMESPACES}
    drawn |= {"nodes": NODES, "kinds": FINGERPRINTS, **span}
    async with engine.begin() as connection:
        await connection.execute(text("SET LOCAL statement_timeout = 0"))
        await connection.execute(text(_JOBS), {**drawn, "categories": list(_CATEGORIES)})
        await connection.execute(text(_ATTEMPTS), {"document": json.dumps(document), **span})
        await connection.execute(text(_ARTIFACTS), {"document": json.dumps(artifact), "artifacts": ARTIFACTS, **span})
