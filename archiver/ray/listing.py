"""The folder page that a node agent serves below ``/logs/`` (aiohttp's static index), as names. Not HTML in general.

Source: Ray 2.46, 2.52 and 2.60 answer with ``<li><a href="/logs/raylet.out">raylet.out</a></li>``; a folder ends in a slash.
"""

import html
import re
from dataclasses import dataclass
from urllib.parse import unquote

_LINK = re.compile(rb'<a href="(/logs/[^"]*)">')
_PREFIX = "/logs/"


@dataclass(frozen=True, slots=True)
class Listing:
    """Paths below the log folder."""

    files: tuple[str, ...]
    folders: tuple[str, ...]


def parse_listing(page: bytes) -> Listing:
    """Names on one folder page; anything that is no link below ``/logs/`` is passed over."""
    paths = [unquote(html.unescape(match.decode("utf-8", "replace"))) for match in _LINK.findall(page)]
    below = sorted({path.removeprefix(_PREFIX) for path in paths} - {""})
    return Listing(
        files=tuple(path for path in below if not path.endswith("/") and ".." not in path),
        folders=tuple(path for path in below if path.endswith("/") and ".." not in path),
    )
