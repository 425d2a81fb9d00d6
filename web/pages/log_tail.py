"""What is written while a log page is open, as events with the same lines that the page itself would have."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from archiver.read.follow import TailPart
from archiver.read.views import LogLine, LogWindow
from web import sse
from web.pages.environment import environment
from web.pages.log import LogAddress, LogQuery
from web.pages.log_lines import Eyes, lines

_OPEN_LINE = "open-line"  # "open" is the browser's own


async def tail_events(
    parts: AsyncGenerator[TailPart, None], address: LogAddress, query: LogQuery
) -> AsyncIterator[bytes]:
    """``lines`` carry the number of their last line as id, so that a cut connection goes on behind it."""
    eyes = Eyes.of(query, ())
    async with aclosing(parts):
        async for part in parts:
            if part.is_last:
                yield sse.event("end", _end_words(part))
            elif part.lines:
                yield sse.event("lines", _rows(part, part.lines, address, query, eyes), id=part.lines[-1].number)
            elif part.open_line:
                yield sse.event(_OPEN_LINE, _rows(part, (part.open_line,), address, query, eyes))
            else:
                yield sse.STILL_HERE


def _rows(part: TailPart, found: tuple[LogLine, ...], address: LogAddress, query: LogQuery, eyes: Eyes) -> str:
    window = LogWindow(part.artifact, found, part.gaps, part.artifact.lines, part.artifact.raw_bytes, None, None)
    template = environment().get_template("partials/log_lines.html")
    row = template.module.row  # type: ignore[attr-defined]
    return "".join(row(line, (address.artifact,)) for line in lines(address, query, window, eyes))


def _end_words(part: TailPart) -> str:
    reason = f": {part.artifact.reason}" if part.artifact.reason else ""
    return f"The log has ended and is archived, {part.artifact.completeness.value}{reason}."
