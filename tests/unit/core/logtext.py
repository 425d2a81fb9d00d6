"""Log text as the kubelet prints it, for tests of what reads it."""

from datetime import UTC, datetime
from io import BytesIO

from archiver.core.lines import SECOND, Block, TimedParser


def stamp(ns: int) -> bytes:
    """The kubelet's 30 characters."""
    moment = datetime.fromtimestamp(ns // SECOND, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ns % SECOND:09d}Z".encode()


def stamped(lines: list[tuple[int, bytes]], *, ends: bool = True) -> bytes:
    """Lines with their times; the last one without a newline where ``ends`` is false."""
    text = b"".join(stamp(ns) + b" " + line + b"\n" for ns, line in lines)
    return text if ends or not lines else text[:-1]


def parse(chunks: list[bytes]) -> list[Block]:
    """What the parser gives for a whole log."""
    parser = TimedParser()
    blocks = [parser.feed(chunk) for chunk in chunks]
    return [block for block in [*blocks, parser.flush()] if block is not None]


def lines_of(blocks: list[Block]) -> list[tuple[int, bytes]]:
    """Time and text of every line, its pieces put together, and newlines kept."""
    found: list[tuple[int, bytes]] = []
    is_open = False
    for block in blocks:
        pieces = list(BytesIO(block.text))
        assert len(pieces) == len(block.times)
        for piece, time in zip(pieces, block.times, strict=True):
            if is_open:
                assert time == found[-1][0]
                found[-1] = (time, found[-1][1] + piece)
            else:
                found.append((time, piece))
            is_open = not piece.endswith(b"\n")
    return found


def chunked(text: bytes, sizes: list[int]) -> list[bytes]:
    """The text cut into chunks of these sizes, again and again."""
    chunks, start, turn = [], 0, 0
    while start < len(text):
        size = sizes[turn % len(sizes)] if sizes else len(text)
        chunks.append(text[start : start + size])
        start, turn = start + size, turn + 1
    return chunks
