"""Waiting times."""

from hypothesis import given
from hypothesis import strategies as st

from archiver.core.backoff import backoff_seconds, flush_interval_seconds


@given(st.integers(1, 100_000), st.floats(0, 1, exclude_max=True))
def test_waits_grow_and_stay_below_the_cap(failures: int, jitter: float) -> None:
    wait = backoff_seconds(failures, jitter, first=0.5, cap=20.0)
    assert 0.25 <= wait <= 20.0
    assert backoff_seconds(failures + 1, jitter, first=0.5, cap=20.0) >= wait


def test_the_first_wait_is_short() -> None:
    assert backoff_seconds(1, 0.0, first=0.2) == 0.1
    assert backoff_seconds(3, 0.0, first=0.2) == 0.4


@given(st.floats(0, 1e7))
def test_flushes_come_at_once_first_and_twice_a_minute_later(age: float) -> None:
    assert 0.25 <= flush_interval_seconds(age) <= 30.0


def test_a_long_job_makes_few_parts() -> None:
    age, parts = 0.0, 0
    while age < 3600:
        age += flush_interval_seconds(age)
        parts += 1
    assert flush_interval_seconds(0) == 0.25
    assert 150 < parts < 200
