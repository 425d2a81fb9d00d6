"""The work queue's promises: once at a time, never forgotten, later when asked, slower after failures."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.errors import StoreUnavailable
from archiver.kube.pacing import Backoff, TokenBucket
from archiver.kube.workqueue import Reconcile, WorkQueue, run_workers
from tests.fakes.kube.watching import eventually


@asynccontextmanager
async def working(queue: WorkQueue[str], reconcile: Reconcile[str], *, workers: int = 3) -> AsyncIterator[None]:
    task = asyncio.create_task(run_workers(queue, reconcile, workers=workers, name="worker"))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def quick() -> WorkQueue[str]:
    return WorkQueue(backoff_base_seconds=0.01, backoff_cap_seconds=0.05)


async def test_a_key_that_is_added_twice_is_worked_on_once() -> None:
    queue: WorkQueue[str] = quick()
    for key in "aba":
        queue.add(key)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_is_never_in_two_hands_and_comes_again_when_added_meanwhile() -> None:
    queue, inside, most, rounds = quick(), 0, 0, 0

    async def reconcile(key: str) -> None:
        nonlocal inside, most, rounds
        inside += 1
        most = max(most, inside)
        rounds += 1
        if rounds == 1:
            queue.add(key)
            queue.add(key)
        await asyncio.sleep(0)
        inside -= 1

    async with working(queue, reconcile):
        queue.add("a")
        await eventually(lambda: rounds == 2 and inside == 0)
    assert most == 1


async def test_all_workers_work_at_once() -> None:
    queue, started, go = quick(), set[str](), asyncio.Event()

    async def reconcile(key: str) -> None:
        started.add(key)
        await go.wait()

    async with working(queue, reconcile):
        for key in "abcd":
            queue.add(key)
        await eventually(lambda: len(started) == 3)
        go.set()
        await eventually(lambda: len(started) == 4)


async def test_comes_back_after_the_time_that_reconcile_asks_for() -> None:
    queue, times = quick(), list[float]()

    async def reconcile(key: str) -> float | None:
        times.append(asyncio.get_running_loop().time())
        return 0.05 if len(times) == 1 else None

    async with working(queue, reconcile):
        queue.add("a")
        await eventually(lambda: len(times) == 2)
    assert times[1] - times[0] >= 0.05


async def test_news_come_before_a_later_plan_and_replace_it() -> None:
    queue: WorkQueue[str] = quick()
    queue.add_after("a", 0.02)
    queue.add("a")
    assert await queue.get() == "a"
    queue.done("a")
    queue.add_after("b", 0.1)
    assert await queue.get() == "b", "the old plan for a is void"


async def test_the_earliest_of_several_plans_holds() -> None:
    queue: WorkQueue[str] = quick()
    queue.add_after("slow", 60)
    queue.add_after("slow", 0.01)
    queue.add_after("slow", 30)
    async with asyncio.timeout(5):
        assert await queue.get() == "slow"


@pytest.mark.parametrize("error", [StoreUnavailable("no answer"), RuntimeError("a bug")])
async def test_a_failing_key_is_tried_again_and_does_not_stop_others(error: Exception) -> None:
    queue, tries, others = quick(), 0, set[str]()

    async def reconcile(key: str) -> None:
        nonlocal tries
        if key != "bad":
            others.add(key)
            return
        tries += 1
        if tries < 4:
            raise error

    async with working(queue, reconcile, workers=1):
        queue.add("bad")
        await eventually(lambda: queue.failures("bad") >= 2)
        queue.add("good")
        await eventually(lambda: tries == 4 and others == {"good"})
        await eventually(lambda: queue.failures("bad") == 0)


async def test_cancelling_ends_all_workers() -> None:
    queue, ended = quick(), 0

    async def reconcile(key: str) -> None:
        nonlocal ended
        try:
            await asyncio.Event().wait()
        finally:
            ended += 1

    async with working(queue, reconcile, workers=2):
        queue.add("a")
        queue.add("b")
        await eventually(lambda: not len(queue))
    assert ended == 2


@settings(deadline=None)
@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=30))
def test_no_added_key_is_forgotten(keys: list[str]) -> None:
    async def story() -> None:
        queue, pending = quick(), set[str]()
        for number, key in enumerate(keys):
            queue.add(key)
            pending.add(key)
            if number % 3 == 0:
                got = await queue.get()
                pending.discard(got)
                queue.add(got)
                queue.done(got)
                pending.add(got)
        while pending:
            got = await queue.get()
            pending.discard(got)
            queue.done(got)

    asyncio.run(asyncio.wait_for(story(), 5))


def test_backoff_grows_is_capped_and_resets() -> None:
    backoff = Backoff(base_seconds=1.0, cap_seconds=8.0)
    delays = [backoff.next_seconds() for _ in range(40)]
    for number, delay in enumerate(delays):
        ceiling = min(8.0, 2.0**number)
        assert ceiling / 2 <= delay <= ceiling
    backoff.reset()
    assert backoff.next_seconds() <= 1.0


@settings(deadline=None)
@given(st.lists(st.floats(0, 0.2), min_size=1, max_size=200))
def test_the_token_bucket_keeps_its_rate(pauses: list[float]) -> None:
    bucket = TokenBucket(rate_per_second=10.0, burst=5.0)
    now = start = bucket._refilled_at
    at: list[float] = []
    for pause in pauses:
        now += pause
        at.append(now + bucket.reserve(now))
    for number, moment in enumerate(at):
        assert number + 1 <= 5.0 + (moment - start) * 10.0 + 1e-6
    assert at == sorted(at)
