"""The figures of the mass test, printed at the end of the run."""

from __future__ import annotations

import pytest

LINES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config) -> list[str]:
    """Lines that are printed whatever becomes of the test."""
    return pytestconfig.stash.setdefault(LINES, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = config.stash.get(LINES, [])
    if lines:
        terminalreporter.section("mass test")
    for line in lines:
        terminalreporter.write_line(line)
