"""The page that searches the logs of many RayJobs: its address as a value, what it says, and results as they come."""

import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime

from markupsafe import Markup

from archiver.core.search import MAX_PATTERN_CHARS, Pattern, matcher
from archiver.errors import UserError
from archiver.read.scan import Budget
from archiver.read.search import (
    SearchBounds,
    SearchEnd,
    SearchEvent,
    SearchHits,
    SearchProgress,
    SearchRequest,
    SearchSize,
)
from web import sse
from web.deps import Viewer
from web.pages import links, marks, query, words
from web.pages.environment import environment
from web.pages.query import BadQuery, ListQuery

# what a page searches before it is sent, what one that goes on without script does, and what a stream does
PAGE = SearchBounds(Budget(0.2), hits=100)
PATIENT = SearchBounds(Budget(5.0), hits=200)
STREAM = SearchBounds(Budget(120.0, 64 * 1024**3), hits=2_000)


@dataclass(frozen=True, slots=True)
class SearchAddress:
    """What is searched for, and which RayJobs' logs; ``jobs`` is the list's own question, all ends by default."""

    jobs: ListQuery
    text: str = ""
    regex: bool = False
    case: bool = False
    token: str = ""

    @property
    def pattern(self) -> Pattern | None:
        return Pattern(self.text, self.regex, self.case) if self.text else None

    def params(self) -> dict[str, str | list[str]]:
        flags = {name: "1" for name, is_set in (("regex", self.regex), ("case", self.case)) if is_set}
        narrowed = {name: value for name, value in self.jobs.params().items() if name not in ("q", "page_token")}
        return {"q": self.text, **flags, **narrowed, "page_token": self.token}

    def href(self, path: str = "/search") -> str:
        return links.with_query(path, self.params())

    def request(self, now: datetime, bounds: SearchBounds) -> SearchRequest | None:
        """None where nothing is searched for. Raises BadQuery."""
        if self.pattern is None:
            return None
        return SearchRequest(self.pattern, self.jobs.filter(now), self.token or None, bounds)


@dataclass(frozen=True, slots=True)
class FoundLine:
    number: int
    markup: Markup
    href: str


@dataclass(frozen=True, slots=True)
class FoundLog:
    """Lines of one log. ``more`` leads to all of them, where there may be more."""

    uid: str
    job: str
    namespace: str
    job_href: str
    number: int
    artifact: str
    href: str
    lines: tuple[FoundLine, ...]
    more: str


def parse(pairs: Mapping[str, list[str]], now: datetime) -> SearchAddress:
    """Reads the address. Times become absolute, so that going on asks the same question. Raises BadQuery."""

    def first(name: str) -> str:
        return next(iter(pairs.get(name, [])), "")

    text = first("q")
    if len(text) > MAX_PATTERN_CHARS:
        raise BadQuery(f"what is searched for has at most {MAX_PATTERN_CHARS} characters")
    kept = {name: values for name, values in pairs.items() if name not in ("q", "page_token")}
    jobs = query.parse({**kept, "status": [each for each in pairs.get("status", []) if each] or [query.ALL]})
    if text:
        jobs = replace(jobs.at(None, now), token="")
    return SearchAddress(jobs, text, first("regex") == "1", first("case") == "1", first("page_token"))


async def values(viewer: Viewer, address: SearchAddress, now: datetime) -> dict[str, object]:
    """What there is to read, and the first results."""
    size = await viewer.reader.search_size(viewer.scope, address.jobs.filter(now))
    request = address.request(now, PATIENT if address.token else PAGE)
    found, end = await _first(viewer, request, address) if request else ([], None)
    go_on = replace(address, token=end.next_token).href() if end and end.next_token else ""
    stream = replace(address, token=end.next_token).href("/search/stream") if end and end.next_token else ""
    return {
        "page": "search",
        "address": address,
        "chosen": {name: ", ".join(address.jobs.chosen(name)) for name in query.FIELDS},
        "size_words": size_words(size),
        "found": found,
        "said": progress_words(end.progress, is_over=not go_on) if end else "",
        "nothing": bool(end and not found and not go_on),
        "go_on": go_on,
        "stream": stream,
        "commands": (_command(address),) if address.text else (),
    }


