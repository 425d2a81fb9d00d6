"""Masks secrets in log text before anything is written anywhere, and counts them by rule. Every line stays where it is.

A cheap filter says where a secret may be; only there the exact rules look. What is not masked is not touched.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from archiver.core.lines import Block
from archiver.core.prefilter import KEY, Hit, prefilter
from archiver.core.redact_objects import redact_json
from archiver.core.redact_rules import KEY_BEGIN, KEY_END, mask
from archiver.core.redact_text import find_secrets, mask_tokens

__all__ = ["Masked", "Redactor", "redact_json"]

HELD_BYTES = 4096
# lines after a key's first one in which its body is looked for: the largest keys have some fifty
_KEY_LINES = 100
_KEY = mask("private-key")
_PREFIX = re.compile(rb"^\s*(?:\x1b\[[0-9;]*m)*(?:\([^)\n]{0,200}\))?(?:\x1b\[[0-9;]*m)*\s*")
_BASE64_END = re.compile(rb"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{40,}={0,2}(?=\s*$)")
_BASE64 = re.compile(rb"[A-Za-z0-9+/]+={0,2}")
_PEM_LINE = re.compile(rb"[A-Za-z0-9+/]{60,76}={0,2}")
# a key printed on one line: its line ends are escaped or blanks
_KEY_ON_LINE = re.compile(rb"(%s)([^\n]*?)(?=%s|[\"'\r\n]|$)" % (KEY_BEGIN.pattern, KEY_END.pattern))


@dataclass(frozen=True, slots=True)
class Masked:
    """Masked text beside the raw block it was made of: the same pieces, so the raw times hold for both."""

    raw: Block
    text: bytes


class Redactor:
    """Masks a stream block by block. The end of an unfinished line is held back, so that no secret is cut in two.

    ``in_key``: the text before ended inside a private key. ``begins_inside``: nobody knows what was before.
    """

    def __init__(self, *, in_key: bool = False, begins_inside: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self._key_lines = _KEY_LINES if in_key else 0
        self._is_unsure = begins_inside
        self._held: Block | None = None

    @property
    def held(self) -> Block | None:
        """What was fed and not given out."""
        return self._held

    @property
    def in_key(self) -> bool:
        """Whether the text so far ends inside a private key."""
        return self._key_lines > 0

    def feed(self, block: Block) -> Masked | None:
        """What can be given out now."""
        whole = _join(self._held, block)
        self._held = None
        if whole.text.endswith(b"\n") or not whole.text:
            return self._mask(whole)
        ready, self._held = _split(whole, _cut(whole.text))
        return self._mask(ready)

    def flush(self) -> Masked | None:
        """What was held back: the source goes on elsewhere, or has ended."""
        held, self._held = self._held, None
        return self._mask(held) if held else None

    def _mask(self, block: Block) -> Masked | None:
        text = block.text
        if not text:
            return None
        hits = prefilter().find(text)
        if self._key_lines or self._is_unsure or any(number == KEY for number, _ in hits):
            text = b"".join([self._mask_key_line(line) for line in text.splitlines(keepends=True)])
            hits = prefilter().find(text)
        return Masked(block, mask_tokens(text, hits, self.counts) if hits else text)

    def _mask_key_line(self, line: bytes) -> bytes:
        if self._is_unsure:
            self._is_unsure = _PEM_LINE.fullmatch(_bare(line)) is not None
            return self._mask_body(line, counts=True) if self._is_unsure else self._mask_key_line(line)
        if self._key_lines:
            if KEY_END.search(line):
                self._key_lines = 0
                return line
            self._key_lines -= 1
            return self._mask_body(line, counts=False)
        if KEY_BEGIN.search(line):
            return self._begin_key(line)
        return line

    def _begin_key(self, line: bytes) -> bytes:
        def hide(found: re.Match[bytes]) -> bytes:
            is_new = found[2] != _KEY
            self.counts["private-key"] += is_new
            return found[1] + (_KEY if is_new and found[2].strip() else found[2])

        text = _KEY_ON_LINE.sub(hide, line)
        is_ended = KEY_END.search(line, line.rfind(b"-----BEGIN")) is not None
        self._key_lines = 0 if is_ended else _KEY_LINES
        return text

    def _mask_body(self, line: bytes, *, counts: bool) -> bytes:
        bare = _bare(line)
        if bare and _BASE64.fullmatch(bare):
            masked, count = line.replace(bare, _KEY), 1
        else:
            masked, count = _BASE64_END.subn(_KEY, line)
        self.counts["private-key"] += count if counts and not self.counts["private-key"] else 0
        return masked


def _bare(line: bytes) -> bytes:
    """A line without what Ray puts before a worker's output."""
    return _PREFIX.sub(b"", line).strip()


def _cut(text: bytes) -> int:
    """Where the unfinished end that is held back begins: never inside a secret."""
    line = text.rfind(b"\n") + 1
    cut = max(line, len(text) - HELD_BYTES)
    for start, end, _ in find_secrets(text, _late(prefilter().find(text), cut)):
        if start < cut < end:
            cut = start
    key = text.rfind(b"-----BEGIN", line)
    if key >= 0 and len(text) - key < 4 * HELD_BYTES and not KEY_END.search(text, key):
        cut = min(cut, key)
    # a secret that fills all of it cannot be waited for: better given out masked than never
    return cut or (len(text) - HELD_BYTES if len(text) > 8 * HELD_BYTES else 0)


def _late(hits: Iterable[Hit], cut: int) -> list[Hit]:
    return [hit for hit in hits if hit[1] > cut - 2 * HELD_BYTES]


def _join(held: Block | None, block: Block) -> Block:
    if held is None:
        return block
    return Block(held.text + block.text, [*held.times, *block.times[1:]])


def _split(block: Block, cut: int) -> tuple[Block, Block | None]:
    if cut >= len(block.text):
        return block, None
    count = block.text.count(b"\n", 0, cut)
    inside = 0 if cut == 0 or block.text[cut - 1 : cut] == b"\n" else 1
    return Block(block.text[:cut], block.times[: count + inside]), Block(block.text[cut:], block.times[count:])
