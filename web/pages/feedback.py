"""The small form under a verdict, "is this right?", and what was answered. Plain values for ``partials/feedback.html``."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import groupby

from archiver.core.people import Feedback
from archiver.diagnosis import load_ruleset
from archiver.diagnosis.ruleset import Leaf
from archiver.read.people import Answer
from archiver.read.views import AttemptView
from web.deps import Viewer
from web.pages import links


@dataclass(frozen=True, slots=True)
class Said:
    """One answer in words."""

    who: str
    at: datetime
    words: str
    note: str


@dataclass(frozen=True, slots=True)
class FeedbackForm:
    """``causes`` are (category, leaves) to choose from; ``case_href`` gives the attempt as a case file for the rules."""

    action: str
    title: str
    said: tuple[Said, ...]
    causes: tuple[tuple[str, tuple[Leaf, ...]], ...]
    case_href: str


async def feedback_values(viewer: Viewer, uid: str, attempt: AttemptView) -> dict[str, object]:
    """``feedback``: None where there is no verdict to speak of."""
    if attempt.verdict is None:
        return {"feedback": None}
    found = await viewer.reader.people.feedback(viewer.scope, uid, attempt.number)
    form = FeedbackForm(
        action=links.feedback(uid, attempt.number),
        title=attempt.verdict.brief.title,
        said=said(found),
        causes=choices(),
        case_href=links.case(uid, attempt.number),
    )
    return {"feedback": form}


def said(found: Sequence[Feedback]) -> tuple[Said, ...]:
    return tuple(Said(each.who, each.at, _words(each), each.note) for each in found)


def answer_of(fields: dict[str, str]) -> Answer:
    """What the form says."""
    return Answer(
        who=fields.get("who", ""),
        is_right=fields.get("right") == "yes",
        should_be=fields.get("should_be", ""),
        note=fields.get("note", ""),
    )


@lru_cache(maxsize=1)
def leaves() -> dict[str, Leaf]:
    """Every cause that the rules know, by its id."""
    return dict(load_ruleset().leaves)


@lru_cache(maxsize=1)
def choices() -> tuple[tuple[str, tuple[Leaf, ...]], ...]:
    """By category, in the order of their titles."""
    known = sorted(leaves().values(), key=lambda leaf: (leaf.category, leaf.title))
    return tuple((category, tuple(members)) for category, members in groupby(known, key=lambda leaf: leaf.category))


def title_of(leaf: str) -> str:
    """A cause's human title; the id as words where the rules do not know it (any more)."""
    known = leaves().get(leaf)
    return known.title if known else leaf.replace("-", " ")


def _words(each: Feedback) -> str:
    if each.is_right:
        return "says that this is right"
    was = f" It was: {title_of(each.should_be)}." if each.should_be else ""
    return f"says that this is wrong ({title_of(each.cause)})." + was
