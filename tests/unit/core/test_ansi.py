"""Escapes become styles, and nothing that could act survives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.core.ansi import PLAIN, Span, Style, last_state, nearest, parse, plain, rgb

_TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20)
_ESCAPES = st.one_of(
    st.lists(st.integers(0, 255), max_size=6).map(lambda codes: f"\x1b[{';'.join(map(str, codes))}m"),
    st.sampled_from("ABCDHJKfhlsu").flatmap(lambda final: st.just(f"\x1b[2{final}")),
    _TEXT.map(lambda text: f"\x1b]8;;{text}\x07"),
    _TEXT.map(lambda text: f"\x1b]0;{text}\x1b\\"),
    st.just("\x1b(B"),
    st.just("\x1bM"),
)


@given(st.lists(st.tuples(_TEXT, _ESCAPES)))
def test_the_text_is_the_input_without_its_escapes(pieces: list[tuple[str, str]]) -> None:
    line = "".join(text + escape for text, escape in pieces)
    assert plain(line) == "".join(text for text, _ in pieces)


@given(st.text())
def test_no_control_character_survives_any_input(line: str) -> None:
    assert not any((ord(c) < 0x20 and c != "\t") or 0x7F <= ord(c) < 0xA0 for c in plain(line))


@given(st.binary())
def test_any_bytes_become_text_that_can_be_encoded(data: bytes) -> None:
    plain(data.decode("utf-8", "surrogateescape")).encode()


@given(st.binary(min_size=1).filter(lambda data: b"\x1b" not in data))
def test_without_escapes_every_byte_is_shown_once(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    spans = parse(text)
    shown = "".join(s.text.encode().decode("unicode_escape") if s.is_raw else s.text for s in spans)
    original = "".join(chr(ord(c) & 0xFF) if 0xDC80 <= ord(c) <= 0xDCFF else c for c in text)
    assert shown == original


@pytest.mark.parametrize(
    ("codes", "style"),
    [
        ("31", Style(foreground=1)),
        ("1;91", Style(foreground=9, bold=True)),
        ("38;5;208", Style(foreground=208)),
        ("38;2;255;0;0", Style(foreground=196)),
        ("38:2:255:0:0", Style(foreground=196)),
        ("48;5;22;97", Style(foreground=15, background=22)),
        ("4;3;9;7;2", Style(underline=True, italic=True, strike=True, inverse=True, faint=True)),
        ("31;0", PLAIN),
        ("", PLAIN),
        ("1;22;31;39", PLAIN),
        ("38;5", PLAIN),
        ("999999999", PLAIN),
    ],
)
def test_reads_a_style(codes: str, style: Style) -> None:
    assert parse(f"\x1b[{codes}mtext") == (Span("text", style),)


def test_a_style_ends_with_its_reset() -> None:
    assert parse("\x1b[32mok\x1b[0m then") == (Span("ok", Style(foreground=2)), Span(" then"))


def test_shows_bytes_that_are_not_text() -> None:
    assert parse(b"a\xff\x00b".decode("utf-8", "surrogateescape")) == (
        Span("a"),
        Span("\\xff\\x00", is_raw=True),
        Span("b"),
    )


def test_an_unfinished_escape_is_shown_and_eats_nothing() -> None:
    assert plain("before \x1b]0;title without end") == "before \\x1b]0;title without end"


def test_text_that_reorders_its_neighbours_is_shown_as_a_code() -> None:
    assert plain("access\u202e level") == "access\\u202e level"


@given(st.integers(16, 255))
def test_a_palette_colour_is_its_own_nearest(index: int) -> None:
    assert rgb(nearest(*rgb(index))) == rgb(index)


def test_a_progress_bar_is_collapsed_to_its_last_state() -> None:
    assert last_state("10%\r50%\r100%\r") == ("100%", 2)
    assert last_state("plain") == ("plain", 0)
    assert last_state("\r\r") == ("", 0)
