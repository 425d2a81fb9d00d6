"""The manifest as JSON and back."""

import json
from dataclasses import fields
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.core.manifest import SCHEMA, Manifest, ManifestState, from_json, to_json
from archiver.core.model import Artifact, AttemptId, Completeness, Gap, RayJobId
from archiver.errors import DataError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
st.register_type_strategy(datetime, moments)
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
gaps = st.builds(Gap)
artifacts = st.builds(
    Artifact,
    gaps=st.lists(gaps, max_size=2).map(tuple),
    masked=st.dictionaries(st.text(), st.integers(0), max_size=2),
)
manifests = st.builds(
    Manifest,
    artifacts=st.lists(artifacts, max_size=2).map(tuple),
    verdict=st.none() | st.dictionaries(st.text(), json_values, max_size=2),
    spec=st.dictionaries(st.text(), json_values, max_size=3),
    versions=st.dictionaries(st.text(), st.text(), max_size=2),
    images=st.dictionaries(st.text(), st.text(), max_size=2),
)
MINIMAL = {
    "schema": SCHEMA,
    "attempt": {"rayjob": {"cluster": "c", "namespace": "n", "name": "j", "uid": "u"}, "number": 1},
    "state": "final",
    "revision": 2,
    "ray_cluster": None,
    "job_id": "j-1",
    "submission_mode": "K8sJobMode",
    "outcome": {},
    "times": {"ended": "2026-03-01T12:00:00.5Z"},
    "completeness": "complete",
    "completeness_reason": "",
}


@given(manifests)
def test_reading_gives_back_what_was_written(manifest: Manifest) -> None:
    assert from_json(to_json(manifest)) == manifest


def test_a_person_can_read_it() -> None:
    manifest = from_json(json.dumps(MINIMAL).encode())
    text = to_json(manifest).decode()
    assert text.startswith('{\n  "schema": 1,\n')
    assert '"ended": "2026-03-01T12:00:00.500000Z"' in text
    assert manifest.attempt == AttemptId(RayJobId("c", "n", "j", "u"), 1)
    assert manifest.state is ManifestState.FINAL
    assert manifest.completeness is Completeness.COMPLETE


def test_keys_of_a_newer_schema_are_left_out() -> None:
    newer = MINIMAL | {"schema": 9, "invented_later": [1]}
    assert from_json(json.dumps(newer).encode()) == from_json(json.dumps(MINIMAL).encode())


@pytest.mark.parametrize("name", [each.name for each in fields(Manifest) if each.name in MINIMAL])
def test_a_missing_field_is_named(name: str) -> None:
    with pytest.raises(DataError, match=name):
        from_json(json.dumps({key: value for key, value in MINIMAL.items() if key != name}).encode())


@pytest.mark.parametrize(
    "change",
    [{"revision": "two"}, {"revision": True}, {"state": "ready"}, {"times": {"ended": "soon"}}, {"artifacts": {}}],
)
def test_a_wrong_value_is_an_error(change: dict[str, object]) -> None:
    with pytest.raises(DataError):
        from_json(json.dumps(MINIMAL | change).encode())


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff"])
def test_what_is_no_manifest_is_an_error(body: bytes) -> None:
    with pytest.raises(DataError):
        from_json(body)
