"""Whether a count is more than luck: the upper tail of the binomial distribution, corrected for how many were looked at.

A node is suspected where attempts that used it failed like on broken hardware more often than attempts elsewhere do. With
n uses and k such failures, and p the share of such failures in all other uses, chance gives k or more with
P(X ≥ k), X ~ Binomial(n, p). Of a thousand nodes one in a thousand looks bad by luck, so P is multiplied by the number of
nodes (Bonferroni): what is left is the chance that *any* of them would look so bad.
"""

from math import exp, lgamma, log, log1p

NAMED_BELOW = 0.01
FEWEST_JOBS = 3  # one job that fails again and again says more of the job than of the node
_FAINT = 1e-18


def at_least(successes: int, trials: int, share: float) -> float:
    """P(X ≥ successes) for X ~ Binomial(trials, share), summed term by term."""
    if successes <= 0 or share >= 1.0:
        return 1.0
    if share <= 0.0 or successes > trials:
        return 0.0
    whole = 0.0
    for count in range(successes, trials + 1):
        term = exp(_log_term(count, trials, share))
        whole += term
        if count > trials * share and term < whole * _FAINT:
            break
    return min(1.0, whole)


def corrected(chance: float, looked_at: int) -> float:
    """Bonferroni: the chance that any of so many would look like that."""
    return min(1.0, chance * max(1, looked_at))


def _log_term(count: int, trials: int, share: float) -> float:
    ways = lgamma(trials + 1) - lgamma(count + 1) - lgamma(trials - count + 1)
    return ways + count * log(share) + (trials - count) * log1p(-share)
