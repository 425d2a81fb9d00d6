"""The log files of a Ray cluster's nodes, read at the end of the job: most telling first, large ones from their end.

Every file that was listed has its row: what was read, or why it was not.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog

from archiver.collect.driver import DriverView
from archiver.collect.sealing import artifact_of, lost
from archiver.collect.snapshot import NodeFile, node_files
from archiver.collect.streams import StreamWriter
from archiver.collect.tools import Tools
from archiver.core.model import Artifact, ArtifactKind, Gap, GapReason, LogKind, LogSource
from archiver.errors import RayError
from archiver.ports import RayHead

OpenStream = Callable[[str, ArtifactKind, LogSource | None], Awaitable[StreamWriter]]
_PIECE_BYTES = 8 << 20
_ROWS_AT_MOST = 200
_log = structlog.get_logger()


@dataclass(slots=True)
class _Open:
    """A file that was begun."""

    writer: StreamWriter
    name: str
    source: LogSource
    size: int


class NodeFiles:
    """``read`` may be cancelled by a time budget; ``close`` then says what was not read, and seals what was begun."""

    def __init__(self, tools: Tools, view: DriverView, open_stream: OpenStream, artifacts: dict[str, Artifact]) -> None:
        self._tools = tools
        self._view = view
        self._open_stream = open_stream
        self._artifacts = artifacts
        self._left: dict[str, NodeFile] = {}
        self._errors: dict[str, str] = {}
        self._begun: dict[str, _Open] = {}

    async def read(self, head: RayHead, workers: Mapping[str, str], only_of: tuple[str, ...]) -> None:
        """All files that are worth it and were not read before."""
        files = await node_files(self._tools.ray, head, workers, only_of=only_of)
        # the driver's own log is followed by itself
        files = [file for file in files if not file.path.startswith("job-driver-")]
        self._left = {_name(file): file for file in files if _name(file) not in self._artifacts}
        for name, file in list(self._left.items()):
            try:
                await self._read_file(head, file)
            except RayError as error:
                _log.info("ray log not read", node=file.node, path=file.path, error=str(error))
                if self._view.head() is None:
                    return
                self._errors[name] = str(error)
                continue
            self._left.pop(name, None)

    async def close(self, why: str) -> None:
        """Seals what was begun and says of the rest that it was not read. Waits for the store; ``read`` does not."""
        for name, begun in list(self._begun.items()):
            missing = begun.size - begun.writer.checkpoint.offset
            if missing > 0 and name in self._left:
                await begun.writer.gap(Gap(GapReason.DEADLINE, why, begun.writer.lines, missing_bytes=missing))
            self._left.pop(name, None)
            await self._seal(begun)
            del self._begun[name]
        for name, file in list(self._left.items())[:_ROWS_AT_MOST]:
            self._artifacts[name] = lost(name, ArtifactKind.LOG, self._errors.get(name, why), _source(file))
        self._left = {}

    async def _read_file(self, head: RayHead, file: NodeFile) -> None:
        """The whole file, or its end where it is larger than the limit."""
        first = await self._tools.ray.read_log(head, file.path, start=0, length=1, node_ip=file.node_ip)
        if first is None or first.size_bytes == 0:
            return
        size, limit = first.size_bytes, self._tools.settings.ray_log_bytes
        writer = await self._open_stream(_name(file), ArtifactKind.LOG, _source(file))
        self._begun[_name(file)] = _Open(writer, _name(file), _source(file), size)
        start = max(writer.checkpoint.offset, size - limit)
        if start > writer.checkpoint.offset:
            detail = f"only the last {limit:,} bytes of Ray's own logs are kept"
            missing = start - writer.checkpoint.offset
            await writer.gap(Gap(GapReason.DEADLINE, detail, writer.lines, missing_bytes=missing))
            await writer.skip_to(start)
        try:
            await self._copy(head, file, writer, size)
        except RayError as error:
            missing = size - writer.checkpoint.offset
            await writer.gap(
                Gap(GapReason.SOURCE_GONE, f"the node was gone: {error}", writer.lines, missing_bytes=missing)
            )

    async def _copy(self, head: RayHead, file: NodeFile, writer: StreamWriter, size: int) -> None:
        while (offset := writer.checkpoint.offset) < size:
            length = min(_PIECE_BYTES, size - offset)
            piece = await self._tools.ray.read_log(head, file.path, start=offset, length=length, node_ip=file.node_ip)
            if piece is None or not piece.data:
                raise RayError("the file vanished")
            await writer.write_bytes(piece.data, self._tools.now(), offset)

    async def _seal(self, begun: _Open) -> None:
        sealed = await begun.writer.seal()
        self._artifacts[begun.name] = artifact_of(
            begun.name, ArtifactKind.LOG, sealed, reason="read at the end of the job", source=begun.source
        )


def _name(file: NodeFile) -> str:
    return f"logs/ray/{file.node}/{file.path}"


def _source(file: NodeFile) -> LogSource:
    return LogSource(LogKind.RAY, path=file.path, node=file.node)
