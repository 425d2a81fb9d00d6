"""What is wrong with what a scenario left behind, in sentences. Pure; an empty list is a passed scenario."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatch

from tests.e2e.scenarios.kube import Document
from tests.e2e.scenarios.play import Played
from tests.e2e.scenarios.scenario import Expected
from tests.e2e.scenarios.truth import without_rays_lines

SHOWN_BYTES = 60
# Ray's own session logs and state are read in the second or two that are left after the job's end, the most telling first.
BEST_EFFORT = ("logs/ray/*", "ray/*")


def missing(played: Played) -> list[str]:
    """What is not archived as it should be."""
    scenario, attempts = played.scenario, played.attempts
    found = list(_of_jobs(played))
    if len(attempts) != len(scenario.expected):
        ended = [attempt["status"] for attempt in attempts]
        found.append(f"{len(attempts)} attempts are archived ({', '.join(ended)}), not {len(scenario.expected)}")
    return found + _of_attempts(played, _kept)


def misjudged(played: Played) -> list[str]:
    """What is shown as another cause than those that the scenario calls right."""
    return _of_attempts(played, lambda _, attempt, expected: _verdict(attempt, expected))


def _of_attempts(played: Played, check: Callable[[Played, Document, Expected], Iterator[str]]) -> list[str]:
    pairs = enumerate(zip(played.attempts, played.scenario.expected, strict=False), 1)
    return [
        f"attempt {number}: {problem}"
        for number, (attempt, expected) in pairs
        for problem in check(played, attempt, expected)
    ]


def _kept(played: Played, attempt: Document, expected: Expected) -> Iterator[str]:
    yield from _ending(attempt, expected)
    yield from _artifacts(attempt, expected)
    yield from _driver(played, attempt, expected)
    yield from _use(attempt, expected)
    yield from _events(played, attempt, expected)


def _of_jobs(played: Played) -> Iterator[str]:
    """Each RayJob object once in the list, each event once in its attempt."""
    uids = [job["row"]["uid"] for job in played.jobs]
    if len(uids) != played.scenario.jobs:
        yield f"{len(uids)} RayJobs of this name are archived, not {played.scenario.jobs}"
    listed = Counter(row["uid"] for row in played.rows)
    if listed != Counter(uids):
        yield f"the list shows {dict(listed)}, the RayJobs are {uids}"
    for place, events in played.events.items():
        twice = [uid for uid, count in Counter(event["uid"] for event in events).items() if count > 1]
        if twice:
            yield f"events {twice} are shown twice in {place}"


def _ending(attempt: Document, expected: Expected) -> Iterator[str]:
    outcome = attempt["outcome"]
    if outcome["ended_as"] != expected.ended_as:
        yield f"ended as {outcome['ended_as']}, not as {expected.ended_as}"
    if expected.exit_code is not None and outcome["driver_exit_code"] != expected.exit_code:
        yield f"the driver's exit code is {outcome['driver_exit_code']}, not {expected.exit_code}"
    if expected.reason and outcome["reason"] != expected.reason:
        yield f"the reason is {outcome['reason']!r}, not {expected.reason!r}"
    if expected.margin_known and attempt["margin_seconds"] is None:
        yield "the margin between safe and deleted is not known"


def _verdict(attempt: Document, expected: Expected) -> Iterator[str]:
    verdict = attempt["verdict"]
    cause = verdict["brief"]["cause"]
    if cause not in expected.causes:
        certainty = verdict["brief"]["confidence"]
        yield f"the verdict is {cause} ({certainty:.2f}: {verdict['summary'][:120]}), not {' or '.join(expected.causes)}"
    if expected.line and not any(expected.line in citation["text"] for citation in verdict["evidence"]):
        cited = [citation["text"][:80] for citation in verdict["evidence"]]
        yield f"the evidence cites {cited}, not {expected.line!r}"


def _artifacts(attempt: Document, expected: Expected) -> Iterator[str]:
    """What is there is complete, or may be partial and says why; what must be there is; nothing is there twice."""
    artifacts = attempt["artifacts"]
    names = Counter(artifact["name"] for artifact in artifacts)
    yield from (f"{name} is archived {count} times" for name, count in names.items() if count > 1)
    for pattern in expected.artifacts:
        if not any(fnmatch(name, pattern) for name in names):
            yield f"there is no {pattern} among {sorted(names)}"
    for artifact in artifacts:
        if artifact["completeness"] == "complete":
            continue
        what = f"{artifact['name']} is {artifact['completeness']} ({artifact['reason']}; {_gaps(artifact)})"
        if not any(fnmatch(artifact["name"], pattern) for pattern in (*BEST_EFFORT, *expected.partial)):
            yield what
        elif not artifact["reason"]:
            yield f"{what}: it does not say why"


def _gaps(artifact: Document) -> str:
    return (
        "; ".join(f"{gap['reason']} at line {gap['at_line']}: {gap['detail']}" for gap in artifact["gaps"]) or "no gap"
    )


def _driver(played: Played, attempt: Document, expected: Expected) -> Iterator[str]:
    key = attempt["ray_cluster"] or ""
    truth, archived = played.truths.get(key), without_rays_lines(played.drivers.get(key, b""))
    if expected.driver == "none":
        if truth is not None:
            yield f"a driver ran: {truth!r}"
    elif truth is None:
        yield "the driver never ran"
    elif len(truth) < expected.min_driver_bytes:
        yield f"the driver wrote only {len(truth)} bytes"
    elif expected.driver == "exact" and archived != truth:
        yield f"the driver's log differs: {_difference(archived, truth)}"
    elif expected.driver == "ends":
        yield from _ends(attempt, played.drivers.get(key, b""), truth, expected.min_tail_bytes)
    elif expected.driver == "prefix":
        yield from _prefix(archived, truth, expected.driver_until.encode())


def _prefix(archived: bytes, truth: bytes, until: bytes) -> Iterator[str]:
    if not truth.startswith(archived):
        yield f"the driver's log is no beginning of what it wrote: {_difference(archived, truth)}"
    if until not in archived:
        yield f"the driver's log lacks {until!r}: it has {len(archived)} of {len(truth)} bytes"


def _ends(attempt: Document, archived: bytes, truth: bytes, min_tail_bytes: int) -> Iterator[str]:
    """Piece by piece between the gaps: each is where the driver wrote it, and no gap is smaller or larger than it says."""
    gaps = next(artifact["gaps"] for artifact in attempt["artifacts"] if artifact["name"] == "logs/driver.log")
    lines, at_line, at_byte, tail = archived.splitlines(keepends=True), 0, 0, 0
    own = len(archived) - len(without_rays_lines(archived))
    truth = archived[:own] + truth
    for gap in [*gaps, None]:
        until_line = gap["at_line"] if gap else len(lines)
        piece = b"".join(lines[at_line:until_line])
        if gap and truth[at_byte : at_byte + len(piece)] != piece:
            piece = piece.removesuffix(b"\n")  # a line that the gap cuts is ended in the archive
        if truth[at_byte : at_byte + len(piece)] != piece:
            yield f"lines {at_line + 1} to {until_line} differ: {_difference(piece, truth[at_byte : at_byte + len(piece)])}"
        at_line, at_byte, tail = until_line, at_byte + len(piece), len(piece)
        if gap:
            at_byte += gap["missing_bytes"] or 0
    if at_byte != len(truth):
        yield f"the driver's log and its gaps have {at_byte} bytes, the driver wrote {len(truth)}"
    if gaps and tail < min_tail_bytes:
        yield f"only the last {tail} bytes are archived, not {min_tail_bytes}"


def _difference(archived: bytes, truth: bytes) -> str:
    """Where two texts part, with what each says there."""
    pairs = enumerate(zip(archived, truth, strict=False))
    at = next((index for index, (ours, theirs) in pairs if ours != theirs), min(len(archived), len(truth)))
    ours, theirs = archived[at : at + SHOWN_BYTES], truth[at : at + SHOWN_BYTES]
    return f"{len(archived)} bytes for {len(truth)}; at byte {at} {ours!r} for {theirs!r}"


def _use(attempt: Document, expected: Expected) -> Iterator[str]:
    resources = attempt["resources"]
    if expected.gpus and resources["gpus"] != expected.gpus:
        yield f"it asked for {resources['gpus']} GPUs, not {expected.gpus}"
    idle = resources["gpu_idle_seconds"]
    if expected.min_idle_gpu_seconds and (idle is None or idle < expected.min_idle_gpu_seconds):
        yield f"idle GPU seconds are {idle}, less than {expected.min_idle_gpu_seconds}"


def _events(played: Played, attempt: Document, expected: Expected) -> Iterator[str]:
    uid = next(job["row"]["uid"] for job in played.jobs if attempt in job["attempts"])
    events = played.events[f"{uid}/{attempt['number']}"]
    texts = [f"{event['reason']} {event['message']}" for event in events]
    for wanted in expected.events:
        if not any(wanted in text for text in texts):
            yield f"no event says {wanted!r}; there are {sorted({event['reason'] for event in events})}"
