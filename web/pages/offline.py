"""The page of an attempt as one file that needs no server: ``report.html`` of a bundle. Loads nothing, runs nothing."""

import re
from importlib.resources import files
from urllib.parse import urlsplit

from markupsafe import Markup

from archiver.read.bundle import paths_of
from archiver.read.views import AttemptView, JobView
from web.deps import Viewer
from web.pages import axis, links
from web.pages.environment import environment
from web.pages.job_page import job_values
from web.pages.respond import utc_now

_STYLES = ("tokens.css", "base.css", "job.css")
_LINK = re.compile(r'<a\b([^>]*?)\shref="([^"]*)"([^>]*)>(.*?)</a>', re.DOTALL)


async def report(viewer: Viewer, view: JobView, shown: AttemptView) -> bytes:
    """The answer, the timeline, the evidence. What other runs did is left out: that changes from day to day."""
    values = await job_values(viewer, view, shown, now=utc_now(), asked=axis.Asked(is_whole=True))
    page = environment().get_template("pages/offline.html").render(values | {"styles": _styles()})
    paths = paths_of(tuple(artifact.name for artifact in shown.artifacts))
    place = view.row.uid, shown.number
    files_of = {links.log(*place, name): path for name, path in paths.items()}
    files_of |= {links.raw(*place, name): path for name, path in paths.items()}
    return _within(page, files_of).encode("utf-8", "replace")


def _styles() -> Markup:
    texts = (files("web").joinpath("static", name).read_text(encoding="utf-8") for name in _STYLES)
    return Markup("\n".join(texts))  # noqa: S704 - our own files


def _within(page: str, files_of: dict[str, str]) -> str:
    """Links to evidence lead into the bundle; all others would lead nowhere, and become plain text."""

    def place(found: re.Match[str]) -> str:
        before, address, after, text = found.groups()
        known = files_of.get(urlsplit(address).path)
        if known is None:
            return text if not address.startswith("#") else found[0]
        return f'<a{before} href="{links.relative(known)}"{after}>{text}</a>'

    return _LINK.sub(place, page)
