"""How fast we ask: a token bucket for requests, a jittered backoff for repeats. No I/O but sleeping."""

import asyncio
import random
import time
from dataclasses import dataclass, field

from archiver.core.backoff import backoff_seconds


@dataclass(slots=True)
class Backoff:
    """A doubling delay with jitter, capped, reset on progress; it never gives up."""

    base_seconds: float = 0.2
    cap_seconds: float = 30.0
    failures: int = 0

    def next_seconds(self) -> float:
        """The next delay: between half and the whole of base × 2^failures."""
        self.failures += 1
        return backoff_seconds(self.failures, random.random(), first=self.base_seconds, cap=self.cap_seconds)

    def reset(self) -> None:
        self.failures = 0


@dataclass(slots=True)
class TokenBucket:
    """At most ``burst`` requests at once and ``rate_per_second`` after that; waiters are served in order.

    The debt is taken before sleeping, so that a waiter that is cancelled costs its turn and nothing worse.
    """

    rate_per_second: float
    burst: float
    _tokens: float = field(init=False)
    _refilled_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._tokens = self.burst
        self._refilled_at = time.monotonic()

    def reserve(self, now: float) -> float:
        """Takes one token and returns how many seconds to wait before using it."""
        self._tokens = min(self.burst, self._tokens + max(0.0, now - self._refilled_at) * self.rate_per_second)
        self._refilled_at = max(now, self._refilled_at)
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self.rate_per_second)

    async def take(self) -> None:
        wait_seconds = self.reserve(time.monotonic())
        if wait_seconds > 0:
            await asyncio.sleep(wait_seconds)
