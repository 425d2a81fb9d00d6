"""Where everything lies in the bucket: deterministic keys, built and parsed. Not the objects themselves.

``<prefix>/v1/<cluster>/<namespace>/<yyyy-mm-dd>/<rayjob>/<uid>/attempt-001/logs/submitter.log.zst``; the date is the
RayJob's creationTimestamp in UTC, because it never changes. Every component is safe as a file name too: unusual
characters are percent-encoded, and a component over 200 bytes is shortened and ends in a hash of the whole.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from hashlib import sha256
from urllib.parse import unquote_to_bytes

from archiver.core.model import AttemptId, RayJobId

LAYOUT = "v1"
SUFFIX = ".zst"
COMPONENT_BYTES = 200
_HASH_CHARS = 16
_PARTS = ".parts"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.=@+,")
_ATTEMPT = re.compile(r"attempt-(\d{3,})")


@dataclass(frozen=True, slots=True)
class RayJobPlace:
    """Where a RayJob is kept. ``created`` is its creationTimestamp; ``prefix`` the setting, may be empty."""

    prefix: str
    rayjob: RayJobId
    created: date


@dataclass(frozen=True, slots=True)
class ParsedKey:
    """What a key says. ``attempt`` is None for what belongs to the whole RayJob.

    ``name`` is the rest below the RayJob's or attempt's prefix, still encoded, with its suffix. Components that were
    shortened stay so: building from a parsed key gives the same key again.
    """

    place: RayJobPlace
    attempt: AttemptId | None
    name: str


def place_of(prefix: str, rayjob: RayJobId, created: datetime) -> RayJobPlace:
    """The place of a RayJob that was created at a moment."""
    return RayJobPlace(prefix.strip("/"), rayjob, created.astimezone(UTC).date())


def rayjob_prefix(place: RayJobPlace) -> str:
    """Ends with a slash, as every prefix here."""
    job = place.rayjob
    parts = [_encode(part) for part in (job.cluster, job.namespace, place.created.isoformat(), job.name, job.uid)]
    root = f"{place.prefix}/{LAYOUT}" if place.prefix else LAYOUT
    return f"{root}/{'/'.join(parts)}/"


def attempt_prefix(place: RayJobPlace, number: int) -> str:
    """``number`` counts from 1."""
    return f"{rayjob_prefix(place)}attempt-{number:03d}/"


def artifact_key(prefix: str, name: str) -> str:
    """The object of an artifact. ``name`` may have folders (``logs/ray/node-1/raylet.out``)."""
    return f"{prefix}{encode_name(name)}{SUFFIX}"


def parts_prefix(prefix: str, name: str) -> str:
    """Where the parts of a log that is not sealed yet lie."""
    return f"{all_parts_prefix(prefix)}{encode_name(name)}{SUFFIX}/"


def all_parts_prefix(prefix: str) -> str:
    """The parts of every log of an attempt."""
    return f"{prefix}{_PARTS}/"


def parts_prefix_of(key: str) -> str | None:
    """Where the parts of an artifact's object lie; None for what is no artifact of an attempt."""
    pieces = key.split("/")
    at = next((number for number, piece in enumerate(pieces) if _ATTEMPT.fullmatch(piece)), None)
    if at is None or at + 1 >= len(pieces):
        return None
    return "/".join([*pieces[: at + 1], _PARTS, *pieces[at + 1 :]]) + "/"


def part_key(prefix: str, name: str, sequence: int) -> str:
    """One part. ``sequence`` counts from 0 in the order of writing."""
    return f"{parts_prefix(prefix, name)}{sequence:08d}{SUFFIX}"


def part_sequence(key: str) -> int | None:
    """The number of a part's key, None where it is no part."""
    name = key.rpartition("/")[2].removesuffix(SUFFIX)
    return int(name) if len(name) == 8 and name.isdecimal() and name.isascii() else None


def part_name(prefix: str, key: str) -> str | None:
    """The artifact name that a part's key belongs to, None where it is no part."""
    root = all_parts_prefix(prefix)
    folder = key.rpartition("/")[0]
    if not key.startswith(root) or part_sequence(key) is None or not folder.endswith(SUFFIX):
        return None
    return decode_name(folder[len(root) :].removesuffix(SUFFIX))


def manifest_key(prefix: str) -> str:
    """The commit record of an attempt."""
    return f"{prefix}manifest.json"


def verdict_key(prefix: str, ruleset: str) -> str:
    """One verdict of an attempt."""
    return f"{prefix}verdicts/{_encode(ruleset)}.json"


def rayjob_key(place: RayJobPlace) -> str:
    """Every version of a RayJob's status and spec."""
    return f"{rayjob_prefix(place)}rayjob.json{SUFFIX}"


def parse(key: str, prefix: str = "") -> ParsedKey | None:
    """What a key below the prefix says; None where it is not of this layout."""
    root = f"{prefix.strip('/')}/{LAYOUT}/".lstrip("/")
    pieces = key.removeprefix(root).split("/", 5)
    if not key.startswith(root) or len(pieces) < 6 or not pieces[5]:
        return None
    cluster, namespace, day, name, uid = (decode_name(piece) for piece in pieces[:5])
    created = _day(day)
    if created is None:
        return None
    rayjob = RayJobId(cluster, namespace, name, uid)
    number, rest = _attempt(pieces[5])
    attempt = AttemptId(rayjob, number) if number else None
    return ParsedKey(RayJobPlace(prefix.strip("/"), rayjob, created), attempt, rest)


def encode_name(name: str) -> str:
    """A path whose every component is safe. Empty components vanish."""
    return "/".join(_encode(part) for part in name.split("/") if part)


def decode_name(name: str) -> str:
    """The inverse; shortened components stay shortened."""
    return unquote_to_bytes(name).decode(errors="surrogateescape")


def _attempt(rest: str) -> tuple[int, str]:
    folder, slash, name = rest.partition("/")
    found = _ATTEMPT.fullmatch(folder)
    return (int(found[1]), name) if found and slash and int(found[1]) else (0, rest)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        return None


def _encode(component: str) -> str:
    raw = _bytes(component)
    # A tilde that is followed by sixteen hex digits at the end marks what was shortened before: leave it alone.
    body, mark = (raw[: -_HASH_CHARS - 1], raw[-_HASH_CHARS - 1 :]) if _is_shortened(raw) else (raw, b"")
    encoded = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in body) + mark.decode()
    if encoded.startswith("."):
        encoded = "%2E" + encoded[1:]
    if len(encoded) <= COMPONENT_BYTES:
        return encoded
    digest = sha256(raw).hexdigest()[:_HASH_CHARS]
    return f"{_cut(encoded)}~{digest}"


def _bytes(component: str) -> bytes:
    try:
        return component.encode(errors="surrogateescape")
    except UnicodeEncodeError:  # half a character, and no byte in disguise
        return component.encode(errors="backslashreplace")


def _cut(encoded: str) -> str:
    # not in the middle of a %XX
    return re.sub(r"%[0-9A-F]?$", "", encoded[: COMPONENT_BYTES - _HASH_CHARS - 1])


_SHORTENED = re.compile(rb"~[0-9a-f]{%d}" % _HASH_CHARS)


def _is_shortened(raw: bytes) -> bool:
    return _SHORTENED.fullmatch(raw[-_HASH_CHARS - 1 :]) is not None
