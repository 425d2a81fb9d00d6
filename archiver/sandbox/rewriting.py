"""Makes a recording's documents those of today: times moved, names, uids and addresses replaced. Pure.

Log text is never touched: its bytes are the truth that an archive is compared with.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_DIGITS = re.compile(r"\d{10,19}")
_ADDRESS = re.compile(r"\d+(\.\d+){3}")
_UNITS = (1, 10**3, 10**6, 10**9)  # seconds, milliseconds, microseconds, nanoseconds
_NEAR_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Clock:
    """Maps the recording's time to that of a playback."""

    origin: datetime
    start: datetime
    speed: float

    def moved(self, moment: datetime) -> datetime:
        return self.start + (moment - self.origin) / self.speed

    def at(self, seconds: float) -> datetime:
        return self.start + timedelta(seconds=seconds / self.speed)

    def at_ns(self, seconds: float) -> int:
        return round(self.start.timestamp() * 1e9) + round(seconds / self.speed * 1e9)


def _alone(word: str) -> str:
    """10.0.0.2 is no part of 10.0.0.2.7 or 110.0.0.2."""
    return rf"(?<!\d\.){re.escape(word)}(?!\.\d)" if _ADDRESS.fullmatch(word) else re.escape(word)


class Rewriter:
    """``words``: what is replaced wherever it stands alone in a string (names, uids, addresses)."""

    def __init__(self, clock: Clock, words: Mapping[str, str]) -> None:
        self._clock = clock
        self._words = dict(words)
        alternatives = "|".join(map(_alone, sorted(self._words, key=len, reverse=True)))
        self._pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{alternatives})(?![A-Za-z0-9])")
        self._origin_seconds = clock.origin.timestamp()

    def document(self, value: Any) -> Any:
        """A JSON value with everything in it replaced; keys stay."""
        if isinstance(value, dict):
            return {name: self.document(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.document(item) for item in value]
        if isinstance(value, str):
            return self._moved_text(value) or self.text(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        return self._moved_number(value)

    def text(self, value: str) -> str:
        """Only the words."""
        if not self._words:
            return value
        return self._pattern.sub(lambda match: self._words[match[0]], value)

    def _moved_text(self, value: str) -> str | None:
        if _ISO.fullmatch(value):
            return self._moved_iso(value)
        if _DIGITS.fullmatch(value):
            return str(self._moved_number(int(value)))
        return None

    def _moved_iso(self, value: str) -> str:
        head, _, fraction = value.rstrip("Z").partition(".")
        # seconds alone keep their form; fractions come back as microseconds
        moment = datetime.fromisoformat(f"{head}.{fraction[:6] or '0'}").replace(tzinfo=UTC)
        moved = self._clock.moved(moment)
        return moved.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if fraction else "%Y-%m-%dT%H:%M:%SZ")

    def _moved_number(self, value: int | float) -> int | float:
        """Ray writes moments as numbers in four units; what is near the origin in one of them is a moment."""
        for unit in _UNITS:
            seconds = value / unit - self._origin_seconds
            if abs(seconds) < _NEAR_SECONDS:
                moved = (self._clock.start.timestamp() + seconds / self._clock.speed) * unit
                return moved if isinstance(value, float) else round(moved)
        return value
