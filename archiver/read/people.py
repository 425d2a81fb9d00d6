"""What people say: kept in the bucket first, then in the index. Reading it, and writing it for those who may see it."""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core import keys, people
from archiver.core.people import Feedback, GroupDecision, GroupState
from archiver.errors import UserError
from archiver.index import groups as group_queries
from archiver.index import people as said_rows
from archiver.index.engine import reading, writing
from archiver.index.filters import Scope
from archiver.index.people import HISTORY
from archiver.index.queries import StoredAttempt, load_attempts
from archiver.index.tokens import Direction, Position, build_token, parse_token
from archiver.ports import ObjectStore

__all__ = ["HISTORY", "Answer", "Choice", "People", "SaidPage"]
MAX_ATTEMPT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person answers to "is the cause right?". ``should_be`` is a leaf's id, or empty."""

    who: str
    is_right: bool
    should_be: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person decides of a group."""

    who: str
    state: GroupState
    note: str = ""


@dataclass(frozen=True, slots=True)
class SaidPage:
    """Feedback, oldest first, each with the cursor that goes on behind it; ``is_last`` where there is no more now."""

    said: tuple[tuple[Feedback, str], ...]
    is_last: bool


class People:
    """``now`` is the moment at which something is said. Scope first, as everywhere."""

    def __init__(self, engine: AsyncEngine, store: ObjectStore, *, prefix: str = "") -> None:
        self._engine = engine
        self._store = store
        self._prefix = prefix

    async def feedback(self, scope: Scope, uid: str, number: int) -> tuple[Feedback, ...]:
        """On one attempt, newest first, at most HISTORY."""
        if not 0 < number <= MAX_ATTEMPT:
            return ()
        async with reading(self._engine) as connection:
            return await said_rows.load_feedback(connection, scope, uid, number)

    async def all_feedback(self, scope: Scope, *, cursor: str | None, size: int) -> SaidPage:
        """One page of all feedback, oldest first. Raises UserError for a cursor that is none."""
        position = parse_token(cursor, _FEEDBACK) if cursor else None
        after = (position.at, position.uid) if position else None
        async with reading(self._engine) as connection:
            found = await said_rows.page_feedback(connection, scope, after=after, size=size + 1)
        said = ((each, build_token(Position(Direction.OLDER, each.at, place), _FEEDBACK)) for place, each in found)
        return SaidPage(tuple(said)[:size], len(found) <= size)

    async def answer(self, scope: Scope, attempt: tuple[str, int], answer: Answer, *, now: datetime) -> Feedback | None:
        """Keeps a word on an attempt's verdict. None where there is no such attempt for this viewer."""
        stored = await self._attempt(scope, *attempt)
        if stored is None:
            return None
        verdict = stored.manifest.verdict
        if not verdict:
            raise UserError("this attempt has no verdict yet, so there is nothing to be right or wrong")
        said = Feedback(
            uid=stored.manifest.attempt.rayjob.uid,
            number=stored.manifest.attempt.number,
            at=now.astimezone(UTC),
            who=_name(answer.who),
            is_right=answer.is_right,
            cause=str(verdict.get("cause") or ""),
            ruleset=str(verdict.get("ruleset") or ""),
            should_be="" if answer.is_right else people.spoken(answer.should_be, people.MAX_NAME_CHARS),
            note=people.spoken(answer.note, people.MAX_NOTE_CHARS),
        )
        key = people.feedback_key(stored.key.removesuffix(keys.manifest_key("")), said)
        await self._store.put(key, people.to_json(said))
        async with writing(self._engine) as connection:
            await said_rows.write_feedback(connection, [(key, said)])
        return said

    async def decide(self, scope: Scope, fingerprint: str, choice: Choice, *, now: datetime) -> GroupDecision | None:
        """Keeps a decision. None where this viewer sees no such group."""
        async with reading(self._engine) as connection:
            extent = await group_queries.extent(connection, scope, fingerprint, since=now - people.WEEK)
        if extent is None:
            return None
        places = tuple(sorted(people.place(cluster, namespace) for cluster, namespace in extent.places))
        decision = GroupDecision(
            fingerprint=fingerprint,
            at=now.astimezone(UTC),
            who=_name(choice.who),
            state=choice.state,
            note=people.spoken(choice.note, people.MAX_NOTE_CHARS),
            weekly=extent.attempts,
            namespaces=None if scope.namespaces is None else places,
        )
        key = people.decision_key(self._prefix, decision)
        await self._store.put(key, people.to_json(decision))
        async with writing(self._engine) as connection:
            await said_rows.write_decisions(connection, [(key, decision)])
        return decision

    async def _attempt(self, scope: Scope, uid: str, number: int) -> StoredAttempt | None:
        if not 0 < number <= MAX_ATTEMPT:
            return None
        async with reading(self._engine) as connection:
            found = await load_attempts(connection, scope, uid, number=number)
        return found[0] if found else None


def _name(who: str) -> str:
    return people.spoken(who, people.MAX_NAME_CHARS) or "somebody"


_FEEDBACK = "feedback"
