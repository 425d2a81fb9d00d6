"""Each scenario on the real cluster: it died, it is archived for good, byte for byte, and shown as it should be."""

from __future__ import annotations

import asyncio

import pytest

from archiver.sandbox.recording import AttemptTruth, DriverTruth
from tests.e2e.archiver_pod import ArchiverPod
from tests.e2e.cluster.connection import Connection
from tests.e2e.conftest import Row, Stagehands
from tests.e2e.scenarios import tape
from tests.e2e.scenarios.checks import misjudged, missing
from tests.e2e.scenarios.play import Played
from tests.e2e.scenarios.scenario import Scenario, load_all
from tests.e2e.verifying import verify

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(3600)]


SCENARIOS = pytest.mark.parametrize("scenario", load_all(), ids=lambda scenario: scenario.name)


@SCENARIOS
async def test_is_archived_whole(scenario: Scenario, stage: Stagehands, table: list[Row]) -> None:
    try:
        played = await stage.played(scenario)
    except Exception:
        table.append(Row(scenario.name, "FAILED"))
        raise
    lacks, mistakes = await asyncio.to_thread(missing, played), misjudged(played)
    table.append(_row(played, "LOST" if lacks else "misjudged" if mistakes else "passed"))
    assert not lacks, "\n".join([scenario.title, *lacks])
    recorder = stage.recorders.get(scenario.name)
    if recorder and recorder.file and recorder.file.exists():
        tape.keep(recorder.file, outcome=_outcome(played), attempts=_truths(played), title=scenario.title)


@SCENARIOS
async def test_is_explained_rightly(scenario: Scenario, stage: Stagehands) -> None:
    mistakes = misjudged(await stage.played(scenario))
    assert not mistakes, "\n".join([scenario.title, *mistakes])


async def test_neither_watcher_nor_web_fell_over(archiver: ArchiverPod, stage: Stagehands) -> None:
    await stage.all_over()
    assert await archiver.restarts() == 0
    assert "Traceback" not in await archiver.watcher_log()


async def test_bucket_and_index_agree_to_the_last_checksum(
    archiver: ArchiverPod, stage: Stagehands, connection: Connection, run: str
) -> None:
    await stage.all_over()
    code, said = await verify(archiver, connection, run)
    assert code == 0, said


def _row(played: Played, result: str) -> Row:
    margins = [attempt["margin_seconds"] for attempt in played.attempts]
    verdicts = [attempt["verdict"]["brief"] for attempt in played.attempts]
    return Row(
        played.scenario.name,
        result,
        " ".join("-" if margin is None else f"{margin * 1000:.0f}" for margin in margins),
        " ".join(f"{brief['cause'] or 'none'} {brief['confidence']:.2f}" for brief in verdicts),
        played.seconds,
    )


def _outcome(played: Played) -> str:
    status: str = played.jobs[-1]["row"]["deployment_status"]
    return status


def _truths(played: Played) -> tuple[AttemptTruth, ...]:
    """What is right, from the scenario and from what the drivers wrote outside their pods."""
    truths = []
    for number, (attempt, expected) in enumerate(zip(played.attempts, played.scenario.expected, strict=True), 1):
        cluster = attempt["ray_cluster"] or ""
        wrote = played.drivers.get(cluster) if cluster in played.truths else None
        first, *others = dict.fromkeys("" if cause == "none" else cause for cause in expected.causes)
        truths.append(
            AttemptTruth(
                number=number,
                ray_cluster=cluster,
                submission_id=attempt["job_id"] or "",
                cause=first,
                why=played.scenario.why or played.scenario.title,
                shows=expected.line,
                driver=DriverTruth.of(wrote) if wrote is not None else None,
                acceptable=tuple(others),
            )
        )
    return tuple(truths)
