"""How often the diagnosis is right, beside three baselines in the same run. Not a test: it prints, and judges nothing.

`python -m tests.bench.causes [--no-held-out] [FOLDER…]` adds the cases of the folders given; while rules are being
written, the set aside stays out of it. Of the cases held out from rule writing only the figures are shown, never which
ones were wrong: a rule written from them would make the figure worthless.
"""

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from archiver.diagnosis import Evidence, LogSource, Ruleset, Verdict, diagnose, load_ruleset
from tests.bench.recordings import recorded_cases

CASES = Path(__file__).parent.parent / "data" / "cases"
SURE = 0.9

Case = Mapping[str, object]


@dataclass(slots=True)
class Score:
    """Counts over one set of cases."""

    cases: int = 0
    leaf: int = 0
    category: int = 0
    answered: int = 0
    sure: int = 0
    sure_right: int = 0
    rooted: int = 0
    root_hit: int = 0
    confusions: Counter[tuple[str, str]] = field(default_factory=Counter)
    baselines: Counter[str] = field(default_factory=Counter)
    bands: dict[str, list[int]] = field(default_factory=dict)


def is_right(cause: str, expected: Mapping[str, object]) -> bool:
    """The established cause, or one that an expert could defend from this evidence."""
    return cause == expected["cause"] or cause in (expected.get("acceptable") or [])


def score(cases: Sequence[Case], ruleset: Ruleset) -> Score:
    """Diagnose every case and count."""
    result = Score()
    for case in cases:
        expected = case["expected"]
        add(result, diagnose(Evidence.from_case(case), ruleset), expected)
        for name, baseline in BASELINES.items():
            result.baselines[name] += is_right(baseline(case), expected)
    return result


def add(result: Score, verdict: Verdict, expected: Mapping[str, object]) -> None:
    """Count one verdict."""
    right = is_right(verdict.cause, expected)
    result.cases += 1
    result.leaf += right
    result.category += right or verdict.category == expected.get("category")
    result.answered += verdict.cause != "unknown"
    if verdict.confidence >= SURE:
        result.sure += 1
        result.sure_right += right
    lower = int(min(verdict.confidence, 0.99) * 10)
    band = result.bands.setdefault(f"{lower / 10:.1f}-{(lower + 1) / 10:.1f}", [0, 0])
    band[0] += right
    band[1] += 1
    if not right:
        result.confusions[str(expected["cause"]), verdict.cause] += 1
    roots = [str(line) for line in expected.get("root_lines") or []]
    if roots:
        result.rooted += 1
        result.root_hit += any(root in cited.text or cited.text in root for root in roots for cited in verdict.evidence)


# --- baselines --------------------------------------------------------------------------------------------------------


def all_text(case: Case) -> str:
    """Everything that the case shows, as one text."""
    return yaml.safe_dump(case.get("evidence"), width=100_000, allow_unicode=True)


def by_exit_code(case: Case) -> str:
    """What the exit code alone would say."""
    found = re.search(r"(?i)exit ?code'?:? (-?\d+)", all_text(case))
    codes = {"137": "host-oom-container", "139": "user-native-crash", "127": "entrypoint-not-startable"}
    codes |= {"134": "user-native-crash", "143": "ended-from-outside", "2": "entrypoint-not-startable"}
    return codes.get(found[1], "user-exception") if found and found[1] != "0" else "unknown"


def by_last_traceback(case: Case) -> str:
    """What the type of the last exception would say."""
    types = re.findall(r"\b([A-Z]\w*(?:Error|Exception))\b", all_text(case))
    known = {
        "ModuleNotFoundError": "missing-module", "ImportError": "missing-module", "OutOfMemoryError": "gpu-oom",
        "FileNotFoundError": "data-not-found", "PermissionError": "storage-permission-denied",
        "ActorDiedError": "node-lost", "RuntimeEnvSetupError": "runtime-env-failed",
        "JSONDecodeError": "data-corrupt-or-schema",
        "ConnectionError": "dns-or-connectivity", "TimeoutError": "user-hang-or-timeout",
    }  # fmt: skip
    return known.get(types[-1], "user-exception") if types else "unknown"


