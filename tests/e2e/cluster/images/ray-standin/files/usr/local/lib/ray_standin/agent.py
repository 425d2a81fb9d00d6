"""The agent of every node (52365): health, and the session's log folder as static files with byte ranges."""

from __future__ import annotations

import html
import re
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote

from ray_standin.session import Session
from ray_standin.wire import NOT_FOUND, Answer, Request, text

RANGE = re.compile(r"bytes=(\d+)-(\d*)")
HEALTH = "application/text; charset=utf-8"
OCTETS = "application/octet-stream"


def answer(session: Session, asked: Request) -> Answer:
    if asked.path == "/api/healthz":
        return text("raylet: success\ngcs: success" if session.is_head else "raylet: success", 200, HEALTH)
    if asked.path == "/api/local_raylet_healthz":
        return text("success", 200, HEALTH)
    if asked.path != "/logs" and not asked.path.startswith("/logs/"):
        return NOT_FOUND
    path = (session.logs / asked.path.removeprefix("/logs").strip("/")).resolve()
    if not path.is_relative_to(session.logs.resolve()) or not path.exists():
        return Answer(404, b"", OCTETS)
    return _folder(session, path) if path.is_dir() else _file(path, asked)


def _file(path: Path, asked: Request) -> Answer:
    with path.open("rb") as file:
        status = path.stat()
        start, end = 0, status.st_size
        wanted = RANGE.fullmatch(asked.headers.get("Range", ""))
        if wanted:
            start, end = int(wanted[1]), min(int(wanted[2] or end) + 1, end)
            if start >= status.st_size:
                return Answer(416, b"", OCTETS, {"Content-Range": f"bytes */{status.st_size}"})
        file.seek(start)
        found = Answer(206 if wanted else 200, file.read(end - start), OCTETS)
    found.headers = {
        "ETag": f'"{status.st_mtime_ns:x}-{status.st_size:x}"',
        "Last-Modified": formatdate(status.st_mtime, usegmt=True),
        "Accept-Ranges": "bytes",
    }
    if wanted:
        found.headers["Content-Range"] = f"bytes {start}-{end - 1}/{status.st_size}"
    return found


def _folder(session: Session, folder: Path) -> Answer:
    """The page that aiohttp makes of a folder."""
    inside = folder.relative_to(session.logs.resolve())
    title = f"Index of /{html.escape(str(inside))}"
    rows = "\n".join(
        f'<li><a href="/logs/{quote(str(inside / path.name))}">{html.escape(path.name)}{"/" * path.is_dir()}</a></li>'
        for path in sorted(folder.iterdir())
    )
    head = f"<head>\n<title>{title}</title>\n</head>"
    body = f"<body>\n<h1>{title}</h1>\n<ul>\n{rows}\n</ul>\n</body>"
    return text(f"<html>\n{head}\n{body}\n</html>", 200, "text/html; charset=utf-8")
