"""What the rules find in logs and facts: signals and traces, bounded in number. Not which of them is the cause."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as attribute

from archiver.diagnosis.evidence import Evidence, LogSource
from archiver.diagnosis.facts import Fact
from archiver.diagnosis.lines import Line, blocks, clean, clean_all, window
from archiver.diagnosis.ruleset import FactMatch, Role, Rule, Ruleset, matched, without_hints
from archiver.diagnosis.traceback import Trace, TraceReader, is_start

FIRST_SIGNALS = 25
LAST_SIGNALS = 5
TRACES_PER_SOURCE = 300
TEXT_FACTS_LIMIT = 400
PROGRESS_BYTES = 16_384
CITED_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Signal:
    """One hit of one rule. `object` and `field` are set for structured facts; `line` is 1-based in `source`."""

    rule: Rule
    source: str
    line: int
    text: str
    time: float | None = None
    who: str = ""
    object: str = ""
    field: str = ""
    captures: Mapping[str, str] = attribute(default_factory=dict)
    is_fact: bool = False
    level: str = ""
    row: int = 0

    @property
    def place_key(self) -> tuple[str, str, str]:
        """What tells the text apart that it stands in: a log by its name, a field by its object too."""
        return (self.source, self.object, self.field)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text comes from: a log, or the field of an object."""

    source: str
    kind: str
    object: str = ""
    field: str = ""
    line: int = 0
    time: float | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """The same as a signal's `place_key`."""
        return (self.source, self.object, self.field)


@dataclass(frozen=True, slots=True)
class Found:
    """Everything observed. `lines` counts the lines of each source; `counts` the hits of each rule."""

    signals: tuple[Signal, ...]
    traces: tuple[tuple[Place, Trace], ...]
    lines: Mapping[str, int]
    counts: Mapping[str, int]
    last_times: Mapping[str, float]


def observe(evidence: Evidence, facts: Iterable[Fact], ruleset: Ruleset) -> Found:
    """Run all rules over all facts and all logs."""
    sink = _Sink(ruleset)
    for fact in facts:
        sink.take_fact(fact)
    for place, source in _texts(evidence, facts):
        _SourceReader(place, sink).read(source)
    return sink.found()


def _texts(evidence: Evidence, facts: Iterable[Fact]) -> Iterator[tuple[Place, LogSource]]:
    for name, log in evidence.logs.items():
        yield Place(name, source_kind(name)), log
    worded = [fact for fact in facts if fact.text and (fact.kind in _WORDED or "message" in fact.field)]
    for fact in worded[:TEXT_FACTS_LIMIT]:
        kind = "event" if fact.kind.startswith("event") else fact.kind
        place = Place(fact.source, kind, fact.object, fact.field, fact.line, fact.time)
        yield place, LogSource.from_text(fact.text)


_WORDED = frozenset(
    [
        *("event", "event-normal", "task", "actor", "worker", "raynode", "ray-event", "pod", "container"),
        *("init-container", "pod-condition", "cluster-condition", "node", "workload"),
    ]
)

_KINDS = (
    ("runtime_env", "agent"), ("dashboard_agent", "agent"), ("dashboard", "dashboard"), ("python-core-driver", "core"),
    ("python-core", "core"), ("job-driver", "driver"), ("submit", "submitter"), ("driver", "driver"), ("worker", "worker"),
    ("raylet", "raylet"), ("gcs", "gcs"), ("monitor", "autoscaler"), ("autoscaler", "autoscaler"), ("agent", "agent"),
    ("kernel", "kernel"), ("dmesg", "kernel"), ("syslog", "kernel"), ("journal", "kernel"), ("operator", "operator"),
    ("describe", "kubectl"), ("kubectl", "kubectl"), ("shell", "shell"), ("client", "shell"), ("kubelet", "kubelet"),
)  # fmt: skip


_ARCHIVED = re.compile(r"(driver|submitter|head|worker|autoscaler|init)(?:-.+\.\d+|(?:-\d+)?)\.log$")
_ARCHIVED_KINDS = frozenset({"driver", "submitter", "worker", "autoscaler"})


