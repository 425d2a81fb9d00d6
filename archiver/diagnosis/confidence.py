"""How sure a verdict is, as one small table and four corrections. Not a model: docs/causes.md prints the same numbers."""

from archiver.diagnosis.outcome import Outcome
from archiver.diagnosis.ruleset import Role, Strength
from archiver.diagnosis.signals import Found
from archiver.diagnosis.weigh import Candidate

BASE = {Strength.CERTAIN: 0.95, Strength.STRONG: 0.86, Strength.MEDIUM: 0.70, Strength.WEAK: 0.48, Strength.HINT: 0.20}
UNKNOWN_BELOW = 0.40
CAP = 0.98
OTHER_RULE = 0.03
OTHER_KIND = 0.02
RIVAL_EQUAL = 0.10
RIVAL_WEAKER = 0.02
RIVAL_BOTH_WEAK = 0.05
RIVALS_CAP = 0.20
CONTRADICTION = 0.15
FORMULA = (
    f"Base by the strongest signal: certain {BASE[Strength.CERTAIN]}, strong {BASE[Strength.STRONG]}, "
    f"medium {BASE[Strength.MEDIUM]}, weak {BASE[Strength.WEAK]}. "
    f"+{OTHER_RULE} where a second rule of the same leaf holds, +{OTHER_KIND} where a structured fact and a log line agree. "
    f"-{RIVAL_EQUAL} for each unexplained rival of the same strength ({RIVAL_BOTH_WEAK} among weak ones), "
    f"-{RIVAL_WEAKER} for each weaker one "
    f"(at most -{RIVALS_CAP}). -{CONTRADICTION} where the status fields contradict the cause. "
    f"Never above {CAP}; below {UNKNOWN_BELOW} the verdict is `unknown`."
)


def confidence(candidate: Candidate, candidates: list[Candidate], outcome: Outcome) -> float:
    """The probability that this candidate is the cause, by the formula above."""
    if candidate.strength <= 0:
        return BASE[Strength.HINT]
    sure = BASE[Strength(candidate.strength)]
    counted = [item for item in candidate.signals if item.strength > 0]
    if len({item.signal.rule.id for item in counted}) > 1:
        sure += OTHER_RULE
    if len({item.signal.is_fact for item in counted}) > 1:
        sure += OTHER_KIND
    sure -= _rivals(candidate, candidates)
    if outcome.is_contradictory or outcome.is_success:
        sure -= CONTRADICTION
    return round(max(0.05, min(CAP, sure)), 3)


def _rivals(candidate: Candidate, candidates: list[Candidate]) -> float:
    others = [other for other in candidates if other.leaf.id != candidate.leaf.id and not other.explained_by]
    equal = RIVAL_EQUAL if candidate.strength > Strength.WEAK else RIVAL_BOTH_WEAK
    lost = sum(equal if other.strength >= candidate.strength else RIVAL_WEAKER for other in others)
    return min(RIVALS_CAP, lost)


def hinted(found: Found) -> list[str]:
    """Leaves that the symptoms point at, likeliest first, for a verdict that is unknown."""
    points: dict[str, float] = {}
    for signal in found.signals:
        if signal.rule.role is Role.CASCADE:
            for place, leaf_id in enumerate(signal.rule.suggests):
                points[leaf_id] = points.get(leaf_id, 0.0) + 1 / (1 + place)
    return sorted(points, key=lambda leaf_id: (-points[leaf_id], leaf_id))
