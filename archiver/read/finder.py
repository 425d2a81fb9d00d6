"""Searching one log: matches with their neighbours, where hits lie in the whole, the next one from a line."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing

from archiver.core.search import Hit, Matcher, Pattern, matcher
from archiver.index.queries import StoredAttempt
from archiver.ports import ObjectStore
from archiver.read import logs
from archiver.read.evidence import Evidence
from archiver.read.found import MAX_CONTEXT, MAX_MATCHES, Grep, GrepView, Marks, Match, Seek, SeekView
from archiver.read.scan import Allowance, Budget, Scans
from archiver.read.survey import Surveys
from archiver.read.text import LogText
from archiver.read.views import LogLine

GREP_SECONDS = 5.0
SEEK_SECONDS = 10.0
_TOGETHER_LINES = 200


class Finder:
    """One for all requests. Everything answers None where the attempt has no such artifact."""

    def __init__(self, store: ObjectStore, evidence: Evidence) -> None:
        self._store = store
        self._evidence = evidence
        self._surveys = Surveys()
        self.scans = Scans(store)

    async def grep(self, stored: StoredAttempt, name: str, wanted: Grep) -> GrepView | None:
        """Lists up to the limit and goes on counting. Raises UserError for a pattern that is none."""
        found = await self._evidence.open(stored, name)
        if found is None:
            return None
        view, text = found
        hits: list[Hit] = []
        count, to_line, scanned = 0, wanted.first - 1, 0
        allowance, limit = Allowance(Budget(GREP_SECONDS)), min(wanted.limit, MAX_MATCHES)
        async with aclosing(self.scans.forward(text, wanted.pattern, wanted.first)) as steps:
            async for step in steps:
                hits.extend(step.hits[: limit - len(hits)])
                count, to_line, scanned = count + len(step.hits), step.to_line, scanned + step.text_bytes
                if not allowance.take(step.text_bytes):
                    break
        is_complete = to_line >= text.total_lines
        is_listed = count <= len(hits)
        after = (to_line + 1 if not is_complete else None) if is_listed else (hits[-1].number + 1 if hits else None)
        return GrepView(
            artifact=view,
            matches=await self._matches(text, hits, wanted),
            count=count,
            first_line=wanted.first,
            to_line=to_line,
            next_line=after,
            is_complete=is_complete,
            scanned_bytes=scanned,
            total_lines=text.total_lines,
            total_bytes=text.total_bytes,
        )

    async def marks(self, stored: StoredAttempt, name: str, pattern: Pattern, budget: Budget) -> Marks | None:
        """Where the pattern is found, searched a little further than when last asked."""
        found = await self._evidence.open(stored, name)
        if found is None:
            return None
        survey = self._surveys.of((stored.key, name), found[1], pattern)
        await survey.advance(self.scans, budget)
        return survey.marks()

    async def seek(self, stored: StoredAttempt, name: str, wanted: Seek) -> SeekView | None:
        """The next hit on one side of a line."""
        found = await self._evidence.open(stored, name)
        if found is None:
            return None
        text = found[1]
        known = self._surveys.of((stored.key, name), text, wanted.pattern)
        line, is_known = known.neighbour(wanted.line, is_backward=wanted.is_backward)
        if line is not None or is_known:
            return SeekView(line, line or (1 if wanted.is_backward else text.total_lines), True)
        return await self._walk(text, wanted)

    async def _walk(self, text: LogText, wanted: Seek) -> SeekView:
        backward = self.scans.backward(text, wanted.pattern, wanted.line)
        forward = self.scans.forward(text, wanted.pattern, wanted.line + 1)
        allowance, to_line = Allowance(Budget(SEEK_SECONDS)), wanted.line
        async with aclosing(backward if wanted.is_backward else forward) as steps:
            async for step in steps:
                to_line = step.to_line
                if step.hits:
                    return SeekView(step.hits[0].number, to_line, True)
                if not allowance.take(step.text_bytes):
                    break
        is_complete = to_line <= 1 if wanted.is_backward else to_line >= text.total_lines
        return SeekView(None, to_line, is_complete)

    async def _matches(self, text: LogText, hits: list[Hit], wanted: Grep) -> tuple[Match, ...]:
        marking, context = await asyncio.to_thread(matcher, wanted.pattern), min(wanted.context, MAX_CONTEXT)
        matches: list[Match] = []
        for group in _groups(hits, context):
            plan = logs.Plan(max(1, group[0].number - context), min(text.total_lines, group[-1].number + context))
            lines, _ = await logs.read_lines(self._store, text, plan)
            by_number = {line.number: line for line in lines}
            matches.extend(_match(hit, by_number, marking, context) for hit in group)
        return tuple(matches)


def _groups(hits: list[Hit], context: int) -> Iterator[list[Hit]]:
    """Hits whose surroundings are read together: those that lie close, and no long lines with others."""
    group: list[Hit] = []
    for hit in hits:
        is_apart = group and (hit.number - group[0].number > _TOGETHER_LINES + context or hit.is_cut)
        if is_apart or (group and group[-1].is_cut):
            yield group
            group = []
        group.append(hit)
    if group:
        yield group


def _match(hit: Hit, lines: dict[int, LogLine], marking: Matcher, context: int) -> Match:
    known = lines.get(hit.number)
    time_ns = known.time_ns if known else None
    line = LogLine(hit.number, hit.offset, hit.excerpt, time_ns, cut=hit.is_cut)
    around = [lines[number] for number in range(hit.number - context, hit.number + context + 1) if number in lines]
    return Match(
        line,
        tuple(marking.spans(hit.excerpt)),
        tuple(shorter(each) for each in around if each.number < hit.number),
        tuple(shorter(each) for each in around if each.number > hit.number),
    )


def shorter(line: LogLine) -> LogLine:
    """A neighbour as far as it is worth reading."""
    if len(line.data) <= logs.EXCERPT_BYTES:
        return line
    return LogLine(line.number, line.offset_bytes, line.data[: logs.EXCERPT_BYTES], line.time_ns, cut=True)
