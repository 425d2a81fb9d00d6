"""What the writers of a process share, and how they wait for a file operation. No text goes through here."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from archiver.collect.stream_seal import Sealer
from archiver.core.segments import Codec
from archiver.store.spool import Spool
from archiver.store.uploader import Uploader


@dataclass(frozen=True, slots=True)
class Road:
    """What all writers of a process share. ``writer_id`` tells this process's parts from another's."""

    spool: Spool
    uploader: Uploader
    sealer: Sealer
    codec: Codec
    clock: Callable[[], float]
    writer_id: str


async def finish(step: Callable[[], None], then: Callable[[], None]) -> None:
    """Runs a file operation in a thread and what belongs to it here. A cancellation waits for both: an operation that
    goes on behind our back would be done twice."""
    task = asyncio.create_task(asyncio.to_thread(step), name="spool")
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if task.exception() is None:
            then()
        raise
    then()