async def _first(
    viewer: Viewer, request: SearchRequest, address: SearchAddress
) -> tuple[list[FoundLog], SearchEnd | None]:
    found: list[FoundLog] = []
    async with aclosing(viewer.reader.search(viewer.scope, request)) as events:
        async for event in events:
            if isinstance(event, SearchHits):
                found.append(found_log(event, address))
            elif isinstance(event, SearchEnd):
                return found, event
    return found, None


async def stream(events: AsyncGenerator[SearchEvent, None], address: SearchAddress) -> AsyncIterator[bytes]:
    """The rest of the results, for the page's script."""
    template = environment().get_template("partials/found_log.html")
    async with aclosing(events):
        async for event in events:
            if isinstance(event, SearchHits):
                yield sse.event("hits", template.render(log=found_log(event, address)))
            elif isinstance(event, SearchProgress):
                yield sse.event("progress", progress_words(event, is_over=False))
            else:
                go_on = replace(address, token=event.next_token).href() if event.next_token else ""
                yield sse.event("go-on", go_on)
                yield sse.event("end", progress_words(event.progress, is_over=not go_on))


def found_log(hits: SearchHits, address: SearchAddress) -> FoundLog:
    """One log's lines, with links into it that search it for the same."""
    asked: dict[str, str | int | None] = {
        "q": address.text,
        "regex": "1" if address.regex else None,
        "case": "1" if address.case else None,
    }
    path = links.log(hits.job.uid, hits.number, hits.artifact)

    def href(line: int | None = None) -> str:
        return links.with_query(path, {"line": line, **asked}) + (f"#L{line}" if line else "")

    marking = matcher(address.pattern) if address.pattern else None
    lines = tuple(
        FoundLine(
            match.line.number,
            marks.line_markup(match.line.data, marking=marking.spans if marking else None).markup,
            href(match.line.number),
        )
        for match in hits.matches
    )
    return FoundLog(
        uid=hits.job.uid,
        job=hits.job.name,
        namespace=hits.job.namespace,
        job_href=links.job(hits.job.uid),
        number=hits.number,
        artifact=hits.artifact,
        href=href(),
        lines=lines,
        more=href(lines[-1].number) if hits.has_more and lines else "",
    )


def size_words(size: SearchSize) -> str:
    """What a search will read, before it does."""
    if not size.logs:
        return "No archived log fits: there is nothing to read."
    read = f"{words.size(size.raw_bytes)} in {words.plural(size.logs, 'log')} of {words.plural(size.jobs, 'RayJob')}"
    return f"This reads the newest first: more than {read}." if size.is_capped else f"This reads {read}."


def progress_words(progress: SearchProgress, *, is_over: bool) -> str:
    said = f"{words.plural(progress.hits, 'line')} found, {words.size(progress.scanned_bytes)} of text searched"
    if progress.unreadable:
        said += f"; {words.plural(progress.unreadable, 'log')} could not be read"
    return f"{said}. That is all." if is_over else f"{said} so far."


def _command(address: SearchAddress) -> str:
    flags = (" --regex" if address.regex else "") + (" --case" if address.case else "")
    names = (("--team", "team"), ("--namespace", "namespace"), ("--cause", "cause"))
    chosen = "".join(f" {flag} {shlex.quote(value)}" for flag, name in names for value in address.jobs.chosen(name))
    since = f" --since {shlex.quote(address.jobs.since)}" if address.jobs.since else ""
    return f"archiver search {shlex.quote(address.text)}{flags}{chosen}{since}"


def check(request: SearchRequest | None) -> SearchRequest:
    """Raises UserError where nothing is searched for."""
    if request is None:
        raise UserError("there is nothing to search for: give a text or a regular expression")
    return request
