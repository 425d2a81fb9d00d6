"""Addresses that the pages point at. Pure; every part is quoted."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from archiver.read.runs import OtherRun
from web import urls

Params = Mapping[str, str | int | Sequence[str] | None]


def with_query(path: str, params: Params) -> str:
    """The path with those parameters that are set."""
    kept = {name: value for name, value in params.items() if value not in (None, "", (), [])}
    return f"{path}?{urlencode(kept, doseq=True)}" if kept else path


def static(name: str) -> str:
    return f"/static/{name}"


def listing(**params: str | int | Sequence[str] | None) -> str:
    return with_query("/", params)


def job(uid: str) -> str:
    return f"/jobs/{quote(uid, safe='')}"


def attempt(uid: str, number: int) -> str:
    return f"{job(uid)}/attempts/{number}"


def difference(uid: str, number: int, other: OtherRun | None = None) -> str:
    """What sets it apart from another attempt; without one, from the last good run."""
    wanted = f"{other.uid}/{other.number}" if other else None
    return with_query(f"{attempt(uid, number)}/difference", {"with": wanted})


def bundle(uid: str, number: int) -> str:
    """Everything of an attempt as one file, from the REST API."""
    return urls.bundle(uid, number)


def relative(path: str) -> str:
    """A file beside this one: never taken for a scheme or a host."""
    return f"./{quote(path, safe='/')}"


def feedback(uid: str, number: int) -> str:
    """Where the form under a verdict is sent."""
    return f"{attempt(uid, number)}/feedback"


def case(uid: str, number: int) -> str:
    """The attempt as a case file for the rules, from the REST API."""
    return urls.case(uid, number)


def group(fingerprint: str) -> str:
    return f"/groups/{quote(fingerprint, safe='')}"


def decide(fingerprint: str) -> str:
    """Where the form of a group is sent."""
    return f"{group(fingerprint)}/state"


def groups(**params: str | int | Sequence[str] | None) -> str:
    return with_query("/groups", params)


def cause(leaf: str) -> str:
    return f"/causes/{quote(leaf, safe='')}"


def log(uid: str, number: int, artifact: str, **params: str | int | None) -> str:
    """The log page. With ``line`` the address ends in the line's anchor."""
    line = params.get("line")
    address = with_query(f"{attempt(uid, number)}/logs/{quote(artifact, safe='/')}", params)
    return f"{address}#L{line}" if line else address


def raw(uid: str, number: int, artifact: str) -> str:
    """The bytes themselves, from the REST API."""
    return urls.raw_log(uid, number, artifact)


def named(cluster: str, namespace: str, name: str) -> str:
    return "/" + "/".join(quote(part, safe="") for part in (cluster, namespace, name))


def api_jobs(**params: str | int | Sequence[str] | None) -> str:
    return with_query(urls.API + urls.JOBS, params)


def api_export(**params: str | int | Sequence[str] | None) -> str:
    """The whole list as NDJSON."""
    return with_query(urls.API + urls.EXPORT, params)


def csv(**params: str | int | Sequence[str] | None) -> str:
    return with_query("/jobs.csv", params)
