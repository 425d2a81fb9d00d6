"""Stored verdicts of any ruleset: what is known is read, what is odd counts as not said."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.core.model import LogKind, LogSource
from archiver.diagnosis.verdict import Citation, Verdict
from archiver.index.verdicts import artifact_of, decisive, read_verdict
from tests.fakes.manifests import log, verdict

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(list(verdict()))


@given(st.dictionaries(fields, json_values, min_size=1))
def test_no_document_is_too_odd(document: dict[str, Any]) -> None:
    found = read_verdict(document, [log()])
    assert found is not None
    assert found.cause
    assert 0.0 <= found.confidence <= 1.0


def test_reads_what_the_diagnosis_writes() -> None:
    written = Verdict(
        id="x",
        cause="gpu-oom",
        category="gpu",
        owner="the job's owner",
        confidence=0.8,
        title="GPU memory exhausted",
        summary="It asked for more than there was.",
        ruleset="15",
        evidence=(Citation("status", 0, ""), Citation("driver", 7, "CUDA out of memory", rule="gpu.oom")),
        candidates=(("host-oom", 0.1),),
        missing=("node conditions",),
        next_steps=("smaller batches",),
    )
    found = read_verdict(written.to_json(), [log()])
    assert found is not None
    assert (found.cause, found.title, found.rule, found.ruleset) == ("gpu-oom", "GPU memory exhausted", "gpu.oom", "15")
    assert (found.candidates, found.missing) == ((("host-oom", 0.1),), ("node conditions",))
    place = decisive(found)
    assert place is not None
    assert (place.artifact, place.line, place.text) == ("logs/driver.log", 7, "CUDA out of memory")
    assert found.evidence[0].line is None


def test_no_verdict_is_none() -> None:
    assert read_verdict(None) is None
    assert read_verdict({}) is None


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("logs/driver.log", "logs/driver.log"),
        ("driver", "logs/driver.log"),
        ("ray/node-1/raylet.err", "logs/ray/node-1/raylet.err"),
        ("head", "logs/h.log"),
        ("worker", None),  # two of that kind
        ("status", None),
    ],
)
def test_a_source_is_found_among_the_artifacts(source: str, expected: str | None) -> None:
    kept = [
        log(),
        log("logs/ray/node-1/raylet.err", source=LogSource(LogKind.RAY)),
        log("logs/h.log", source=LogSource(LogKind.HEAD)),
        log("logs/w1.log", source=LogSource(LogKind.WORKER)),
        log("logs/w2.log", source=LogSource(LogKind.WORKER)),
    ]
    assert artifact_of(source, kept) == expected
