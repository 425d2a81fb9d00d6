"""Addresses of the REST API: one place where paths are written, for routes and for links alike. Pages have their own."""

from urllib.parse import quote

API = "/api/v1"
OPENAPI = f"{API}/openapi.json"
JOBS = "/jobs"
EXPORT = "/jobs.ndjson"
FACETS = "/facets"
JOB = "/jobs/{uid}"
NAMED = "/clusters/{cluster}/namespaces/{namespace}/jobs/{name}"
ATTEMPT = "/jobs/{uid}/attempts/{number}"
ARTIFACTS = f"{ATTEMPT}/artifacts"
EVENTS = f"{ATTEMPT}/events"
TIMELINE = f"{ATTEMPT}/timeline"
MANIFEST = f"{ATTEMPT}/manifest"
# an artifact's name has slashes, so it ends the path; /raw is tried first
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
