"""`archiver verify` at the end of a run on the real cluster, as a user calls it."""

from __future__ import annotations

import asyncio
import os
import sys

from tests.e2e.archiver_pod import ArchiverPod, on_database
from tests.e2e.cluster.connection import Connection


async def verify(archiver: ArchiverPod, connection: Connection, run: str) -> tuple[int, str]:
    """`archiver verify` over the run's bucket and database: its exit code, and what it printed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ARCHIVER_")}
    environment |= {
        "ARCHIVER_CLUSTER": archiver.cluster,
        "ARCHIVER_STORE": f"s3://{archiver.bucket}",
        "ARCHIVER_S3_ENDPOINT": connection.s3.endpoint,
        "ARCHIVER_S3_REGION": connection.s3.region,
        "ARCHIVER_S3_ACCESS_KEY": connection.s3.access_key,
        "ARCHIVER_S3_SECRET_KEY": connection.s3.secret_key,
        "ARCHIVER_DATABASE_URL": on_database(connection.postgres.dsn, f"archiver_{run}"),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "archiver.cli",
        "verify",
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(errors="replace").strip()
