"""Log lines on a terminal: colours stay, nothing else acts."""

import re

from hypothesis import given
from hypothesis import strategies as st

from archiver.commands.terminal import terminal_line
from archiver.core.ansi import plain

_OURS = re.compile(r"\x1b\[[0-9;]*m")


def test_keeps_colours_and_ends_them_with_the_line() -> None:
    assert terminal_line(b"\x1b[1;31mred", colour=True) == "\x1b[1;38;5;1mred\x1b[0m"


def test_without_colour_it_is_plain() -> None:
    assert terminal_line(b"\x1b[31mred\x1b[2J\x07", colour=False) == "red\\x07"


def test_shows_the_last_state_of_a_progress_bar() -> None:
    assert terminal_line(b"10%\r100%\r", colour=True) == "100%"


@given(st.binary())
def test_only_our_own_styles_reach_the_terminal(data: bytes) -> None:
    printed = _OURS.sub("", terminal_line(data, colour=True))
    assert not any(ord(character) < 0x20 and character != "\t" for character in printed)
    assert "\x7f" not in printed


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_plain_text_is_left_alone(text: str) -> None:
    assert terminal_line(text.encode(), colour=True) == plain(text)
