"""Secrets within lines: finds them by the rules and puts the mask in their place. Knows nothing of streams."""

from collections import Counter
from collections.abc import Iterator, Sequence

from archiver.core.prefilter import KEY, Hit, prefilter
from archiver.core.redact_rules import MASK_BEGIN, RULES, mask

_AROUND_BYTES = 8192
Found = tuple[int, int, str]


def mask_text(text: bytes) -> tuple[bytes, Counter[str]]:
    """The text masked, and how many secrets by rule. Private keys over several lines are the Redactor's."""
    counts: Counter[str] = Counter()
    return mask_tokens(text, prefilter().find(text), counts), counts


def mask_tokens(text: bytes, hits: Sequence[Hit], counts: Counter[str]) -> bytes:
    """The text with the secrets of these hits masked."""
    pieces: list[bytes] = []
    position = 0
    for start, end, rule in find_secrets(text, hits):
        pieces += (text[position:start], mask(rule))
        position = end
        counts[rule] += 1
    return b"".join([*pieces, text[position:]]) if pieces else text


def find_secrets(text: bytes, hits: Sequence[Hit]) -> list[Found]:
    """Start, end and rule of every secret, in order, none inside another."""
    found = [secret for number, start, end in _regions(text, hits) for secret in _apply(number, text, start, end)]
    found.sort(key=lambda each: (each[0], -each[1]))
    secrets: list[Found] = []
    for secret in found:
        if not secrets or secret[0] >= secrets[-1][1]:
            secrets.append(secret)
    return secrets


def _regions(text: bytes, hits: Sequence[Hit]) -> list[tuple[int, int, int]]:
    """Where each rule has to look: the lines of its hits, or what is near in a very long line."""
    regions: list[tuple[int, int, int]] = []
    last = (KEY - 1, 0, 0)
    for number, offset in sorted(hits):
        if number == KEY or (number == last[0] and offset <= last[2]):
            continue
        # the last byte of the hit is inside it
        start = max(text.rfind(b"\n", 0, offset - 1) + 1, offset - _AROUND_BYTES)
        end = text.find(b"\n", offset - 1)
        end = min(len(text) if end < 0 else end, offset + _AROUND_BYTES)
        last = (number, max(start, last[2]) if number == last[0] else start, end)
        regions.append(last)
    return regions


def _apply(number: int, text: bytes, start: int, end: int) -> Iterator[Found]:
    rule = RULES[number]
    for match in rule.pattern.finditer(text, start, end):
        if rule.judge is None or rule.judge(match):
            group = next(each for each in rule.groups if match[each] is not None)
            if not match[group].startswith(MASK_BEGIN):
                yield *match.span(group), rule.name
