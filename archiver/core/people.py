"""What people say about the archive's verdicts: whether a cause is right, and what is to become of a group. Pure.

Each word is a document of its own in the bucket and never changed: the newest one counts, the older ones are history.
"""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any

from archiver.core import keys, records
from archiver.core.redact_text import mask_text
from archiver.errors import DataError, UserError

SCHEMA = 1
MAX_NOTE_CHARS = 2_000
MAX_NAME_CHARS = 100
WEEK = timedelta(days=7)
FEW = 5  # a group that was muted when it was small comes back when it is twice this


@dataclass(frozen=True, slots=True)
class Feedback:
    """One person's word on one attempt's verdict. ``cause`` and ``ruleset`` are what the archive said at that time.

    ``should_be`` is the leaf that it was instead; empty where the verdict is right, or where the person only knows that
    it is wrong. ``who`` is what the person called themselves.
    """

    uid: str
    number: int
    at: datetime
    who: str
    is_right: bool
    cause: str
    ruleset: str
    should_be: str = ""
    note: str = ""


class GroupState(StrEnum):
    OPEN = "open"
    MUTED = "muted"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """What somebody decided of a group. ``weekly`` is how many attempts had failed with it in the week before.

    ``namespaces`` are the places (``place``) of the group that the person could see; None where they may see everything.
    A note may quote evidence, so only those who may see all of these places are shown it.
    """

    fingerprint: str
    at: datetime
    who: str
    state: GroupState
    note: str = ""
    weekly: int = 0
    namespaces: tuple[str, ...] | None = None


def place(cluster: str, namespace: str) -> str:
    """One namespace of one cluster as a word. A namespace has no slash, so the first one parts the two."""
    return f"{namespace}/{cluster}"


def spoken(text: str, limit: int) -> str:
    """A person's words as they are kept: secrets masked, one form of line ends. Raises UserError for too many."""
    plain = text.replace("\r\n", "\n").strip()
    if len(plain) > limit:
        raise UserError(f"that is too long: {len(plain)} characters, where {limit} fit")
    masked, _ = mask_text(plain.encode("utf-8", "replace"))
    return masked.decode("utf-8", "replace")


def has_grown(decision: GroupDecision, last_week: int) -> bool:
    """Whether a muted group speaks again: twice as many as in the week before it was muted."""
    return last_week >= 2 * max(decision.weekly, FEW)


def came_back(decision: GroupDecision, last_at: datetime) -> bool:
    """Whether a resolved group failed again afterwards."""
    return decision.state is GroupState.RESOLVED and last_at > decision.at


def feedback_key(attempt_prefix: str, said: Feedback) -> str:
    """Beside the attempt's manifest, so that it is kept and expires with the evidence."""
    return f"{attempt_prefix}feedback/{_name(said.at, to_json(said))}"


def decision_key(prefix: str, decision: GroupDecision) -> str:
    """Groups span RayJobs, so what is decided of them has a place of its own."""
    folder = keys.encode_name(decision.fingerprint.replace("/", "_"))
    return f"{decisions_prefix(prefix)}{folder}/{_name(decision.at, to_json(decision))}"


def decisions_prefix(prefix: str) -> str:
    return f"{prefix.strip('/')}/groups/v1/".lstrip("/")


def is_feedback_key(key: str, prefix: str) -> bool:
    parsed = keys.parse(key, prefix)
    return parsed is not None and parsed.attempt is not None and parsed.name.startswith("feedback/")


def to_json(said: Feedback | GroupDecision) -> bytes:
    """For programs and for a person with jq."""
    document = {"schema": SCHEMA, **records.to_value(said)}
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode(errors="backslashreplace")


def feedback_from(body: bytes) -> Feedback:
    """Raises DataError."""
    found: Feedback = records.from_value(Feedback, _document(body))
    return replace(found, at=found.at.astimezone(UTC))


def decision_from(body: bytes) -> GroupDecision:
    """Raises DataError."""
    found: GroupDecision = records.from_value(GroupDecision, _document(body))
    return replace(found, at=found.at.astimezone(UTC))


def _document(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise DataError(f"what somebody said is not JSON: {error}") from error


def _name(at: datetime, body: bytes) -> str:
    """In the order of time; the hash keeps two that were said at once apart."""
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}-{sha256(body).hexdigest()[:12]}.json"
