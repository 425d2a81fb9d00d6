"""Every kind of failure in several wordings of the software: none of them is a rule's own example."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from archiver.diagnosis import Evidence, Ruleset, diagnose

WORDINGS: list[Mapping[str, Any]] = yaml.load(
    (Path(__file__).parents[2] / "data" / "wordings.yaml").read_text(), yaml.CSafeLoader
)


@pytest.mark.parametrize("wording", WORDINGS, ids=[f"{at}-{each['cause']}" for at, each in enumerate(WORDINGS)])
def test_the_cause_is_known_in_any_wording(ruleset: Ruleset, wording: Mapping[str, Any]) -> None:
    evidence = {name: part for name, part in wording.items() if name not in ("cause", "acceptable")}
    verdict = diagnose(Evidence.from_case({"id": "x", "evidence": evidence}), ruleset)
    assert verdict.cause in (wording["cause"], *wording.get("acceptable", ()))


def test_nearly_every_cause_has_a_wording(ruleset: Ruleset) -> None:
    counted = Counter(each["cause"] for each in WORDINGS)
    assert len(counted) >= 60
    assert set(counted) <= set(ruleset.leaves)
