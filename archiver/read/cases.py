"""An archived attempt as a case file: its evidence in the format that the rules are tested with, and what people say it was.

The excerpt is small enough to read: of each log the lines around what the verdict cites, and its end.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from archiver.core.model import ArtifactKind
from archiver.core.people import Feedback
from archiver.errors import DataError
from archiver.index.queries import StoredAttempt
from archiver.index.verdicts import read_verdict
from archiver.read.documents import Version, dig, entries, versions, word
from archiver.read.evidence import Evidence
from archiver.read.windows import Around, Tail, Window

MAX_LOGS = 12
CONTEXT, END = 40, 120
EVENTS = 300


async def build_case(evidence: Evidence, stored: StoredAttempt, said: Sequence[Feedback]) -> dict[str, Any]:
    """``said`` is newest first: the newest word is what is expected. Without one the case has no ``expected``."""
    attempt = stored.manifest.attempt
    rayjobs = await _newest(evidence, stored, "kube/rayjobs.ndjson")
    case: dict[str, Any] = {
        "id": f"{attempt.rayjob.uid}-{attempt.number}",
        "evidence": {
            "rayjob_status": dict(dig(rayjobs[-1], "status") or {}) if rayjobs else {},
            "pods": [_pod(pod) for pod in await _newest(evidence, stored, "kube/pods.ndjson")],
            "k8s_events": list(await _newest(evidence, stored, "events/kubernetes.ndjson"))[-EVENTS:],
            "node_conditions": [_node(node) for node in await _newest(evidence, stored, "kube/nodes.ndjson")],
            "logs": await _logs(evidence, stored),
        },
    }
    if said:
        case["expected"] = _expected(said[0], stored)
    return case | {"source": f"archive: {attempt.rayjob.namespace}/{attempt.rayjob.name}, attempt {attempt.number}"}


def _expected(word_of: Feedback, stored: StoredAttempt) -> dict[str, Any]:
    """Lines that the verdict cites are the decisive ones only where somebody says that it is right."""
    verdict = read_verdict(stored.manifest.verdict, stored.manifest.artifacts)
    lines = [place.text for place in verdict.evidence if place.text] if verdict and word_of.is_right else []
    cause = word_of.cause if word_of.is_right else word_of.should_be or "unknown"
    return {
        "cause": cause,
        "category": verdict.category if verdict and word_of.is_right else "",
        "acceptable": [],
        "visible": "yes" if word_of.is_right or word_of.should_be else "no",
        "root_lines": lines,
        "owner": verdict.owner if verdict and word_of.is_right else "",
        "explanation": word_of.note,
    }


async def _newest(evidence: Evidence, stored: StoredAttempt, name: str) -> list[Mapping[str, Any]]:
    """The newest version of each object, in the order of their first one. Damaged streams count as not there."""
    try:
        found = await evidence.document(stored, name)
    except DataError:
        return []
    newest: dict[str, Version] = {}
    for version in versions(found[0]) if found else ():
        newest[word(version.object, "metadata", "uid") or word(version.object, "metadata", "name")] = version
    return [version.object for version in newest.values()]


def _pod(pod: Mapping[str, Any]) -> dict[str, Any]:
    """What a diagnosis looks at; the spec is long."""
    kept = {name: dig(pod, "metadata", name) for name in ("name", "namespace", "labels", "deletionTimestamp")}
    return {
        "metadata": {name: value for name, value in kept.items() if value},
        "spec": {"nodeName": word(pod, "spec", "nodeName")},
        "status": dig(pod, "status") or {},
    }


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    return {"node": word(node, "metadata", "name"), "conditions": list(entries(node, "status", "conditions"))}


async def _logs(evidence: Evidence, stored: StoredAttempt) -> dict[str, str]:
    manifest = stored.manifest
    verdict = read_verdict(manifest.verdict, manifest.artifacts)
    cited = {place.artifact: place for place in reversed(verdict.evidence)} if verdict else {}
    names = [each.name for each in manifest.artifacts if each.kind is ArtifactKind.LOG and each.key]
    names.sort(key=lambda name: name not in cited)
    texts = {}
    for name in names[:MAX_LOGS]:
        line = cited[name].line if name in cited else None
        text = await _excerpt(evidence, stored, name, line)
        if text:
            texts[name.removeprefix("logs/").removesuffix(".log")] = text
    return texts


async def _excerpt(evidence: Evidence, stored: StoredAttempt, name: str, line: int | None) -> str:
    wanted: list[Window] = [Around(line, CONTEXT), Tail(END)] if line else [Tail(END)]
    lines: dict[int, str] = {}
    for window in wanted:
        try:
            found = await evidence.window(stored, name, window)
        except DataError:
            continue
        lines |= {each.number: each.text for each in found.lines} if found else {}
    return "\n".join(text for _, text in sorted(lines.items()))