def source_kind(name: str) -> str:
    """The kind of a log by its name; `other` for an unknown one."""
    lowered = name.lower()
    # an archived log: what it is stands first, and the pod's name behind it may hold any word
    if archived := _ARCHIVED.match(lowered):
        return archived[1] if archived[1] in _ARCHIVED_KINDS else "other"
    lowered = lowered.rpartition("/")[2]
    return next((kind for part, kind in _KINDS if part in lowered), "other")


class _Sink:
    """Keeps the first and the last hits of each rule in each source."""

    def __init__(self, ruleset: Ruleset) -> None:
        self.ruleset = ruleset
        self._first: dict[tuple[str, str], list[Signal]] = {}
        self._last: dict[tuple[str, str], list[Signal]] = {}
        self._traces: list[tuple[Place, Trace]] = []
        self._lines: dict[str, int] = {}
        self._times: dict[str, float] = {}
        self._counts: Counter[str] = Counter()
        self._fact_rules = [rule for rule in ruleset.rules if rule.facts]

    def take_fact(self, fact: Fact) -> None:
        """Match one fact against all rules for facts."""
        for rule in self._fact_rules:
            if fact_hits(rule, fact):
                self.add(
                    Signal(
                        rule,
                        fact.source,
                        fact.line,
                        fact.text[:CITED_CHARS],
                        fact.time,
                        fact.role,
                        fact.object,
                        fact.field,
                        {"object": fact.object, "node": fact.object},
                        is_fact=True,
                    )
                )

    def add(self, signal: Signal) -> None:
        """Keep a signal, or only count it where there are many of its rule already."""
        self._counts[signal.rule.id] += 1
        key = (signal.rule.id, signal.source)
        first = self._first.setdefault(key, [])
        if len(first) < FIRST_SIGNALS:
            first.append(signal)
            return
        last = self._last.setdefault(key, [])
        last.append(signal)
        del last[:-LAST_SIGNALS]

    def add_trace(self, place: Place, trace: Trace) -> None:
        """Keep a traceback."""
        self._traces.append((place, trace))

    def end(self, source: str, lines: int, time: float | None) -> None:
        """Note a source's length and its last time."""
        self._lines[source] = lines
        if time is not None:
            self._times[source] = time

    def found(self) -> Found:
        """All that was kept."""
        kept = [signal for part in (self._first, self._last) for signals in part.values() for signal in signals]
        return Found(tuple(kept), tuple(self._traces), self._lines, dict(self._counts), self._times)


def fact_hits(rule: Rule, fact: Fact) -> bool:
    """Whether one of a rule's conditions holds of a fact, and none of its exclusions does."""
    if not any(fact_matches(condition, fact) for condition in rule.facts):
        return False
    return not any(exclusion.search(fact.text) for exclusion in rule.unless)


def fact_matches(condition: FactMatch, fact: Fact) -> bool:
    """Whether every field that a condition names has its pattern."""
    return all(pattern.search(getattr(fact, name)) for name, pattern in condition.conditions)


def frames_hit(rule: Rule, trace: Trace) -> bool:
    """Whether a traceback's root fits a rule for frames: raised in that library, with an exception of that kind."""
    depth = next((at for at, frame in enumerate(reversed(trace.root.frames)) if frame.is_app), len(trace.root.frames))
    of_library = trace.root.frames[len(trace.root.frames) - depth :]
    is_there = any(
        pattern.search(f"{frame.file}, in {frame.function}") for pattern in rule.frames for frame in of_library
    )
    return is_there and matched(rule, trace.root.headline) is not None


