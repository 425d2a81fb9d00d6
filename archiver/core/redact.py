"""Masks secrets in log text before anything is written anywhere, and counts them by rule. Keeps every line where it is.

First rules; see ``redact_rules`` for what each one means.
"""

from collections import Counter
from dataclasses import dataclass

from archiver.core.lines import Block
from archiver.core.redact_rules import KEY_BEGIN, KEY_END, KEY_LINE, RULES, Rule

HELD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Masked:
    """Masked text beside the raw block it was made of: the same pieces, so the raw times hold for both."""

    raw: Block
    text: bytes


class Redactor:
    """Masks a stream block by block. The end of an unfinished line is held back, so that no secret is cut in two."""

    def __init__(self, *, in_key: bool = False, begins_inside: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self.in_key = in_key or begins_inside
        self._held: Block | None = None

    @property
    def held(self) -> Block | None:
        """What was fed and not given out."""
        return self._held

    def feed(self, block: Block) -> Masked | None:
        """What can be given out now."""
        whole = _join(self._held, block)
        text = whole.text
        if text.endswith(b"\n") or not text:
            self._held = None
            return self._mask(whole)
        ready, self._held = _split(whole, self._cut(text))
        return self._mask(ready) if ready.text else None

    def flush(self) -> Masked | None:
        """What was held back: the source goes on elsewhere, or has ended."""
        held, self._held = self._held, None
        return self._mask(held) if held and held.text else None

    def _cut(self, text: bytes) -> int:
        cut = max(text.rfind(b"\n") + 1, len(text) - HELD_BYTES)
        line = text.rfind(b"\n", 0, cut) + 1
        for start, end, _ in _find(text[line:]):
            if line + start < cut < line + end:
                return line + start if line + start else cut
        return cut

    def _mask(self, block: Block) -> Masked | None:
        if not block.text:
            return None
        text = self._mask_keys(block.text)
        return Masked(block, self._mask_tokens(text))

    def _mask_tokens(self, text: bytes) -> bytes:
        pieces: list[bytes] = []
        position = 0
        for start, end, rule in _find(text):
            if start < position:
                continue
            pieces += (text[position:start], rule.mask)
            position = end
            self.counts[rule.name] += 1
        return b"".join([*pieces, text[position:]]) if pieces else text

    def _mask_keys(self, text: bytes) -> bytes:
        if not self.in_key and KEY_BEGIN.search(text) is None:
            return text
        return b"".join([self._mask_key_line(line) for line in text.splitlines(keepends=True)])

    def _mask_key_line(self, line: bytes) -> bytes:
        if self.in_key:
            if KEY_END.search(line):
                self.in_key = False
                return line
            if KEY_LINE.fullmatch(line.rstrip(b"\r\n")):
                return _MASKED_KEY + line[len(line.rstrip(b"\r\n")) :]
            self.in_key = False
        begin = KEY_BEGIN.search(line)
        if begin and not KEY_END.search(line, begin.end()):
            self.in_key = True
            self.counts["private-key"] += 1
        return line


_MASKED_KEY = "‹masked:private-key›".encode()


def _find(text: bytes) -> list[tuple[int, int, Rule]]:
    found = [
        (*match.span(rule.group), rule) for rule in RULES if rule.may_hit(text) for match in rule.pattern.finditer(text)
    ]
    return sorted(found, key=lambda each: each[:2])


def _join(held: Block | None, block: Block) -> Block:
    if held is None or not held.text:
        return block
    return Block(held.text + block.text, [*held.times, *block.times[1:]])


def _split(block: Block, cut: int) -> tuple[Block, Block | None]:
    if cut >= len(block.text):
        return block, None
    count = block.text.count(b"\n", 0, cut)
    inside = 0 if cut == 0 or block.text[cut - 1 : cut] == b"\n" else 1
    return Block(block.text[:cut], block.times[: count + inside]), Block(block.text[cut:], block.times[count:])
