"""Several reads at once, none of which outlives a failure of another."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar, overload

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")
W = TypeVar("W")
Work = Coroutine[Any, Any, T]


@overload
async def together(first: Work[T], second: Work[U], /) -> tuple[T, U]: ...
@overload
async def together(first: Work[T], second: Work[U], third: Work[V], /) -> tuple[T, U, V]: ...
@overload
async def together(first: Work[T], second: Work[U], third: Work[V], fourth: Work[W], /) -> tuple[T, U, V, W]: ...
async def together(*works: Work[Any]) -> Any:
    """Their results, in order. At the first error the others are cancelled and waited for, and that error is raised.

    `asyncio.gather` would leave them running: a read that nobody waits for keeps its connection for as long as it likes.
    """
    return tuple(await all_of(works))


async def all_of(works: Iterable[Work[T]]) -> list[T]:
    """The same for any number of works of one kind."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
