"""The deployed archiver and all chosen scenarios, played at once; each test waits for its own.

`ARCHIVER_E2E_PLACES` says how many RayJobs with Ray in them run at the same time (default: one a core),
`ARCHIVER_E2E_RECORD` names a folder in which every scenario is recorded, `ARCHIVER_E2E_IMAGE` another archiver image.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
from psycopg import sql

from archiver.kube.access import find_access
from archiver.kube.transport import Transport
from tests.e2e.archiver_pod import ArchiverPod, on_database
from tests.e2e.cluster.connection import Connection, connect
from tests.e2e.cluster.errors import NotRunning
from tests.e2e.scenarios.kube import Kube
from tests.e2e.scenarios.play import CENT, Places, Played, Player
from tests.e2e.scenarios.scenario import Scenario
from tests.e2e.scenarios.tape import Recorder
from tests.e2e.scenarios.truth import Truth

PLACES_A_CORE = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the closing table."""

    name: str
    result: str
    margins: str = ""
    verdicts: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class Stagehands:
    """The scenarios of this run, all started together, each waiting for its place."""

    player: Player
    recordings: Path | None
    kubeconfig: Path
    is_harness: bool
    tasks: dict[str, asyncio.Task[Played]] = field(default_factory=dict)
    recorders: dict[str, Recorder] = field(default_factory=dict)

    def start_all(self, scenarios: list[Scenario], places: Places) -> None:
        for scenario in scenarios:
            if scenario.needs_harness and not self.is_harness:
                continue
            play = self._play(scenario, places)
            self.tasks[scenario.name] = asyncio.get_running_loop().create_task(play, name=scenario.name)

    async def played(self, scenario: Scenario) -> Played:
        """What is left of it, once it is over. Skips what must not be done to a node that is not ours."""
        if scenario.name not in self.tasks:
            pytest.skip("it stops the node's kubelet: only on the cluster of `make cluster`")
        return await self.tasks[scenario.name]

    async def all_over(self) -> None:
        """Returns when every scenario has ended, well or not."""
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    async def _play(self, scenario: Scenario, places: Places) -> Played:
        cost = min(round(scenario.cost * CENT), places.total)
        await places.take(cost)
        recorder = Recorder(self.kubeconfig, self.recordings) if self.recordings else None
        try:
            played = await self.player.play(scenario, recorder)
            if recorder:
                await recorder.stop()
                self.recorders[scenario.name] = recorder
            return played
        finally:
            places.give(cost)


@pytest.fixture(scope="session")
def connection() -> Connection:
    try:
        return connect()
    except NotRunning as error:
        pytest.exit(str(error), returncode=2)


@pytest.fixture(scope="session")
def run() -> str:
    """Tells this run's namespaces, bucket and database from those of any other."""
    return secrets.token_hex(3)


@pytest.fixture(scope="session")
def recordings() -> Path | None:
    """Where recordings go; None where nothing is recorded."""
    named = os.environ.get("ARCHIVER_E2E_RECORD")
    if not named:
        return None
    folder = Path(named).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kube(connection: Connection) -> AsyncIterator[Kube]:
    async with Transport(find_access(str(connection.kubeconfig))) as transport:
        yield Kube(transport)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def archiver(kube: Kube, connection: Connection, run: str) -> AsyncIterator[ArchiverPod]:
    """The archiver in its pods, with a bucket and a database of this run's own."""
    name = f"archiver_{run}"
    with psycopg.connect(connection.postgres.dsn, autocommit=True) as session:
        session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    pod = ArchiverPod(
        kube,
        connection,
        run=run,
        image=os.environ.get("ARCHIVER_E2E_IMAGE") or connection.images["archiver"],
        database_url=on_database(connection.postgres.pod_dsn, name),
    )
    try:
        await pod.deploy()
        yield pod
    finally:
        await pod.remove()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stage(
    kube: Kube,
    connection: Connection,
    archiver: ArchiverPod,
    run: str,
    recordings: Path | None,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Stagehands]:
    """Every scenario that was chosen on the command line has been started."""
    truth = Truth(kube, f"truth-{run}", connection.images["base"])
    await truth.start()
    player = Player(kube, connection, archiver, truth, run=run)
    hands = Stagehands(player, recordings, connection.kubeconfig, connection.is_harness)
    hands.start_all(_chosen(request.session), Places.of(_places()))
    try:
        yield hands
    finally:
        for task in hands.tasks.values():
            task.cancel()
        await asyncio.gather(*hands.tasks.values(), return_exceptions=True)
        await kube.delete("Namespace", "", f"truth-{run}")


def _places() -> float:
    return float(os.environ.get("ARCHIVER_E2E_PLACES") or (os.cpu_count() or 1) * PLACES_A_CORE)


def _chosen(session: pytest.Session) -> list[Scenario]:
    specs = [item.callspec for item in session.items if isinstance(item, pytest.Function) and hasattr(item, "callspec")]
    chosen = [spec.params["scenario"] for spec in specs if "scenario" in spec.params]
    return list({scenario.name: scenario for scenario in chosen}.values())


ROWS = pytest.StashKey[list[Row]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = []


@pytest.fixture(scope="session")
def table(pytestconfig: pytest.Config) -> list[Row]:
    return pytestconfig.stash[ROWS]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Scenario, result, margins between safe and deleted (ms), verdicts, seconds."""
    rows = config.stash[ROWS]
    if not rows:
        return
    terminalreporter.section("scenarios")
    line = "{:26} {:9} {:>22}  {:44} {:>7}"
    terminalreporter.write_line(line.format("scenario", "result", "margin ms", "verdict", "seconds"))
    for row in rows:
        seconds = f"{row.seconds:.0f}" if row.seconds else ""
        terminalreporter.write_line(line.format(row.name, row.result, row.margins, row.verdicts, seconds).rstrip())
