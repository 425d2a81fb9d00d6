"""What goes wrong on order: refused rights, failing requests, silent and cut streams. Not the order itself."""

import asyncio
from dataclasses import dataclass

from aiohttp import web

from archiver.sandbox.resources import Resource
from archiver.sandbox.signals import Signal, wait_for


@dataclass(frozen=True, slots=True)
class Denial:
    """A right that the user lacks. ``*`` stands for all; an empty namespace means everywhere."""

    verb: str
    resource: str
    namespace: str = ""

    def covers(self, verb: str, resource: str, namespace: str) -> bool:
        return (
            self.verb in ("*", verb)
            and self.resource in ("*", resource)
            and (not self.namespace or self.namespace == namespace)
        )


class OpenStream:
    """A watch or a log that is being followed; ``is_cut`` once somebody ended it."""

    __slots__ = ("is_cut", "kind", "transport")

    def __init__(self, kind: str, transport: asyncio.Transport | None) -> None:
        self.kind = kind
        self.transport = transport
        self.is_cut = False

    def cut(self) -> None:
        self.is_cut = True
        if self.transport is not None:
            self.transport.abort()


class Faults:
    def __init__(self) -> None:
        self.denials: list[Denial] = []
        self.streams: set[OpenStream] = set()
        self._failures: list[tuple[str, int]] = []
        self._is_paused = False
        self._resumed = Signal()

    def is_denied(self, verb: str, resource: Resource, subresource: str, namespace: str) -> bool:
        full = f"{resource.plural}/{subresource}" if subresource else resource.plural
        return any(denial.covers(verb, full, namespace) for denial in self.denials)

    def fail_next(self, count: int, status: int, *, path: str) -> None:
        self._failures.extend([(path, status)] * count)

    def due_failure(self, path: str) -> int | None:
        """The status that this request has to get, used up by asking."""
        for index, (part, status) in enumerate(self._failures):
            if part in path:
                del self._failures[index]
                return status
        return None

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._resumed.fire()

    async def hold_while_paused(self, *, limit_seconds: float = 600.0) -> None:
        """Silence: connections stay open and nothing comes."""
        ticket = self._resumed.ticket()
        if self._is_paused:
            await wait_for(ticket, limit_seconds)

    def open_stream(self, kind: str, request: web.BaseRequest) -> OpenStream:
        stream = OpenStream(kind, request.transport)
        self.streams.add(stream)
        return stream

    def cut(self, *kinds: str) -> int:
        chosen = [stream for stream in self.streams if stream.kind in kinds]
        for stream in chosen:
            stream.cut()
        return len(chosen)
