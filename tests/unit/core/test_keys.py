"""Keys of the bucket: built, parsed, and safe as file names."""

from datetime import UTC, date, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from archiver.core import keys
from archiver.core.model import AttemptId, RayJobId

JOB = RayJobId("prod-eu", "ml", "train-7b", "0b8e7d2c-1111-2222-3333-444455556666")
PLACE = keys.RayJobPlace("archive", JOB, date(2026, 3, 1))

any_name = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=253)
short_name = st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=16)


def test_the_layout_is_the_documented_one() -> None:
    prefix = keys.attempt_prefix(PLACE, 1)
    assert prefix == "archive/v1/prod-eu/ml/2026-03-01/train-7b/0b8e7d2c-1111-2222-3333-444455556666/attempt-001/"
    assert keys.artifact_key(prefix, "logs/submitter.log") == prefix + "logs/submitter.log.zst"
    assert keys.parts_prefix(prefix, "logs/submitter.log") == prefix + ".parts/logs/submitter.log.zst/"
    assert keys.part_key(prefix, "logs/submitter.log", 7) == prefix + ".parts/logs/submitter.log.zst/00000007.zst"
    assert keys.manifest_key(prefix) == prefix + "manifest.json"
    assert keys.verdict_key(prefix, "2026.1") == prefix + "verdicts/2026.1.json"
    assert keys.rayjob_key(PLACE).endswith("/rayjob.json.zst")


def test_the_date_is_the_creation_in_utc() -> None:
    late = datetime(2026, 3, 2, 0, 30, tzinfo=timezone(timedelta(hours=2)))
    assert keys.place_of("/archive/", JOB, late) == PLACE
    assert keys.place_of("", JOB, datetime(2026, 3, 1, tzinfo=UTC)).prefix == ""


@given(short_name, short_name, short_name, st.integers(1, 5000), st.sampled_from(["", "a", "a/b"]))
def test_a_parsed_key_is_what_was_built(cluster: str, namespace: str, name: str, number: int, prefix: str) -> None:
    rayjob = RayJobId(cluster, namespace, name, "uid-1")
    place = keys.RayJobPlace(prefix, rayjob, date(2026, 3, 1))
    parsed = keys.parse(keys.artifact_key(keys.attempt_prefix(place, number), "logs/x.log"), prefix)
    assert parsed == keys.ParsedKey(place, AttemptId(rayjob, number), "logs/x.log.zst")
    assert keys.parse(keys.rayjob_key(place), prefix) == keys.ParsedKey(place, None, "rayjob.json.zst")


@given(any_name, any_name)
def test_building_from_a_parsed_key_gives_the_same_key(name: str, artifact: str) -> None:
    key = keys.rayjob_prefix(keys.RayJobPlace("p", RayJobId("c", "n", name, "u"), date(2026, 3, 1))) + "x"
    parsed = keys.parse(key, "p")
    assert parsed is not None
    assert keys.rayjob_prefix(parsed.place) + "x" == key
    assert keys.encode_name(keys.decode_name(keys.encode_name(artifact))) == keys.encode_name(artifact)


@given(any_name)
def test_every_component_can_be_a_file(name: str) -> None:
    for component in keys.artifact_key("", f"logs/{name}").split("/"):
        assert component not in ("", ".", "..")
        assert not component.startswith(".")
        assert len(component.encode()) <= keys.COMPONENT_BYTES + len(keys.SUFFIX)
        assert component.isascii()


def test_long_names_that_differ_at_the_end_only_stay_apart() -> None:
    one, two = keys.encode_name("a" * 252 + "1"), keys.encode_name("a" * 252 + "2")
    assert one != two
    assert len(one) <= keys.COMPONENT_BYTES


def test_an_artifact_cannot_leave_its_attempt() -> None:
    key = keys.artifact_key("v1/x/attempt-001/", "../../../manifest.json")
    assert key == "v1/x/attempt-001/%2E./%2E./%2E./manifest.json.zst"


@given(st.lists(short_name, min_size=1, max_size=3).map("/".join), st.integers(0, 99_999_999))
def test_a_part_tells_its_stream_and_number(name: str, sequence: int) -> None:
    key = keys.part_key("v1/x/attempt-002/", name, sequence)
    assert keys.part_sequence(key) == sequence
    assert keys.part_name("v1/x/attempt-002/", key) == name
    assert keys.parts_prefix_of(keys.artifact_key("v1/x/attempt-002/", name)) == key.rpartition("/")[0] + "/"


def test_what_is_of_another_layout_is_not_parsed() -> None:
    for key in ("", "x", "v2/c/n/2026-03-01/j/u/rayjob.json.zst", "v1/c/n/yesterday/j/u/x", "v1/c/n/2026-03-01/j/u/"):
        assert keys.parse(key) is None
    assert keys.part_sequence("a/.parts/x.zst/newline.zst") is None
    assert keys.parts_prefix_of("v1/c/n/2026-03-01/j/u/rayjob.json.zst") is None
