"""One ruleset for all tests of the diagnosis: loading it takes a second."""

import pytest

from archiver.diagnosis import Ruleset, load_ruleset


@pytest.fixture(scope="session")
def ruleset() -> Ruleset:
    return load_ruleset()
