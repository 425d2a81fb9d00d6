"""Judges archived attempts on a Ray cluster, many side by side: ``archiver reprocess --ray ADDRESS``.

Evidence and verdicts do not travel through this process twice: a worker reads the bucket itself, by the ``ARCHIVER_*``
settings of its own environment, and answers with the verdict. Nothing secret is sent over Ray. Imported only where it is
asked for, because Ray is an extra of the package.
"""

import asyncio
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import ray

from archiver.collect.again import Again
from archiver.core.manifest import Manifest, from_json, to_json
from archiver.diagnosis import Ruleset, load_ruleset
from archiver.errors import DataError, UserError
from archiver.runtime import open_store
from archiver.settings import Settings, load_settings

_CONNECT_SECONDS = 10.0


class RayJudge:
    """``here`` keeps what the workers find. ``judge`` raises DataError where a worker died, and what it raised itself."""

    def __init__(self, here: Again, at_once: int) -> None:
        self._here = here
        self.at_once = at_once

    @property
    def ruleset(self) -> str:
        return self._here.ruleset

    async def judge(self, manifest: Manifest, prefix: str) -> Mapping[str, Any]:
        """The verdict document by a worker's rules; UserError where they are not the same rules as here."""
        try:
            document: Mapping[str, Any] = await _judge.remote(to_json(manifest), prefix, self.ruleset)
        except ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else DataError(str(error)) from error
        except ray.exceptions.RayError as error:
            raise DataError(f"Ray gave no verdict: {type(error).__name__}: {error}") from error
        return document

    async def keep(self, prefix: str, document: Mapping[str, Any]) -> None:
        await self._here.keep(prefix, document)


@contextmanager
def ray_judge(here: Again, address: str) -> Iterator[RayJudge]:
    """Connected until left. Raises UserError where Ray does not answer, or is of another version."""
    try:
        _reach(address)
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(f"no Ray cluster at {address!r}: {error}") from error
    try:
        yield RayJudge(here, max(1, int(ray.cluster_resources().get("CPU", 1))))
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Raises OSError for a host and port that nobody listens on: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()


@ray.remote  # type: ignore[untyped-decorator] # Ray's own types are not read: it is an extra
def _judge(manifest: bytes, prefix: str, ruleset: str) -> Mapping[str, Any]:
    """In a worker process."""
    settings, rules = _loaded()
    if rules.version != ruleset:
        raise UserError(
            f"the Ray workers judge by ruleset {rules.version}, this command by {ruleset}: give both the same version "
            "of the archiver and the same ARCHIVER_RULES_DIR"
        )
    return asyncio.run(_verdict(settings, rules, from_json(manifest), prefix))


@cache
def _loaded() -> tuple[Settings, Ruleset]:
    """Once a worker process."""
    settings = load_settings(None)
    return settings, load_ruleset(settings.rules_dir)


async def _verdict(settings: Settings, rules: Ruleset, manifest: Manifest, prefix: str) -> Mapping[str, Any]:
    async with open_store(settings) as (store, _):
        return await Again(rules, store).judge(manifest, prefix)
