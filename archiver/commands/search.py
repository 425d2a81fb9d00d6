"""``archiver search``: lines in the archived logs of many RayJobs, as they are found."""

from contextlib import aclosing

import click

from archiver.commands import output
from archiver.commands.doors import Doors
from archiver.commands.exits import EPILOG, INCOMPLETE, NOT_FOUND, OK, run
from archiver.commands.selection import EVERYTHING, parse_moment, utc_now
from archiver.core.ansi import plain
from archiver.core.search import Pattern
from archiver.read.scan import Budget
from archiver.read.search import SearchBounds, SearchEnd, SearchHits, SearchRequest
from archiver.read.views import JobFilter


@click.command("search", epilog=EPILOG)
@click.argument("text")
@click.option("-E", "--regex", is_flag=True, help="TEXT is a regular expression.")
@click.option("--case", is_flag=True, help="Capitals and small letters differ.")
@click.option("-n", "--namespace", "namespaces", multiple=True, help="Only these namespaces; may be repeated.")
@click.option("--cluster", "clusters", multiple=True, help="Only these Kubernetes clusters.")
@click.option("--team", "teams", multiple=True, help="Only these teams.")
@click.option("--status", "statuses", multiple=True, help="Only these ends: failed, succeeded, running …")
@click.option("--cause", "causes", multiple=True, help="Only these causes, as `missing-module`.")
@click.option("--since", help="Ended at this time or later: 24h, 7d or 2026-08-19T03:00:00Z.")
@click.option("--until", help="Ended before this time.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=500, show_default=True, help="At most so many lines.")
@click.option("--seconds", type=click.FloatRange(0), default=300.0, show_default=True, help="At most so long.")
@click.option(
    "-o", "--output", "form", type=click.Choice(["text", "json"]), default="text", help="json: one log a line."
)
@click.pass_obj
def search_command(doors: Doors, /, text: str, regex: bool, case: bool, **asked: object) -> None:
    """Search TEXT in the archived logs of many RayJobs, the newest first."""
    run(_search(doors, Pattern(text, regex, case), asked))


async def _search(doors: Doors, pattern: Pattern, asked: dict[str, object]) -> int:
    now, form = utc_now(), asked.pop("form")
    bounds = SearchBounds(Budget(float(str(asked.pop("seconds")))), hits=int(str(asked.pop("limit"))))
    moments = {name: parse_moment(_word(asked.pop(name)), now) for name in ("since", "until")}
    wanted = JobFilter(**asked, **moments)  # type: ignore[arg-type]
    async with doors.open_reader() as reader:
        size = await reader.search_size(EVERYTHING, wanted)
        output.note(
            f"searching {'at least ' if size.is_capped else ''}{output.size(size.raw_bytes)} in {size.logs} logs"
        )
        async with aclosing(reader.search(EVERYTHING, SearchRequest(pattern, wanted, bounds=bounds))) as events:
            async for event in events:
                if isinstance(event, SearchHits):
                    output.echo(_printed(event, is_json=form == "json"))
                elif isinstance(event, SearchEnd):
                    return _ended(event)
    return OK


def _ended(end: SearchEnd) -> int:
    progress = end.progress
    said = f"{progress.hits} lines in {progress.logs} logs, {output.size(progress.scanned_bytes)} read"
    unread = f"; {progress.unreadable} logs could not be read" if progress.unreadable else ""
    output.note(
        said + unread + ("; stopped before the end: narrow it down, or raise --limit" if end.next_token else "")
    )
    if end.next_token or progress.unreadable:
        return INCOMPLETE
    return OK if progress.hits else NOT_FOUND


def _printed(hits: SearchHits, *, is_json: bool) -> str:
    if is_json:
        document = {"uid": hits.job.uid, "namespace": hits.job.namespace, "name": hits.job.name}
        lines = [{"line": match.line.number, "text": match.line.text} for match in hits.matches]
        return output.json_line(
            {**document, "attempt": hits.number, "artifact": hits.artifact, "lines": lines, "has_more": hits.has_more}
        )
    place = f"{hits.job.namespace}/{hits.job.name} attempt {hits.number} {hits.artifact}"
    lines_of_text = "".join(f"{place}:{match.line.number}: {plain(match.line.text)}\n" for match in hits.matches)
    return lines_of_text + (f"{place}: … and more\n" if hits.has_more else "")


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None
