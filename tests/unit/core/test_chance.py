"""The binomial tail against its definition, and what it decides."""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.core.chance import at_least, corrected


def defined(successes: int, trials: int, share: float) -> float:
    return sum(comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(successes, trials + 1))


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0.001, 0.999))
def test_is_the_sum_of_its_terms(successes: int, trials: int, share: float) -> None:
    assert at_least(successes, trials, share) == pytest.approx(defined(successes, trials, share), rel=1e-9, abs=1e-15)


def test_large_counts_neither_overflow_nor_take_long() -> None:
    assert 0.45 < at_least(500, 50_000, 0.01) < 0.55
    assert at_least(2_000, 50_000, 0.01) < 1e-100


def test_what_must_be_and_what_cannot_be() -> None:
    assert (at_least(0, 10, 0.1), at_least(3, 10, 1.0)) == (1.0, 1.0)
    assert (at_least(1, 10, 0.0), at_least(11, 10, 0.5)) == (0.0, 0.0)


def test_the_more_are_looked_at_the_more_one_of_them_looks_bad() -> None:
    assert corrected(0.001, 100) == pytest.approx(0.1)
    assert corrected(0.4, 100) == 1.0
