"""``archiver demo --check``: every recorded death is archived by the real pipeline, equal to what its driver wrote."""

import json
import os
import subprocess
import sys
from tempfile import TemporaryDirectory

import pytest


@pytest.mark.timeout(420)
def test_every_recorded_death_is_archived_byte_for_byte():
    # not below pytest's own folder, which each start of pytest shuts for other users: under root Postgres is one
    with TemporaryDirectory(prefix="archiver-demo-") as folder:
        summary = checked(folder)
    assert summary["wrong"] == []
    assert summary["runs"] >= 8
    assert summary["attempts"] > summary["runs"]  # some are retried
    assert summary["driver_bytes"] > 1_000_000


def checked(folder):
    command = [sys.executable, "-m", "archiver", "demo", "--check", "--folder", folder]
    environ = {key: value for key, value in os.environ.items() if not key.startswith("ARCHIVER_")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=environ, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)
