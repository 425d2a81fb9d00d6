"""Work that a cancellation waits for: what was begun to be written is written and noted, or neither."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """Its result. A cancellation in the meantime takes effect once the work is over.

    A thread that writes a file cannot be called back: without this the file is written and nobody knows of it.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
