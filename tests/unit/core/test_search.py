"""Searching a text line by line: the same as judging each line alone, for any cutting of the text."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.core import search
from archiver.core.search import ERRORS, LineSearch, Pattern, ReMatcher, matcher
from archiver.errors import UserError

PATTERNS = [
    "a",
    "ab",
    "a.b",
    "^a",
    "b$",
    "^$",
    "a?",
    "[^x]b",
    r"a\s+b",
    r"\bab\b",
    r"\W",
    "(?:a|b)c",
    "(?i)AB",
    "a{2,3}",
    ".",
]
texts = st.lists(
    st.sampled_from([b"a", b"b", b"ab", b"A", b" ", b"\n", b"\n\n", b"c", b"\xff", b"x", b"\r"]), max_size=40
)


def found(text_parts: list[bytes], pattern: Pattern) -> list[tuple[int, int]]:
    finder = LineSearch(matcher(pattern))
    hits = [hit for part in text_parts for hit in finder.feed(part)] + finder.flush()
    return [(hit.number, hit.offset) for hit in hits]


def expected(text: bytes, wanted: "re.Pattern[bytes]") -> list[tuple[int, int]]:
    lines, offset, hits = text.split(b"\n"), 0, []
    for number, line in enumerate(lines[:-1] if not lines[-1] else lines, 1):
        if wanted.search(line):
            hits.append((number, offset))
        offset += len(line) + 1
    return hits


@settings(max_examples=400, deadline=None)
@given(texts, st.sampled_from(PATTERNS), st.booleans(), st.integers(1, 7))
def test_finds_the_lines_that_match_alone_however_the_text_is_cut(
    parts: list[bytes], pattern: str, exact: bool, size: int
) -> None:
    text = b"".join(parts)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    wanted = re.compile(pattern.encode(), 0 if exact else re.IGNORECASE)
    assert found(pieces, Pattern(pattern, is_regex=True, is_exact=exact)) == expected(text, wanted)


@settings(max_examples=100, deadline=None)
@given(texts, st.sampled_from(["a", "ab", "b c", ".", "["]))
def test_plain_text_means_itself_with_and_without_the_library(parts: list[bytes], word: str) -> None:
    wanted = re.compile(re.escape(word.encode()), re.IGNORECASE)
    text = b"".join(parts)
    assert found(parts, Pattern(word)) == expected(text, wanted)
    finder = LineSearch(ReMatcher(re.escape(word), re.IGNORECASE))
    hits = [hit for part in parts for hit in finder.feed(part)] + finder.flush()
    assert [(hit.number, hit.offset) for hit in hits] == expected(text, wanted)


def test_marks_what_matched() -> None:
    assert matcher(Pattern(r"lo+s=\d", is_regex=True)).spans(b"a loss=1 los=2 loos=3") == [(9, 14), (15, 21)]
    assert matcher(Pattern("LOSS")).spans(b"loss Loss") == [(0, 4), (5, 9)]


def test_a_line_of_ten_megabytes_is_searched_to_its_end_and_told_once() -> None:
    text = b"short\n" + b"x" * 10_000_000 + b"needle" + b"y" * 3_000_000 + b"needle\nneedle\n"
    finder = LineSearch(matcher(Pattern("needle")))
    hits = [hit for at in range(0, len(text), 100_000) for hit in finder.feed(text[at : at + 100_000])]
    assert [hit.number for hit in hits] == [2, 3]
    assert hits[0].is_cut
    assert b"needle" in hits[0].excerpt
    assert len(hits[0].excerpt) <= search.EXCERPT_BYTES


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "a)|(b",
        "(?=x)a",
        "(?<!x)a",
        r"(a)\1",
        "(?s)a.b",
        r"\Aa",
        r"a\Z",
        "a{1,5000}",
        "(a{1,99}){1,99}",
        "a\0b",
        "a\nb",
        "",
        "x" * 501,
        "\ud800",
    ],
)
def test_says_what_cannot_be_searched_for(pattern: str) -> None:
    with pytest.raises(UserError):
        matcher(Pattern(pattern, is_regex=True))


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a*)*b", "(a|a)*b", "(a|aa)+$", "(.*a){20}", "([a-z]+)*$", "(x+x+)+y"])
def test_no_pattern_makes_a_search_explode(pattern: str) -> None:
    """Each of these keeps a backtracking engine busy for longer than the universe has been there."""
    lines = b"".join(b"a" * 5_000 + b"!\n" for _ in range(20))
    finder = LineSearch(matcher(Pattern(pattern, is_regex=True)))
    assert len(finder.feed(lines)) in (0, 20)


def test_regular_expressions_are_refused_where_no_linear_engine_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_library", None)
    assert isinstance(matcher(Pattern("a.b")), ReMatcher)
    with pytest.raises(UserError, match="plain text"):
        matcher(Pattern("a.b", is_regex=True))


TELLING = [
    b"Traceback (most recent call last):",
    b"2026-03-01 12:00:00,001 ERROR train.py:7 -- it broke",
    b"\x1b[31mERROR\x1b[0m it broke",
    b"ValueError: no",
    b"(pid=7, ip=10.0.0.1) ray.exceptions.RayTaskError: x",
    b"E0301 12:00:00.123456 77 core_worker.cc:99 x",
    b"[2026-03-01 12:00:00,123 E 77 99] Fatal Python error: Segmentation fault",
    b"torch.cuda.OutOfMemoryError: CUDA out of memory",
]
QUIET = [
    b"errors=0",
    b"ERROR=0",
    b"NO_ERRORS",
    b"loss error 0.1",
    b"import ValueErrorHandler",
    b"INFO all is well",
    b"",
]


@pytest.mark.parametrize("without_library", [False, True])
def test_knows_lines_that_tell_of_a_failure(without_library: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if without_library:
        monkeypatch.setattr(search, "_library", None)
    wanted = matcher(ERRORS)
    assert [line for line in TELLING if not wanted.ends(line)] == []
    assert [line for line in QUIET if wanted.ends(line)] == []
    assert [hit.number for hit in LineSearch(wanted).feed(b"\n".join([*TELLING, *QUIET]) + b"\n")] == list(
        range(1, len(TELLING) + 1)
    )
