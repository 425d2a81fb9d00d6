"""The stem of a generated name: what a nightly or templated RayJob is called without its run's own ending."""

import re

# kube's generateName draws from these; a number, a date or a long hex end is as telling
_GENERATED = re.compile(
    r"-(?:\d+|\d{8}[t-]?\d{4,6}z?|(?=[a-z0-9]*\d)[bcdfghjklmnpqrstvwxz2456789]{5}|(?=[0-9a-f]*\d)[0-9a-f]{8,})$"
)
_ENDINGS = 3


def stem(name: str) -> str:
    """``nightly-etl-29012345-x7k2p`` is one of ``nightly-etl``; a name without such an ending is its own stem."""
    for _ in range(_ENDINGS):
        shorter = _GENERATED.sub("", name)
        if not shorter or shorter == name:
            break
        name = shorter
    return name
