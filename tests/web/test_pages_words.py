"""Numbers and moments as people say them; colours that can be read."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from archiver.core.model import ContainerRun, LogKind, LogSource
from web.pages import palette, words
from web.pages.query import BadQuery, ListQuery, moment, parse

NOW = datetime(2026, 8, 19, 3, 12, 44, tzinfo=UTC)
STATIC = Path(palette.__file__).parents[1] / "static"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "unknown"),
        (0.009, "9 ms"),
        (1.8, "1.8 s"),
        (2.0, "2 s"),
        (59.4, "59 s"),
        (59.7, "1 m 00 s"),
        (843, "14 m 03 s"),
        (3671, "1 h 01 m"),
        (90_000, "1 d 01 h"),
        (-0.009, "−9 ms"),
    ],
)
def test_says_a_duration(seconds: float | None, said: str) -> None:
    assert words.duration(seconds) == said


@pytest.mark.parametrize(
    ("span", "said"),
    [
        (timedelta(seconds=3), "just now"),
        (timedelta(minutes=12, seconds=59), "12 m ago"),
        (timedelta(hours=47), "1 d ago"),
        (timedelta(minutes=-5), "in 5 m"),
    ],
)
def test_says_how_long_ago(span: timedelta, said: str) -> None:
    assert words.ago(NOW - span, NOW) == said


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (4 << 20, "4.0 MiB"), (3 << 40, "3.0 TiB")]
)
def test_says_a_size(count: int, said: str) -> None:
    assert words.size(count) == said


def test_says_gpu_time_in_gpu_hours() -> None:
    assert words.gpu_hours(1760) == "0.5 GPU-hours"
    assert words.gpu_hours(3_276_800) == "910 GPU-hours"


def test_says_which_restart_of_a_container_a_log_is_of() -> None:
    run = ContainerRun("ml-a", "head-7h2ws", "u", "ray-head", restart=2)
    assert words.source(LogSource(LogKind.HEAD, run)) == "head head-7h2ws / ray-head, restart 2"


def test_names_the_place_of_a_cited_line_as_people_do() -> None:
    assert words.place("driver.log", 812) == "driver:812"
    assert words.place("submitter-x.log", 3) == "submitter-x:3"
    assert words.place("k8s_events", 1) == "Kubernetes Events"


def test_versions_are_those_of_what_ran() -> None:
    assert words.versions({"archiver": "0.1.0", "ray": "2.52.1", "kuberay": "1.6.2"}) == "KubeRay 1.6.2, Ray 2.52.1"


def test_a_log_time_keeps_its_nanoseconds() -> None:
    assert words.nanoseconds(1_787_109_164_123_456_789) == "2026-08-19T03:12:44.123456789Z"


def test_a_margin_below_zero_says_that_it_was_too_late() -> None:
    assert words.margin(-0.009) == "9 ms after the cluster was deleted"
    assert words.margin(1.8) == "1.8 s before the cluster was deleted"


@pytest.mark.parametrize("index", range(256))
def test_every_terminal_colour_can_be_read_on_every_ground_of_both_themes(index: int) -> None:
    for papers in (palette.LIGHT, palette.DARK):
        colour = palette.readable(palette.base(index), papers)
        assert min(palette.contrast(colour, paper) for paper in papers) >= 4.5


def test_the_style_sheet_of_terminal_colours_is_the_generated_one() -> None:
    assert (STATIC / "ansi.css").read_text() == palette.stylesheet()


def _tokens() -> dict[str, tuple[str, str]]:
    text = (STATIC / "tokens.css").read_text()
    return {
        name: (light, dark) for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", text)
    }


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def test_every_colour_of_text_can_be_read_on_every_ground() -> None:
    tokens = _tokens()
    inks = [
        name
        for name in tokens
        if name.startswith("c-") or name in ("ink", "quiet", "link", "bad", "good", "warn", "busy")
    ]
    grounds = ("paper", "raised")
    weak = [
        (ink, ground, theme)
        for ink in inks
        for ground in grounds
        for theme in (0, 1)
        if palette.contrast(_rgb(tokens[ink][theme]), _rgb(tokens[ground][theme])) < 4.5
    ]
    assert len([name for name in inks if name.startswith("c-")]) == 12
    assert weak == []


def test_the_palette_is_computed_against_the_papers_of_the_tokens() -> None:
    tokens = _tokens()
    for theme, papers in enumerate((palette.LIGHT, palette.DARK)):
        assert papers == tuple(_rgb(tokens[name][theme]) for name in ("paper", "mark", "selected"))


def test_an_address_survives_reading_and_writing() -> None:
    given = {"q": ["llama"], "team": ["a", "b"], "status": ["all"], "since": ["7d"], "page_token": ["x"]}
    query = parse(given)
    assert query.href == "/?q=llama&status=all&team=a&team=b&since=7d&page_token=x"


def test_a_choice_is_taken_back_by_choosing_it_again_and_starts_at_the_newest() -> None:
    query = ListQuery(token="x").toggled("team", "a")
    assert query == ListQuery(choices=(("team", "a"),))
    assert query.toggled("team", "a") == ListQuery()


def test_a_further_page_pins_relative_times() -> None:
    query = ListQuery(since="24h").at("token", NOW)
    assert query.since == "2026-08-18T03:12:44Z"
    assert query.filter(NOW + timedelta(minutes=5)).since == NOW - timedelta(days=1)


def test_understands_relative_and_exact_times() -> None:
    assert moment("90m", NOW) == NOW - timedelta(minutes=90)
    assert moment("2026-08-19T05:12:44+02:00", NOW) == NOW
    assert moment("2026-08-19", NOW) == datetime(2026, 8, 19, tzinfo=UTC)


@pytest.mark.parametrize("text", ["soon", "99999999d", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "٣h", "h"])
def test_refuses_what_is_no_time(text: str) -> None:
    with pytest.raises(BadQuery):
        moment(text, NOW)


@pytest.mark.parametrize("values", [["a\0b"], ["x" * 2000], ["x"] * 60])
def test_refuses_an_address_that_no_page_of_ours_makes(values: list[str]) -> None:
    with pytest.raises(BadQuery):
        parse({"team": values})
