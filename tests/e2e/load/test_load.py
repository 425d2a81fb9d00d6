"""Hundreds of RayJobs over all modes while everything fails in turn: nothing is lost without a word, nothing is twice.

`ARCHIVER_E2E_LOAD` RayJobs (default 200), `ARCHIVER_E2E_LOAD_AT_ONCE` of them at the same time (default three a core), S3
and Postgres away for `ARCHIVER_E2E_LOAD_FAULT_SECONDS` (default 60).
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from time import monotonic

import pytest

from tests.e2e.archiver_pod import ArchiverPod
from tests.e2e.cluster import Cluster
from tests.e2e.cluster.connection import Connection
from tests.e2e.load import crowd
from tests.e2e.load.account import Account, account, report
from tests.e2e.load.faults import Faults
from tests.e2e.load.harvest import Harvester
from tests.e2e.load.stage import Board, Stage
from tests.e2e.scenarios.kube import Kube, until
from tests.e2e.scenarios.truth import Truth
from tests.e2e.verifying import verify

pytestmark = [pytest.mark.load, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(4 * 3600)]

CLUSTER_SECONDS = 300


def _setting(name: str, default: float) -> float:
    return float(os.environ.get(f"ARCHIVER_E2E_LOAD{name}") or default)


async def test_loses_nothing_without_a_word_and_has_nothing_twice(
    kube: Kube, connection: Connection, archiver: ArchiverPod, run: str, figures: list[str]
) -> None:
    assert crowd.IMAGE in connection.images, f"ARCHIVER_E2E_IMAGES must name {crowd.IMAGE} (tests/e2e/cluster/images)"
    members = crowd.crowd(int(_setting("", 200)))
    namespace, truths = f"load-{run}", f"truth-load-{run}"
    faults = Faults(kube, archiver, Cluster() if connection.is_harness else None, _setting("_FAULT_SECONDS", 60))
    try:
        await Truth(kube, truths, connection.images["base"]).start()
        began = monotonic()
        stage = await _let_run(members, kube, connection, namespace, faults)
        board = stage.board
        figures += [*_course(members, faults, monotonic() - began), *(f"STUCK           {one}" for one in stage.stuck)]
        figures += [f"second head     {name} deleted, as a person would" for name in board.second_heads]
        result = account(await Harvester(kube, archiver, namespace, truths).gather(board.uids.values()), _uids(board))
        verdict = await verify(archiver, connection, run)
        figures += [*report(result), f"verify          {verdict[1]}"]
        assert not stage.stuck, "\n".join(stage.stuck)
        _assert_nothing_is_lost(result, members)
        assert verdict[0] == 0, verdict[1]
    finally:
        await kube.delete("Namespace", "", namespace)
        await kube.delete("Namespace", "", truths)


async def _let_run(
    members: list[crowd.Member], kube: Kube, connection: Connection, namespace: str, faults: Faults
) -> Stage:
    """Returns when every RayJob is over and every fault was brought about."""
    for document in crowd.setting(namespace, connection.images):
        await kube.apply(document)
    await until("the shared cluster is not ready", lambda: _is_ready(kube, namespace), seconds=CLUSTER_SECONDS)
    board = Board(kube, namespace)
    at_once = int(_setting("_AT_ONCE", 3 * (os.cpu_count() or 1)))
    stage = Stage(kube, board, connection.images, asyncio.Semaphore(at_once))
    following = asyncio.create_task(board.follow())
    try:
        async with asyncio.TaskGroup() as group:
            for member in members:
                group.create_task(stage.play(member), name=member.name)
            group.create_task(faults.follow(stage, len(members)), name="faults")
    finally:
        following.cancel()
    return stage


async def _is_ready(kube: Kube, namespace: str) -> bool:
    found = await kube.get("RayCluster", namespace, "shared")
    return bool((found or {}).get("status", {}).get("state") == "ready")


def _uids(board: Board) -> list[str]:
    return list(board.uids.values())


def _course(members: list[crowd.Member], faults: Faults, seconds: float) -> list[str]:
    modes = Counter(member.mode for member in members)
    retries, deleted = sum(member.attempts > 1 for member in members), sum(member.is_deleted for member in members)
    spread = ", ".join(f"{mode} {count}" for mode, count in sorted(modes.items()))
    return [
        f"RayJobs         {len(members)} in {seconds:.0f} s: {spread}; {retries} with retries, {deleted} deleted in mid-run",
        *(f"fault           after {over}: {name} ({took:.0f} s)" for name, over, took in faults.done),
    ]


def _assert_nothing_is_lost(result: Account, members: list[crowd.Member]) -> None:
    assert not result.wrong, "\n".join(result.wrong)
    assert result.lost_runs == result.duplicates == 0
    assert result.runs >= sum(member.attempts for member in members if not member.is_deleted)
