"""Server-sent events: the lines of the format, the answer, the place where a cut connection goes on."""

import re
from collections.abc import AsyncIterator

from fastapi import Request
from fastapi.responses import StreamingResponse

from archiver.errors import UserError

MEDIA_TYPE = "text/event-stream"
STILL_HERE = b": still here\n\n"
_RETRY = b"retry: 2000\n\n"
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_NUMBER = re.compile(r"[0-9]{1,15}")


def event(name: str, text: str, *, id: int | None = None) -> bytes:
    """One event; a line end in the text, of whatever kind, becomes another line of data."""
    head = f"event: {name}\n" + (f"id: {id}\n" if id is not None else "")
    return (head + "".join(f"data: {line}\n" for line in _LINE_ENDS.split(text)) + "\n").encode("utf-8", "replace")


def answer(events: AsyncIterator[bytes]) -> StreamingResponse:
    """Nothing on the way may keep it or wait for more of it."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_begun(events), media_type=MEDIA_TYPE, headers=headers)


def goes_on_after(request: Request, asked: int | None) -> int | None:
    """A browser that was cut off says what it had last; else what the address says. Raises UserError."""
    last = request.headers.get("last-event-id")
    if last is None or not last.strip():
        return asked
    if not _NUMBER.fullmatch(last.strip()):
        raise UserError("Last-Event-ID is the number of the last line that arrived")
    return int(last)


async def _begun(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield _RETRY
    async for each in events:
        yield each
