"""From a rule's pattern the simpler text that the scanner looks for. It finds too much, never too little."""

import re

_GAP = re.compile(r"\.\*\??|\.\{0,\d+\}\??|\[\^[^\]]+\]\*|\[\^[^\]]+\]\{0,\d+\}")
_FLAGS = re.compile(r"\(\?i\)")
_NOT_LETTERS = re.compile(r"\\[bBwWdDsS]|\(\?P<\w+>|\(\?[:!=]|[^A-Za-z0-9]")


def filter_text(pattern: str) -> str:
    """The most telling part between the gaps of a pattern, without a leading `^`.

    A gap (`.*`) between two parts costs the scanner hundreds of states; that both parts stand in one line in the right
    order is checked afterwards anyway, on the lines that it found. A line in the raw bytes may begin with colours and
    a prefix, so its begin is not asked for.
    """
    flag = "(?i)" if _FLAGS.match(pattern) else ""
    return flag + "|".join(_most_telling(choice) for choice in _cut(pattern[len(flag) :], re.compile(r"\|")))


def _most_telling(pattern: str) -> str:
    parts = [part for part in _cut(pattern.removeprefix("^"), _GAP) if part] or [pattern]
    return _trimmed(max(parts, key=_telling))


_LOOSE_BEGIN = re.compile(r"(?:\\[bwWsSdD]|\.|\[[^\]]+\]|\(\?:[^()|]*\))[*?+]\??|\\b")
_LOOSE_END = re.compile(r"(?<!\\)(?:\\[wWsSdD]|\.|\[[^\]]+\])[*?+]\??$")


def _trimmed(part: str) -> str:
    """Without what may match anything at its begin and end: there it only makes the search quadratic."""
    while (found := _LOOSE_BEGIN.match(part)) and found.end() < len(part):
        part = part[found.end() :]
    found = _LOOSE_END.search(part)
    return part[: found.start()] if found and found.start() > 0 else part


def _cut(pattern: str, separator: re.Pattern[str]) -> list[str]:
    """The parts between separators outside all groups."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(pattern):
        character = pattern[at]
        if depth == 0 and (found := separator.match(pattern, at)):
            parts.append(pattern[start:at])
            start = at = found.end()
            continue
        if character == "\\":
            at += 2
            continue
        if character == "[":
            at = _class_end(pattern, at)
        depth += {"(": 1, ")": -1}.get(character, 0)
        at += 1
    return [*parts, pattern[start:]]


def _class_end(pattern: str, at: int) -> int:
    """The place of the bracket that ends a character class."""
    end = at + 2
    while end < len(pattern) and pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    return end


def _telling(part: str) -> int:
    """How many letters the shortest alternative of a part has; none for a word that stands in every healthy log."""
    words = (_NOT_LETTERS.sub("", alternative) for alternative in part.split("|"))
    return min(0 if word.lower() in _EVERYWHERE else len(word) for word in words)


_EVERYWHERE = frozenset(
    [
        *("raylet", "node", "nodes", "worker", "workers", "pod", "pods", "gcs", "gcsserver", "head", "port", "job"),
        *("instance", "container", "connection", "image", "process", "processes", "thread", "threads", "dashboard"),
        *("token", "tokens", "cluster", "step", "rank", "group", "info", "network", "socket", "resource", "host"),
        *(
            "machine",
            "data",
            "model",
            "autoscaler",
            "checkpoint",
            "warning",
            "raycluster",
            "rayclusterat",
            "resourcerequests",
            "thedashboard",
        ),
    ]
)
