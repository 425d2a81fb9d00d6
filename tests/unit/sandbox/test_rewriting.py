"""Rewriting: times move, names and addresses are replaced, and nothing else changes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from archiver.sandbox.rewriting import Clock, Rewriter

ORIGIN = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
START = datetime(2027, 1, 1, 0, 0, tzinfo=UTC)


def rewriter(speed: float = 1.0, **words: str) -> Rewriter:
    return Rewriter(Clock(ORIGIN, START, speed), words)


@pytest.mark.parametrize(
    ("value", "moved"),
    [
        ("2026-11-30T09:00:10Z", "2027-01-01T00:00:10Z"),
        ("2026-11-30T09:00:10.250000Z", "2027-01-01T00:00:10.250000Z"),
        ("at 2026-11-30T09:00:10Z", "at 2026-11-30T09:00:10Z"),
        (round(ORIGIN.timestamp()) + 10, round(START.timestamp()) + 10),
        (round(ORIGIN.timestamp() * 1000) + 10, round(START.timestamp() * 1000) + 10),
        (str(round(ORIGIN.timestamp()) + 10), str(round(START.timestamp()) + 10)),
        (7, 7),
        (0, 0),
        (True, True),
        (None, None),
        (18446744073709551615, 18446744073709551615),
        ("1234567890", "1234567890"),
    ],
)
def test_moves_what_is_a_moment(value: Any, moved: Any) -> None:
    assert rewriter().document({"x": [value]}) == {"x": [moved]}


def test_speed_shortens_the_distance_to_the_start() -> None:
    assert rewriter(10.0).document("2026-11-30T09:01:40Z") == "2027-01-01T00:00:10Z"
    assert Clock(ORIGIN, START, 4.0).at(8.0) == START + timedelta(seconds=2)


def test_replaces_names_that_stand_alone() -> None:
    words = rewriter(**{"train": "train-2", "10.0.0.2": "127.1.2.3", "uid-1": "uid-9"})
    assert words.document("train-abcde") == "train-2-abcde"
    assert words.document("train.17a2b3") == "train-2.17a2b3"
    assert words.document("trains and retrain") == "trains and retrain"
    assert words.document("http://10.0.0.2:8265") == "http://127.1.2.3:8265"
    assert words.document("10.0.0.2.7 110.0.0.2 10.0.0.25 1.10.0.0.2") == "10.0.0.2.7 110.0.0.2 10.0.0.25 1.10.0.0.2"
    assert words.document({"metadata": {"uid": "uid-1"}}) == {"metadata": {"uid": "uid-9"}}


def test_without_words_only_times_move() -> None:
    assert rewriter().document("train") == "train"
