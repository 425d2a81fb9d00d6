"""How long to wait: after failures, and between flushes of a stream. Pure arithmetic, no clock and no dice."""

FIRST_FLUSH_SECONDS = 0.25
LAST_FLUSH_SECONDS = 30.0
_FLUSH_SHARE = 0.1
_EXPONENT_LIMIT = 30


def backoff_seconds(failures: int, jitter: float, *, first: float = 0.2, cap: float = 30.0) -> float:
    """The wait after ``failures`` failures in a row (from 1), doubled each time up to ``cap``.

    ``jitter`` is a number in [0, 1): the wait lies between half and the whole of that time, so that many waiters
    do not come back together.
    """
    whole = min(cap, first * 2.0 ** min(max(failures - 1, 0), _EXPONENT_LIMIT))
    return whole * (0.5 + 0.5 * jitter)


def flush_interval_seconds(age_seconds: float) -> float:
    """How long text of a stream may wait for the store, by the age of the stream.

    A tenth of the age: a driver that exits early is safe at once, a long job makes few objects (some
    60 in its first five minutes, then two a minute).
    """
    return min(LAST_FLUSH_SECONDS, max(FIRST_FLUSH_SECONDS, age_seconds * _FLUSH_SHARE))
