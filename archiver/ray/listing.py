"""The folder page that a node agent serves below ``/logs/`` (aiohttp's static index), as names. Not HTML in general.

Ray 2.46, 2.52 and 2.60 answer with ``<li><a href="/logs/events">events/</a></li>``: a folder's text ends in a slash.
"""

import html
import re
from dataclasses import dataclass
from urllib.parse import unquote

# the API server's proxy puts its own path before every link of a page
_LINK = re.compile(rb'<a href="(?:/api/v1/[^"]*?/proxy)?/logs/([^"]*)">([^<]*)</a>')


@dataclass(frozen=True, slots=True)
class Listing:
    """Paths below the log folder."""

    files: tuple[str, ...]
    folders: tuple[str, ...]


def parse_listing(page: bytes) -> Listing:
    """Names on one page; what is no link below ``/logs/`` is passed over. Only a link's text tells a folder."""
    found = {(_plain(path), text.endswith(b"/")) for path, text in _LINK.findall(page)}
    inside = sorted((path, is_folder) for path, is_folder in found if path and ".." not in path.split("/"))
    return Listing(
        files=tuple(path for path, is_folder in inside if not is_folder),
        folders=tuple(path.rstrip("/") + "/" for path, is_folder in inside if is_folder),
    )


def _plain(path: bytes) -> str:
    return unquote(html.unescape(path.decode("utf-8", "replace")))
