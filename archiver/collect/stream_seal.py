"""Makes one object of a stream's parts, and proves that it is right. Writes no text of its own but a missing newline."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256

import structlog

from archiver.core import keys
from archiver.core.frames import FrameTable
from archiver.core.lines import Block, to_time
from archiver.core.model import Gap, GapReason
from archiver.core.segments import Codec, Footer, PartBuilder, Span, StreamState, encode_footer
from archiver.errors import DataError, StoreError
from archiver.ports import ObjectStore
from archiver.store.parts import Part, list_parts, read_frames, read_part
from archiver.store.spool import StreamId

_READERS = 8
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a sealed object or a document is, ready for an Artifact. All of the archived text, after masking."""

    key: str
    raw_bytes: int
    stored_bytes: int
    lines: int
    sha256: str
    first_time: datetime | None = None
    last_time: datetime | None = None
    gaps: tuple[Gap, ...] = ()
    masked: Mapping[str, int] = field(default_factory=dict)
    source_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What a writer that made every part itself knows: the parts in the order of writing, and that text's checksum."""

    parts: Sequence[Part]
    sha256: str


@dataclass(slots=True)
class _Layout:
    """The sealed object as it will be: parts in the order of their source, newlines between them where text is missing."""

    pieces: list[Part]
    holes: list[tuple[int, int]]  # missing bytes, archived lines before them
    table: FrameTable
    size_bytes: int = 0
    raw_bytes: int = 0
    newlines: int = 0
    ends_line: bool = True


class Sealer:
    """Composes, verifies and discards. Every step may run twice."""

    def __init__(self, store: ObjectStore, codec: Codec) -> None:
        self._store = store
        self._codec = codec

    async def seal(self, stream: StreamId, state: StreamState, written: Written | None) -> Sealed:
        """``state`` is the stream's after its last part. Where the parts are not what they should be, what can still be
        read is sealed, and the rest is a gap: no trying again would bring it back."""
        sealed = await self._readable(keys.artifact_key(stream.prefix, stream.name))
        if sealed is not None and sealed.footer.state.next_sequence == state.next_sequence:
            return _facts(sealed)
        try:
            return await self._seal_whole(stream, state, written, sealed)
        except DataError as damage:
            _log.error("archived log damaged", artifact=stream.name, prefix=stream.prefix, error=str(damage))
            return await self._salvage(stream, state, str(damage))

    async def _seal_whole(
        self, stream: StreamId, state: StreamState, written: Written | None, sealed: Part | None
    ) -> Sealed:
        key = keys.artifact_key(stream.prefix, stream.name)
        parts = list(written.parts) if written else await self._read_parts(stream, state, sealed)
        layout = await self._lay_out(stream, parts)
        _compare(stream, layout, state)
        in_order = written is not None and layout.pieces == parts
        checksum = written.sha256 if written and in_order else await self._checksum(layout.pieces)
        return await self._write(key, layout, checksum, _final(state, layout))

    async def _salvage(self, stream: StreamId, state: StreamState, damage: str) -> Sealed:
        key = keys.artifact_key(stream.prefix, stream.name)
        found, sealed = await list_parts(self._store, stream), await self._readable(key)
        if sealed is not None and sealed.footer.state.next_sequence >= state.next_sequence:
            return _facts(sealed)  # another process has sealed it meanwhile, and its parts are gone by right
        parts = [part for number in sorted(found) if (part := await self._whole(found[number])) is not None]
        if sealed is not None and 0 not in found and await self._whole(sealed.key) is not None:
            parts = [sealed, *parts]
        layout = await self._lay_out(stream, parts)
        gap = Gap(GapReason.UNREADABLE, f"a stored piece of this log is damaged: {damage}", layout.newlines)
        left = replace(state, gaps=(*state.gaps, gap), ends_line=layout.ends_line)
        return await self._write(key, layout, await self._checksum(layout.pieces), _final(left, layout))

    async def _whole(self, key: str) -> Part | None:
        """A part all of whose text can be read and is what was written; None for any other."""
        part = await self._readable(key)
        try:
            if part is not None:
                await self._checksum([part])
        except DataError:
            return None
        return part

    async def _readable(self, key: str) -> Part | None:
        try:
            return await read_part(self._store, key, self._codec)
        except DataError as error:
            _log.error("stored object unreadable", key=key, error=str(error))
            return None

    async def discard(self, stream: StreamId) -> None:
        """Raises StoreError where there is no sealed object."""
        key = keys.artifact_key(stream.prefix, stream.name)
        if await self._store.head(key) is None:
            raise StoreError(f"{key} is not sealed: its parts stay")
        prefix = keys.parts_prefix(stream.prefix, stream.name)
        await self._store.delete([info.key async for info in self._store.list(prefix)])

    async def _read_parts(self, stream: StreamId, state: StreamState, sealed: Part | None) -> list[Part]:
        """All parts; where those of an earlier seal are discarded, the sealed object stands for them."""
        found = await list_parts(self._store, stream)
        base = sealed if sealed and 0 not in found else None
        first = base.footer.state.next_sequence if base else 0
        wanted = range(first, state.next_sequence)
        missing = [number for number in wanted if number not in found]
        if missing:
            raise DataError(f"part {missing[0]} of {stream.name} below {stream.prefix} is missing")
        limit = asyncio.Semaphore(_READERS)

        async def one(number: int) -> Part:
            async with limit:
                part = await read_part(self._store, found[number], self._codec)
            if part is None:
                raise DataError(f"{found[number]} vanished")
            return part

        parts = await asyncio.gather(*(one(number) for number in wanted))
        return [base, *parts] if base else list(parts)

    async def _lay_out(self, stream: StreamId, parts: Sequence[Part]) -> _Layout:
        layout = _Layout([], [], FrameTable())
        end = 0
        for part in sorted(
            parts, key=lambda each: (not each.footer.is_sealed, each.footer.source.start, each.footer.sequence)
        ):
            missing = part.footer.source.start - end
            if missing > 0:
                if not layout.ends_line:
                    _append(layout, await self._newline(stream, layout))
                layout.holes.append((missing, layout.newlines))
            _append(layout, part)
            end = max(end, part.footer.source.end)
        return layout

    async def _newline(self, stream: StreamId, layout: _Layout) -> Part:
        """A line whose rest is missing must not run into the next one."""
        builder = PartBuilder(self._codec)
        builder.add(Block(b"\n", [layout.pieces[-1].table[-1].last_time if len(layout.pieces[-1].table) else 0]))
        body, footer, table = builder.finish(sequence=0, writer="", source=Span(0, 0), state=StreamState())
        key = f"{keys.parts_prefix(stream.prefix, stream.name)}newline{keys.SUFFIX}"
        await self._store.put(key, body)
        return Part(key, len(body), footer, table)

    async def _checksum(self, parts: Sequence[Part]) -> str:
        """Reads all text again, and holds every part to its own checksum."""
        whole = sha256()
        for part in parts:
            own = sha256()
            async for block in read_frames(self._store, part, self._codec):
                own.update(block.text)
                whole.update(block.text)
            if own.hexdigest() != part.footer.sha256:
                raise DataError(f"{part.key} does not have the text that it was written with")
        return whole.hexdigest()

    async def _write(self, key: str, layout: _Layout, checksum: str, state: StreamState) -> Sealed:
        footer = Footer(
            sequence=state.next_sequence,
            writer="",
            raw_bytes=layout.raw_bytes,
            newlines=layout.newlines,
            ends_line=layout.ends_line,
            sha256=checksum,
            source=Span(state.spans[0].start, state.spans[-1].end) if state.spans else Span(0, 0),
            state=state,
            is_sealed=True,
        )
        # an object without any text still is a zstd file: it has one empty frame
        empty = b"" if layout.raw_bytes else self._codec.compress(b"")
        tail = empty + encode_footer(footer, layout.table, self._codec)
        await self._store.compose([part.key for part in layout.pieces], key, tail=tail)
        sealed = await read_part(self._store, key, self._codec)
        if sealed is None or sealed.size_bytes != layout.size_bytes + len(tail):
            raise DataError(f"{key} has not the size that was written")
        if (sealed.footer, sealed.table) != (footer, layout.table):
            raise DataError(f"{key} has not the index that was written")
        return _facts(sealed)


