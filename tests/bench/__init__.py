"""Speed, memory and rightness as figures: printed, never asserted. `python -m tests.bench` runs everything registered.

A module registers a function with ``@benchmark("what it measures")``; it may be async, and returns the rows to print.
Compare the figures of one run with each other only: machines and their neighbours differ.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. ``note`` says what it is to be compared with."""

    name: str
    value: float
    unit: str
    note: str = ""


Rows = Sequence[Row]
Benchmark = Callable[[], Rows | Awaitable[Rows]]
REGISTERED: dict[str, Benchmark] = {}


def benchmark(title: str) -> Callable[[Benchmark], Benchmark]:
    """Registers a benchmark under its title."""

    def register(function: Benchmark) -> Benchmark:
        REGISTERED[title] = function
        return function

    return register


def show(title: str, rows: Rows) -> None:
    """A small table."""
    print(f"\n{title}")
    for row in rows:
        print(f"  {row.name:<44}{row.value:>12,.2f} {row.unit:<6} {row.note}".rstrip(), flush=True)
