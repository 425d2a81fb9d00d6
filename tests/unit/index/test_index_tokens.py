"""Page tokens: the inverse of each other, and bound to their filter."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.errors import UserError
from archiver.index.filters import JobFilter
from archiver.index.tokens import Direction, Position, build_token, parse_token

words = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=3).map(tuple)
zones = st.integers(-12, 12).map(lambda hours: timezone(timedelta(hours=hours)))
moments = st.datetimes(datetime(1970, 1, 2), datetime(9998, 1, 1), timezones=zones)
filters = st.builds(JobFilter, teams=words, causes=words, text=st.text(max_size=10), since=st.none() | moments)
positions = st.builds(
    Position, st.sampled_from(Direction), moments, st.text(max_size=40).filter(lambda t: t.isprintable())
)


@given(positions, filters)
def test_parses_what_it_built(position: Position, job_filter: JobFilter) -> None:
    assert parse_token(build_token(position, job_filter), job_filter) == position


@given(positions, filters, filters)
def test_refuses_the_token_of_another_filter(position: Position, mine: JobFilter, other: JobFilter) -> None:
    if mine == other:
        return
    with pytest.raises(UserError, match="first page"):
        parse_token(build_token(position, mine), other)


@given(positions, filters, st.data())
def test_refuses_a_token_with_any_character_changed(
    position: Position, job_filter: JobFilter, data: st.DataObject
) -> None:
    token = build_token(position, job_filter)
    place = data.draw(st.integers(0, len(token) - 2))
    other = data.draw(st.characters(codec="ascii").filter(lambda char: char != token[place]))
    with pytest.raises(UserError):
        parse_token(token[:place] + other + token[place + 1 :], job_filter)


@given(st.text(max_size=80))
def test_refuses_whatever_else_is_given(token: str) -> None:
    with pytest.raises(UserError):
        parse_token(token, JobFilter())


def test_says_the_same_moment_in_any_zone() -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    elsewhere = moment.astimezone(timezone(timedelta(hours=9)))
    build = [build_token(Position(Direction.OLDER, at, "u"), JobFilter()) for at in (moment, elsewhere)]
    assert build[0] == build[1]
