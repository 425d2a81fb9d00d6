"""A cancellation waits for what was begun."""

import asyncio

import pytest

from archiver.collect.unbroken import unbroken


async def test_the_result_is_given() -> None:
    async def work() -> int:
        return 7

    assert await unbroken(work()) == 7


async def test_a_cancellation_takes_effect_when_the_work_is_over() -> None:
    begun, go_on, noted = asyncio.Event(), asyncio.Event(), []

    async def work() -> None:
        begun.set()
        await go_on.wait()
        noted.append("written")

    task = asyncio.create_task(unbroken(work()))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert noted == ["written"]