def by_first_keyword(case: Case) -> str:
    """What the first known word would say."""
    words = {
        "oom": "host-oom-container", "out of memory": "gpu-oom", "nccl": "collective-timeout",
        "no module": "missing-module", "evict": "node-drained", "preempt": "preempted-by-priority",
        "no space": "disk-full", "timeout": "collective-timeout", "insufficient": "capacity-shortage",
        "quota": "quota-exceeded", "imagepull": "image-pull-failed", "xid": "gpu-off-bus",
        "segfault": "user-native-crash", "sigsegv": "user-native-crash", "permission": "storage-permission-denied",
        "refused": "dns-or-connectivity", "error": "user-exception",
    }  # fmt: skip
    text = all_text(case).lower()
    places = [(text.find(word), cause) for word, cause in words.items() if word in text]
    return min(places)[1] if places else "unknown"


BASELINES: dict[str, Callable[[Case], str]] = {
    "exit code": by_exit_code,
    "last traceback type": by_last_traceback,
    "first keyword": by_first_keyword,
}


# --- print ------------------------------------------------------------------------------------------------------------


def load(folder: Path) -> list[Case]:
    """Every case file of a folder, in order of name."""
    return [yaml.load(file.read_text("utf-8"), yaml.CSafeLoader) for file in sorted(folder.glob("*.yaml"))]


def show(name: str, result: Score, *, is_held_out: bool = False) -> None:
    """One set's figures."""
    print(f"\n{name}: {result.cases} cases")
    if not result.cases:
        return
    print(f"  leaf accuracy        {ratio(result.leaf, result.cases)}")
    print(f"  category accuracy    {ratio(result.category, result.cases)}")
    print(f"  coverage             {ratio(result.answered, result.cases)}")
    print(f"  precision at >= {SURE}  {ratio(result.sure_right, result.sure)}")
    print(f"  root line cited      {ratio(result.root_hit, result.rooted)}")
    for baseline in BASELINES:
        print(f"  baseline {baseline:<20} {ratio(result.baselines[baseline], result.cases)}")
    bands = [f"{band}: {right}/{count}" for band, (right, count) in sorted(result.bands.items())]
    print(f"  right by confidence  {'  '.join(bands)}")
    if not is_held_out:
        for (expected, got), count in result.confusions.most_common():
            print(f"  confusion {count}x {expected} taken for {got}")


def show_speed(ruleset: Ruleset) -> None:
    """Megabytes per second of processor time on a log of Ray's shape, a traceback at its end."""
    lines = "".join(
        f"\x1b[36m(RayTrainWorker pid={number % 900}, ip=10.0.0.{number % 9})\x1b[0m epoch {number} loss=0.{number}\n"
        f"[2026-11-30 18:46:01,{number % 1000:03d} I 57 57] (raylet) node_manager.cc:{number % 997}: Sending GC request\n"
        f"2026-11-30 18:46:02,123\tINFO worker.py:1841 -- Connecting to existing Ray cluster at address: 10.0.0.2:6379\n"
        for number in range(3000)
    ).encode()
    end = b'Traceback (most recent call last):\n  File "/a.py", line 1, in f\n    g()\nKeyError: 1\n'
    ruleset.scanner.prepare()
    times = 100_000_000 // len(lines)
    began = time.process_time()
    verdict = diagnose(Evidence(logs={"driver": LogSource(lambda: (*[lines] * times, end))}), ruleset)
    spent = time.process_time() - began
    print(f"\nscan: {len(lines) * times / spent / 1e6:.0f} MB/s of processor time, verdict {verdict.cause}")


def ratio(part: int, whole: int) -> str:
    """A share with its counts."""
    return f"{part / whole:6.1%} ({part}/{whole})" if whole else "   n/a (0/0)"


def main(arguments: Sequence[str]) -> None:
    """Print all sets."""
    options = [argument for argument in arguments if argument.startswith("--")]
    folders = [argument for argument in arguments if argument not in options]
    ruleset = load_ruleset()
    print(f"ruleset {ruleset.version}: {len(ruleset.rules)} rules, {len(ruleset.leaves)} leaves")
    for name in ("shared", "learn", *folders):
        show(name, score(load(CASES / name if "/" not in name else Path(name)), ruleset))
    if "--no-held-out" not in options:
        show("held-out", score(load(CASES / "held-out"), ruleset), is_held_out=True)
    show("recorded", score(recorded_cases(), ruleset))
    show_speed(ruleset)


if __name__ == "__main__":
    main(sys.argv[1:])