class _SourceReader:
    """One pass over one source."""

    def __init__(self, place: Place, sink: _Sink) -> None:
        self._place = place
        self._sink = sink
        self._ruleset = sink.ruleset
        self._tracer = TraceReader()
        self._traces = 0
        self._has_fault = False
        self._line = 1
        self._time: float | None = place.time

    def read(self, source: LogSource) -> None:
        """Scan all of it; memory is bounded by a block."""
        for block in blocks(source.chunks()):
            self._read_block(block)
        for trace in self._tracer.flush():
            self._keep(trace)
        if not self._place.object:
            self._sink.end(self._place.source, self._line, self._time)

    def _read_block(self, block: bytes) -> None:
        hits = self._hit_lines(block)
        position, number = 0, self._line
        skip_traces = self._traces >= TRACES_PER_SOURCE
        for start in sorted(hits):
            if self._tracer.is_open:
                position, number = self._feed_until(block, position, number, start)
            number += block.count(b"\n", position, start)
            end = _line_end(block, start)
            self._hit_line(block, (start, end), number, hits[start], skip_traces)
            position, number = min(end + 1, len(block)), number + (1 if end < len(block) else 0)
        if self._tracer.is_open:
            position, number = self._feed_until(block, position, number, len(block))
        self._line = number + block.count(b"\n", position)
        if self._has_fault:
            self._look_for_progress(block, max(hits, default=0))

    def _look_for_progress(self, block: bytes, start: int) -> None:
        """Progress only matters after a fault, so only a stretch behind the block's last hit is searched."""
        first = self._line - block.count(b"\n", start)
        lines = block[start : start + PROGRESS_BYTES].split(b"\n")
        for number, raw in enumerate(lines[1:], first + 1):
            line = clean(raw[:400])
            for rule in self._ruleset.progress:
                self._match(rule, line, line.text, number)

    def _hit_lines(self, block: bytes) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = {}
        for pattern, end in self._ruleset.scanner.scan(block):
            found.setdefault(block.rfind(b"\n", 0, max(end - 1, 0)) + 1, []).append((pattern, end))
        return found

    def _hit_line(
        self, block: bytes, span: tuple[int, int], number: int, hits: list[tuple[int, int]], skip_traces: bool
    ) -> None:
        start, end = span
        rules = dict.fromkeys(self._ruleset.scanned[pattern] for pattern, _end in hits)
        for line in clean_all(window(block, start, end, hits[0][1])):
            if line.time is not None:
                self._time = line.time
            if self._tracer.is_open or (not skip_traces and is_start(line.text)):
                self._feed(number, line)
            held = [rule for rule in rules if matched(rule, line.text)]
            text = without_hints(self._ruleset.hints, line.text) if held else ""
            for rule in held:
                self._match(rule, line, text, number)

    def _feed_until(self, block: bytes, position: int, number: int, stop: int) -> tuple[int, int]:
        while position < stop and self._tracer.is_open:
            end = _line_end(block, position)
            self._feed(number, clean(block[position : min(end, position + 4096)]))
            position, number = min(end + 1, len(block)), number + (1 if end < len(block) else 0)
        return position, number

    def _feed(self, number: int, line: Line) -> None:
        for trace in self._tracer.feed(number, line):
            self._keep(trace)

    def _keep(self, trace: Trace) -> None:
        self._traces += 1
        self._sink.add_trace(self._place, trace)

    def _match(self, rule: Rule, line: Line, text: str, number: int) -> None:
        if rule.sources and self._place.kind not in rule.sources:
            return
        found = matched(rule, text)
        if found is None:
            return
        self._has_fault = self._has_fault or rule.role is Role.ROOT
        captures = {key: value for key, value in found.groupdict().items() if value}
        time = line.time if line.time is not None else self._time
        place = self._place
        self._sink.add(
            Signal(
                rule,
                place.source,
                place.line if place.object and place.line else number,
                cut(line.text, found.start()),
                time,
                line.who,
                place.object,
                place.field,
                captures,
                False,
                _level(line.text) if rule.role is Role.ROOT else "",
                number,
            )
        )


def _line_end(block: bytes, start: int) -> int:
    end = block.find(b"\n", start)
    return len(block) if end < 0 else end


def cut(text: str, at: int) -> str:
    """At most the cited length of a line, around the place of the match."""
    if len(text) <= CITED_CHARS:
        return text.strip()
    start = max(0, at - CITED_CHARS // 3)
    return text[start : start + CITED_CHARS].strip()


_LEVEL = re.compile(
    r"(?<!NCCL)[\s\[](DEBUG|INFO|WARN(?:ING)?)\b|,\d{3} ([DIW]) \d+ \d+\]|^(?:\S+ )?([IW])\d{4} \d\d:\d\d:"
)
_LETTERS = {"D": "DEBUG", "I": "INFO", "W": "WARNING"}


def _level(text: str) -> str:
    """The level that a line says of itself where it is below an error: Python's, Ray's C++ or glog's way."""
    found = _LEVEL.search(text[:120])
    word = next((group for group in found.groups() if group), "") if found else ""
    return _LETTERS.get(word, word)
