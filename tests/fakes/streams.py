"""Archived logs for tests, written by the product's own part builder: parts, and the sealed object made of them."""

from collections.abc import Sequence
from hashlib import sha256

from archiver.core import keys
from archiver.core.frames import FrameTable
from archiver.core.lines import Block, to_time
from archiver.core.model import Artifact, ArtifactKind, Completeness, Gap, LogKind, LogSource
from archiver.core.segments import Footer, PartBuilder, Span, StreamState, encode_footer
from archiver.ports import ObjectStore
from archiver.store.codec import ZstdCodec

BASE_NS = 1_772_366_400_000_000_000  # 2026-03-01T12:00:00Z


def time_of_line(line: int) -> int:
    """Line n (from 1) was written n seconds after noon, and n nanoseconds."""
    return BASE_NS + line * 1_000_000_001


async def put_parts(
    store: ObjectStore, prefix: str, name: str, pieces: Sequence[bytes], *, gaps: tuple[Gap, ...] = ()
) -> list[tuple[bytes, Footer, FrameTable]]:
    """One part a piece of text; a piece may begin and end inside a line."""
    builder, written, whole = PartBuilder(ZstdCodec()), [], b""
    for sequence, piece in enumerate(pieces):
        line = whole.count(b"\n") + 1
        builder.add(Block(piece, [time_of_line(line + index) for index in range(_piece_count(piece))]))
        source = Span(len(whole), len(whole) + len(piece))
        whole += piece
        state = StreamState(
            next_sequence=sequence + 1,
            raw_bytes=len(whole),
            newlines=whole.count(b"\n"),
            ends_line=whole.endswith(b"\n") or not whole,
            first_time=time_of_line(1),
            last_time=time_of_line(whole.count(b"\n") + (0 if whole.endswith(b"\n") else 1)),
            gaps=gaps,
        )
        part = builder.finish(sequence=sequence, writer="w", source=source, state=state)
        await store.put(keys.part_key(prefix, name, sequence), part[0])
        written.append(part)
    return written


async def put_sealed(
    store: ObjectStore, prefix: str, name: str, pieces: Sequence[bytes], *, gaps: tuple[Gap, ...] = ()
) -> Artifact:
    """The sealed object of these pieces (each at least a frame of its own), and its artifact."""
    parts = await put_parts(store, prefix, name, pieces, gaps=gaps)
    text, table, bodies = b"".join(pieces), FrameTable(), b""
    for body, _, frames in parts:
        table.extend(frames, shift=len(bodies))
        bodies += body
    last = parts[-1][1] if parts else None
    state = last.state if last else StreamState()
    footer = Footer(
        sequence=len(parts),
        writer="",
        raw_bytes=len(text),
        newlines=text.count(b"\n"),
        ends_line=text.endswith(b"\n") or not text,
        sha256=sha256(text).hexdigest(),
        source=Span(0, len(text)),
        state=state,
        is_sealed=True,
    )
    codec = ZstdCodec()
    body = bodies + (b"" if text else codec.compress(b"")) + encode_footer(footer, table, codec)
    await store.put(keys.artifact_key(prefix, name), body)
    await store.delete([keys.part_key(prefix, name, sequence) for sequence in range(len(parts))])
    return artifact(prefix, name, text, stored_bytes=len(body), gaps=gaps)


def artifact(prefix: str, name: str, text: bytes, *, stored_bytes: int = 0, gaps: tuple[Gap, ...] = ()) -> Artifact:
    """What a manifest says of it."""
    lines = _piece_count(text)
    return Artifact(
        name=name,
        kind=ArtifactKind.LOG,
        key=keys.artifact_key(prefix, name),
        raw_bytes=len(text),
        stored_bytes=stored_bytes,
        lines=lines,
        sha256=sha256(text).hexdigest(),
        completeness=Completeness.PARTIAL if gaps else Completeness.COMPLETE,
        reason="a part is missing" if gaps else "read to its end",
        source=LogSource(LogKind.DRIVER),
        first_time=to_time(time_of_line(1)),
        last_time=to_time(time_of_line(lines)),
        gaps=gaps,
    )


def _piece_count(text: bytes) -> int:
    return text.count(b"\n") + (1 if text and not text.endswith(b"\n") else 0)
