"""Reads at once: none outlives a failure of another."""

import asyncio

import pytest

from archiver.errors import UserError
from archiver.read.together import all_of, together


async def _give(value: int) -> int:
    return value


async def test_results_come_in_order() -> None:
    assert await together(_give(1), _give(2), _give(3)) == (1, 2, 3)
    assert await all_of(map(_give, range(4))) == [0, 1, 2, 3]


async def test_the_first_error_is_raised_when_the_others_have_ended() -> None:
    ended = []

    async def hold() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def fail() -> None:
        await asyncio.sleep(0)
        raise UserError("no such job")

    with pytest.raises(UserError, match="no such job"):
        await together(hold(), fail(), hold())
    assert ended == [True, True]