def _append(layout: _Layout, part: Part) -> None:
    layout.pieces.append(part)
    layout.table.extend(part.table, shift=layout.size_bytes)
    layout.size_bytes += part.size_bytes
    layout.raw_bytes += part.footer.raw_bytes
    layout.newlines += part.footer.newlines
    if part.footer.raw_bytes:
        layout.ends_line = part.footer.ends_line


def _compare(stream: StreamId, layout: _Layout, state: StreamState) -> None:
    added = sum(1 for part in layout.pieces if part.key.endswith(f"/newline{keys.SUFFIX}"))
    found, wanted = (layout.raw_bytes, layout.newlines), (state.raw_bytes + added, state.newlines + added)
    if found != wanted:
        raise DataError(f"the parts of {stream.name} hold {found} bytes and newlines instead of {wanted}")


def _final(state: StreamState, layout: _Layout) -> StreamState:
    return replace(
        state,
        raw_bytes=layout.raw_bytes,
        newlines=layout.newlines,
        ends_line=layout.ends_line,
        gaps=_place_gaps(state.gaps, layout),
    )


def _place_gaps(gaps: Sequence[Gap], layout: _Layout) -> tuple[Gap, ...]:
    """Every hole has its gap, at the line where it is. Those that were noted while reading know the reason."""
    left = list(layout.holes)
    placed: list[Gap] = []
    for gap in gaps:
        hole = next((each for each in left if each[0] == gap.missing_bytes), None)
        if hole:
            left.remove(hole)
            gap = replace(gap, at_line=hole[1])
        elif gap.missing_bytes is not None:
            gap = replace(gap, at_line=layout.newlines + (0 if layout.ends_line else 1))
        placed.append(gap)
    for missing, line in left:
        placed.append(Gap(GapReason.SOURCE_GONE, "this part of the source was not read", line, missing_bytes=missing))
    return tuple(sorted(placed, key=lambda gap: gap.at_line))


def _facts(sealed: Part) -> Sealed:
    state = sealed.footer.state
    return Sealed(
        key=sealed.key,
        raw_bytes=sealed.footer.raw_bytes,
        stored_bytes=sealed.size_bytes,
        lines=state.lines,
        sha256=sealed.footer.sha256,
        first_time=to_time(state.first_time),
        last_time=to_time(state.last_time),
        gaps=state.gaps,
        masked=dict(state.masked),
        source_bytes=state.source_bytes,
    )
