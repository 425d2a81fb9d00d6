"""Addresses of the REST API: one place where paths are written, for routes and for links alike. Pages have their own."""

from urllib.parse import quote

API = "/api/v1"
OPENAPI = f"{API}/openapi.json"
JOBS = "/jobs"
EXPORT = "/jobs.ndjson"
FACETS = "/facets"
SEARCH = "/search"
JOB = "/jobs/{uid}"
NAMED = "/clusters/{cluster}/namespaces/{namespace}/jobs/{name}"
ATTEMPT = "/jobs/{uid}/attempts/{number}"
ARTIFACTS = f"{ATTEMPT}/artifacts"
EVENTS = f"{ATTEMPT}/events"
TIMELINE = f"{ATTEMPT}/timeline"
MANIFEST = f"{ATTEMPT}/manifest"
VERDICTS = f"{ATTEMPT}/verdicts"
DIFFERENCE = f"{ATTEMPT}/difference"
BUNDLE = f"{ATTEMPT}/bundle"
FEEDBACK = f"{ATTEMPT}/feedback"
CASE = f"{ATTEMPT}/case"
ALL_FEEDBACK = "/feedback.ndjson"
GROUPS = "/groups"
GROUPS_EXPORT = "/groups.ndjson"
GROUP = "/groups/{fingerprint}"
GROUP_DECISIONS = f"{GROUP}/decisions"
CAUSES = "/causes"
CAUSE = "/causes/{leaf}"
STATS = "/stats"
TEAMS = "/teams"
NODES = "/nodes"
# an artifact's name has slashes, so it ends the path; what may follow it is tried first
LOG_GREP = f"{ATTEMPT}/logs/{{artifact:path}}/grep"
LOG_TAIL = f"{ATTEMPT}/logs/{{artifact:path}}/tail"
LOG_RAW = f"{ATTEMPT}/logs/{{artifact:path}}/raw"
LOG = f"{ATTEMPT}/logs/{{artifact:path}}"


def job(uid: str) -> str:
    return f"{API}/jobs/{quote(uid, safe='')}"


def attempt(uid: str, number: int) -> str:
    return f"{job(uid)}/attempts/{number}"


def log(uid: str, number: int, artifact: str) -> str:
    return f"{attempt(uid, number)}/logs/{quote(artifact, safe='/')}"


def raw_log(uid: str, number: int, artifact: str) -> str:
    return f"{log(uid, number, artifact)}/raw"


def case(uid: str, number: int) -> str:
    return f"{attempt(uid, number)}/case"


def bundle(uid: str, number: int) -> str:
    return f"{attempt(uid, number)}/bundle"


def group(fingerprint: str) -> str:
    return f"{API}/groups/{quote(fingerprint, safe='')}"


def tail(uid: str, number: int, artifact: str) -> str:
    return f"{log(uid, number, artifact)}/tail"
