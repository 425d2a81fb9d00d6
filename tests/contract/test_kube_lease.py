"""Leader election: never two at once, never nobody for long, whatever the clocks say."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from archiver.kube.access import PlainAccess
from archiver.kube.lease import LeaseHolder, LeaseName, LeaseTiming
from archiver.kube.transport import Transport
from archiver.sandbox.server import SandboxServer
from tests.fakes.kube.tcpfaults import TcpFaults
from tests.fakes.kube.watching import eventually

pytest_plugins = ("tests.fakes.kube.fixtures",)

LEASE = LeaseName("default", "shard-0")
QUICK = LeaseTiming(duration_seconds=1, renew_seconds=0.25, retry_seconds=0.1, request_seconds=0.3)


class Stage:
    """Who is at work; fails where two are."""

    def __init__(self) -> None:
        self.at_work: list[str] = []
        self.history: list[str] = []

    async def work(self, name: str) -> None:
        assert not self.at_work, f"{name} began while {self.at_work} worked"
        self.at_work.append(name)
        self.history.append(name)
        try:
            await asyncio.Event().wait()
        finally:
            self.at_work.remove(name)


@asynccontextmanager
async def candidate(
    transport: Transport, stage: Stage, name: str
) -> AsyncIterator[tuple[LeaseHolder, asyncio.Task[None]]]:
    holder = LeaseHolder(transport, LEASE, identity=name, timing=QUICK)
    task = asyncio.create_task(holder.run_led(lambda: stage.work(name)), name=name)
    try:
        yield holder, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_one_of_two_leads_and_the_other_follows_at_once_when_it_stops(
    sandbox: SandboxServer, to_sandbox: Transport
) -> None:
    stage = Stage()
    async with candidate(to_sandbox, stage, "a") as (first, first_task):
        await eventually(lambda: first.is_leading)
        async with candidate(to_sandbox, stage, "b") as (second, _):
            await eventually(lambda: second.leader == "a")
            assert stage.at_work == ["a"]
            stopped_at = asyncio.get_running_loop().time()
            first_task.cancel()
            await eventually(lambda: stage.at_work == ["b"])
            assert second.is_leading
            assert not first.is_leading
            taken_seconds = asyncio.get_running_loop().time() - stopped_at
            assert taken_seconds < QUICK.duration_seconds, "a released lease is not waited for"
    lease = sandbox.cluster.get("leases", LEASE.namespace, LEASE.name)
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == "", "the last one released it too"
    assert lease["spec"]["leaseTransitions"] == 1


async def test_a_leader_that_is_cut_off_stops_before_another_begins(sandbox: SandboxServer) -> None:
    stage = Stage()
    async with (
        TcpFaults(sandbox.port) as faults,
        Transport(PlainAccess(faults.url, sandbox.token)) as cut_off,
        Transport(PlainAccess(sandbox.url, sandbox.token)) as healthy,
        candidate(cut_off, stage, "a") as (first, _),
    ):
        await eventually(lambda: first.is_leading)
        async with candidate(healthy, stage, "b") as (second, _):
            await eventually(lambda: second.leader == "a")
            faults.freeze(also_new=True)
            await eventually(lambda: stage.at_work == ["b"])
            assert not first.is_leading
            assert second.is_leading
    assert stage.history == ["a", "b"]


async def test_a_short_outage_costs_no_leadership(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    stage = Stage()
    async with candidate(to_sandbox, stage, "a") as (holder, _):
        await eventually(lambda: holder.is_leading)
        sandbox.cluster.fail_next(2, 500, path="/leases")
        await eventually(lambda: sandbox.cluster.faults.due_failure("nothing") is None and holder.is_leading)
        renewed = sandbox.cluster.get("leases", LEASE.namespace, LEASE.name)
        assert renewed is not None
        time = renewed["spec"]["renewTime"]
        await eventually(lambda: _renew_time(sandbox) > time)
    assert stage.history == ["a"]


def _renew_time(server: SandboxServer) -> str:
    lease = server.cluster.get("leases", LEASE.namespace, LEASE.name)
    assert lease is not None
    return str(lease["spec"].get("renewTime") or "")


def foreign_lease(server: SandboxServer, renew_time: str) -> None:
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 1, "renewTime": renew_time, "leaseTransitions": 4}
    metadata = {"name": LEASE.name, "namespace": LEASE.namespace}
    server.cluster.put(
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec},
    )


@pytest.mark.parametrize("time", ["1970-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z", None])
async def test_a_dead_holder_is_followed_whatever_its_clock_said(
    sandbox: SandboxServer, to_sandbox: Transport, time: str | None
) -> None:
    foreign_lease(sandbox, time or "")
    stage = Stage()
    begun_at = asyncio.get_running_loop().time()
    async with candidate(to_sandbox, stage, "a") as (holder, _):
        await eventually(lambda: holder.is_leading)
        assert asyncio.get_running_loop().time() - begun_at >= QUICK.duration_seconds, "by our own observation"
        lease = sandbox.cluster.get("leases", LEASE.namespace, LEASE.name)
        assert lease is not None
        assert lease["spec"]["leaseTransitions"] == 5


async def test_a_living_holder_with_a_clock_far_behind_is_not_followed(
    sandbox: SandboxServer, to_sandbox: Transport
) -> None:
    foreign_lease(sandbox, "1970-01-01T00:00:00.000000Z")
    stage = Stage()
    async with candidate(to_sandbox, stage, "a") as (holder, _):
        for number in range(15):
            await eventually(lambda: holder.leader == "other")
            await asyncio.sleep(QUICK.duration_seconds / 5)
            sandbox.cluster.patch(
                "leases",
                LEASE.namespace,
                LEASE.name,
                {"spec": {"renewTime": f"1970-01-01T00:00:{number:02d}.000000Z"}},
            )
        assert stage.history == []


async def test_gives_way_when_somebody_else_took_the_lease(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    stage = Stage()
    async with candidate(to_sandbox, stage, "a") as (holder, _):
        await eventually(lambda: holder.is_leading)
        foreign_lease(sandbox, "2026-11-30T00:00:00.000000Z")
        await eventually(lambda: not holder.is_leading)
        assert stage.at_work == []
        await eventually(lambda: holder.is_leading), "and leads again when the other one died"


async def test_work_that_ends_ends_the_election(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("work")

    holder = LeaseHolder(to_sandbox, LEASE, identity="a", timing=QUICK)
    await asyncio.wait_for(holder.run_led(work), 10)
    assert done == ["work"]
    assert not holder.is_leading


async def test_an_error_of_the_work_is_passed_on_and_the_lease_given_back(
    sandbox: SandboxServer, to_sandbox: Transport
) -> None:
    async def work() -> None:
        raise LookupError("the work's own")

    holder = LeaseHolder(to_sandbox, LEASE, identity="a", timing=QUICK)
    with pytest.raises(LookupError, match="the work's own"):
        await asyncio.wait_for(holder.run_led(work), 10)
    lease = sandbox.cluster.get("leases", LEASE.namespace, LEASE.name)
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == ""


async def test_waits_for_the_right_to_hold_a_lease(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    sandbox.cluster.deny("*", "leases")
    stage = Stage()
    async with candidate(to_sandbox, stage, "a") as (holder, task):
        await asyncio.wait((task,), timeout=0.5)
        assert not task.done()
        sandbox.cluster.allow_all()
        await eventually(lambda: holder.is_leading)


def test_a_dead_leader_is_followed_within_fifteen_seconds() -> None:
    timing = LeaseTiming()
    assert timing.duration_seconds + timing.retry_seconds + timing.request_seconds < 15
    assert timing.renew_seconds <= timing.duration_seconds / 3
    assert timing.give_up_seconds + timing.request_seconds < timing.duration_seconds
