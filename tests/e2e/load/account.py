"""The account of a mass test: every byte that was written is archived, or a gap that is true says why not. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.e2e.load.harvest import Harvest, Kept, Wrote
from tests.e2e.scenarios.kube import Document
from tests.e2e.scenarios.truth import without_rays_lines

RAYS_LINES_BYTES = 1000  # what Ray itself writes above the driver's output
STEP_PARTS = 0.25  # a driver that is killed may have noted one step more than it printed: at most this part of its log


@dataclass(slots=True)
class Account:
    """Seconds in `lags` (the driver's end to safe) and `margins` (safe to the cluster's deletion). `wrong` must be empty."""

    runs: int = 0
    attempts: int = 0
    written_bytes: int = 0
    archived_bytes: int = 0
    explained_bytes: int = 0  # missing, and a true gap says so
    whole_runs: int = 0
    gap_runs: int = 0
    lost_runs: int = 0
    duplicates: int = 0
    lags: list[float] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    gaps: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def account(harvest: Harvest, expected_uids: Sequence[str]) -> Account:
    result = Account(runs=len(harvest.wrote), attempts=len(harvest.kept))
    by_submission = {kept.attempt["job_id"]: kept for kept in harvest.kept if kept.attempt["job_id"]}
    for wrote in harvest.wrote:
        result.written_bytes += len(wrote.data)
        kept = by_submission.get(wrote.submission)
        if kept is None:
            result.lost_runs += 1
            result.wrong.append(f"{wrote.submission}: its driver ran, and no attempt is archived")
        else:
            _add_run(result, wrote, kept)
    result.wrong += [harvest.not_final] if harvest.not_final else []
    twice = list(_twice(harvest, expected_uids))
    result.duplicates = len(twice)
    result.wrong += twice
    result.wrong += [f"{uid}: the RayJob is not archived" for uid in set(expected_uids) - set(harvest.listed)]
    result.margins = [
        kept.attempt["margin_seconds"] for kept in harvest.kept if kept.attempt["margin_seconds"] is not None
    ]
    return result


def _add_run(result: Account, wrote: Wrote, kept: Kept) -> None:
    artifact, archived = kept.artifact, without_rays_lines(kept.driver or b"")
    gaps = artifact["gaps"] if artifact else []
    result.archived_bytes += len(archived)
    if wrote.ended_at is not None and kept.safe_at is not None:
        result.lags.append(kept.safe_at - wrote.ended_at)
    problem = unexplained(wrote, artifact, kept.driver or b"")
    if problem:
        result.wrong.append(f"{wrote.submission} ({kept.attempt['submission_mode']}): {problem}")
    elif len(archived) == len(wrote.data):
        result.whole_runs += 1
    else:
        result.explained_bytes += len(wrote.data) - len(archived)
        result.gap_runs += bool(gaps)
    result.gaps.update(f"{gap['reason']}: {gap['detail'].partition(':')[0]}" for gap in gaps)


def unexplained(wrote: Wrote, artifact: Document | None, driver: bytes) -> str | None:
    """What is wrong with the archived log of a run; None where it is whole, or its gaps are true."""
    archived = without_rays_lines(driver)
    if artifact is None:
        return "there is no row for the driver's log"
    if artifact["completeness"] == "lost":
        return None if artifact["reason"] else "the driver's log is lost, and nothing says why"
    if artifact["masked"]:
        return f"something was taken for a secret: {artifact['masked']}"
    if not artifact["gaps"]:
        return _without_gap(wrote, archived)
    return _with_gaps(wrote, artifact, driver)


def _without_gap(wrote: Wrote, archived: bytes) -> str | None:
    if archived == wrote.data:
        return None
    if not wrote.data.startswith(archived):
        return f"no beginning of what was written: they part at byte {_parting(archived, wrote.data)}"
    lacks = len(wrote.data) - len(archived)
    if wrote.ended_at is None and lacks <= max(4096, len(wrote.data) * STEP_PARTS):
        return None
    return f"{lacks} of {len(wrote.data)} bytes are missing, and there is no gap"


def _with_gaps(wrote: Wrote, artifact: Document, driver: bytes) -> str | None:
    """The pieces between the gaps stand in what was written, in their order, and the gaps are where something is missing."""
    archived, gaps = without_rays_lines(driver), artifact["gaps"]
    own_lines = driver.count(b"\n") - archived.count(b"\n")
    places = [max(0, gap["at_line"] - own_lines) for gap in gaps]
    problem = _misplaced(wrote.data, archived, places)
    if problem:
        return problem
    missing, said = len(wrote.data) - len(archived), sum(gap["missing_bytes"] or 0 for gap in gaps)
    # a gap of unknown size says that nobody knows: it may be of nothing
    if said and wrote.ended_at is not None and missing <= 0 and own_lines:
        return f"a gap ({gaps[0]['detail']}), and nothing is missing"
    if said > missing + RAYS_LINES_BYTES:
        return f"the gaps say that {said} bytes are missing, and it is {missing}"
    return None


def _misplaced(written: bytes, archived: bytes, places: Sequence[int]) -> str | None:
    """`places`: how many archived lines stand before each gap."""
    if len(places) > 1:
        return _misplaced_pieces(written, list(_pieces(archived, places)))
    before, behind = _parting(archived, written), _parting(archived[::-1], written[::-1])
    if before + behind < len(archived) and archived[before : before + 1] == b"\n":
        # the line that the gap cuts is ended
        archived = archived[:before] + archived[before + 1 :]
        behind = _parting(archived[::-1], written[::-1])
    if before + behind < len(archived):
        return f"what stands around the gap was not written there: {before} and {behind} of {len(archived)} bytes fit"
    first, last = archived[: len(archived) - behind].count(b"\n"), archived[:before].count(b"\n") + 1
    if not first <= places[0] <= last:
        return f"the gap is said to be at line {places[0]}, and it is between {first} and {last}"
    return None


def _misplaced_pieces(written: bytes, pieces: Sequence[bytes]) -> str | None:
    at = 0
    for number, piece in enumerate(pieces, 1):
        found = written.find(piece, at)
        if found < 0 or (number == 1 and found > 0):
            return f"piece {number} of {len(pieces)} is not what was written there"
        at = found + len(piece)
    return (
        f"{len(written) - at} bytes are missing at the end, where no gap is"
        if pieces[-1] and at < len(written)
        else None
    )


def _pieces(archived: bytes, places: Sequence[int]) -> Iterator[bytes]:
    """Between the gaps. A line ends with LF alone, as the archive counts them."""
    *whole, rest = archived.split(b"\n")
    lines = [line + b"\n" for line in whole] + ([rest] if rest else [])
    for start, end in pairwise((0, *places, len(lines))):
        yield b"".join(lines[start:end])


def _twice(harvest: Harvest, expected_uids: Sequence[str]) -> Iterator[str]:
    yield from (f"{uid} is listed {n} times" for uid, n in Counter(harvest.listed).items() if n > 1)
    yield from (f"{uid} is archived, and nobody made it" for uid in set(harvest.listed) - set(expected_uids))
    places = Counter((kept.uid, kept.attempt["number"]) for kept in harvest.kept)
    yield from (f"{place} is archived {n} times" for place, n in places.items() if n > 1)
    submissions = Counter(kept.attempt["job_id"] for kept in harvest.kept if kept.attempt["job_id"])
    yield from (f"{one} is the submission of {n} attempts" for one, n in submissions.items() if n > 1)
    for kept in harvest.kept:
        where = f"{kept.job}/{kept.attempt['number']}"
        names = Counter(artifact["name"] for artifact in kept.attempt["artifacts"])
        yield from (f"{where}: {name} is there {n} times" for name, n in names.items() if n > 1)
        events = Counter(event["uid"] for event in kept.events)
        yield from (f"{where}: event {uid} is there {n} times" for uid, n in events.items() if n > 1)


def _parting(ours: bytes, theirs: bytes) -> int:
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(ours), len(theirs)))


def quantile(values: Sequence[float], part: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None


def report(result: Account) -> Iterator[str]:
    """The figures, a line each."""

    def seconds(value: float | None) -> str:
        return "-" if value is None else f"{value:.1f} s"

    counts = f"archived whole {result.whole_runs}, with a gap {result.gap_runs}, lost {result.lost_runs}"
    yield f"driver runs     {result.runs}, {counts}"
    yield f"attempts        {result.attempts}, duplicates {result.duplicates}"
    explained = f"{result.archived_bytes} archived, {result.explained_bytes} explained"
    yield f"bytes           {result.written_bytes} written, {explained}"
    yield f"end to safe     p50 {seconds(quantile(result.lags, 0.5))}, p99 {seconds(quantile(result.lags, 0.99))}"
    early = sum(margin >= 0 for margin in result.margins)
    yield (
        f"safe to deleted p50 {seconds(quantile(result.margins, 0.5))}, least {seconds(min(result.margins, default=None))}; "
        f"safe first in {early} of {len(result.margins)}"
    )
    yield from (f"gap             {count} x {reason}" for reason, count in result.gaps.most_common())
    yield from (f"WRONG           {problem}" for problem in result.wrong[:40])
