"""A Ray node's agent (port 52365): the session's log folder as static files, with ranges. Nothing is run here."""

import html
import re
from email.utils import formatdate
from urllib.parse import quote, unquote

from aiohttp import web

from archiver.sandbox.raynode import LogFileOnNode, RayNode

_RANGE = re.compile(r"^bytes=(\d*)-(\d*)$")
_CHUNK_BYTES = 256 * 1024


async def answer(node: RayNode, request: web.BaseRequest, path: str) -> web.StreamResponse:
    if path in ("/api/healthz", "/api/local_raylet_healthz"):
        return web.Response(text="success")
    if path == "/logs":
        return web.Response(status=302, headers={"Location": "/logs/"})
    if not path.startswith("/logs/"):
        return web.Response(status=404, text="404: Not Found")
    name = unquote(path.removeprefix("/logs/"))
    file = node.files.get(name)
    if file is not None:
        return await _file_answer(file, request)
    listing = _folder_html(node, name.strip("/"))
    if listing is None:
        return web.Response(status=404, text="404: Not Found")
    return web.Response(text=listing, content_type="text/html")


async def _file_answer(file: LogFileOnNode, request: web.BaseRequest) -> web.StreamResponse:
    size = len(file.data)
    start, end, status = _chosen(request.headers.get("Range", ""), size)
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": f'"{int(file.changed_at * 1e9):x}-{size:x}"',
        "Last-Modified": formatdate(file.changed_at, usegmt=True),
    }
    if status == 416:
        return web.Response(status=416, headers={**headers, "Content-Range": f"bytes */{size}"})
    if status == 206:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    response = web.StreamResponse(status=status, headers=headers)
    response.content_type = "text/plain"
    response.content_length = end - start
    await response.prepare(request)
    if request.method != "HEAD":
        # copied piece by piece: the file may grow meanwhile, and what was promised is what is sent
        for at in range(start, end, _CHUNK_BYTES):
            await response.write(bytes(file.data[at : min(at + _CHUNK_BYTES, end)]))
    await response.write_eof()
    return response


def _chosen(text: str, size: int) -> tuple[int, int, int]:
    """First byte, byte behind the last, status."""
    match = _RANGE.match(text.strip())
    if match is None or match.groups() == ("", ""):
        return (0, size, 416) if text else (0, size, 200)
    if not match[1]:
        return max(0, size - int(match[2])), size, 206 if size else 416
    start = int(match[1])
    end = min(int(match[2]) + 1, size) if match[2] else size
    return (start, end, 206) if start < end else (0, 0, 416)


def _folder_html(node: RayNode, folder: str) -> str | None:
    """The index page as aiohttp's static resource writes it; None where there is no such folder."""
    prefix = f"{folder}/" if folder else ""
    names = sorted({name.removeprefix(prefix).partition("/") for name in node.files if name.startswith(prefix)})
    entries = sorted({(first, bool(slash)) for first, slash, _ in names})
    if not entries and folder:
        return None
    rows = "\n".join(
        f'<li><a href="/logs/{quote(prefix + name)}">{html.escape(name)}{"/" if is_folder else ""}</a></li>'
        for name, is_folder in entries
    )
    title = f"Index of /{html.escape(folder or '.')}"
    return (
        f"<html>\n<head>\n<title>{title}</title>\n</head>\n"
        f"<body>\n<h1>{title}</h1>\n<ul>\n{rows}\n</ul>\n</body>\n</html>"
    )
