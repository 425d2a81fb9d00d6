"""The streams and documents of one attempt: opened below its prefix, and remembered until they are sealed."""

from archiver.collect.streams import Sealed, StreamWriter
from archiver.collect.tools import Tools
from archiver.core import keys
from archiver.core.model import ArtifactKind, LogSource


class AttemptStreams:
    """``writers`` are the newest of each name."""

    def __init__(self, tools: Tools, prefix: str) -> None:
        self._tools = tools
        self._prefix = prefix
        self.writers: dict[str, StreamWriter] = {}

    async def open_stream(self, name: str, kind: ArtifactKind, source: LogSource | None = None) -> StreamWriter:
        """A writer that goes on where an earlier one ended."""
        writer = await self._tools.streams.open(self._prefix, name, source=source, now=self._tools.now())
        self.writers[name] = writer
        return writer

    async def read_back(self, name: str) -> list[bytes]:
        """The lines of a small stream."""
        return await self._tools.streams.read_back(self._prefix, name)

    async def put_document(self, name: str, body: bytes) -> Sealed:
        """Queues a document for the store."""
        return await self._tools.streams.put_document(self._prefix, name, body)

    async def read_document(self, name: str) -> bytes | None:
        """A document that was put before; None where there is none."""
        return await self._tools.catalog.document(keys.artifact_key(self._prefix, name))
