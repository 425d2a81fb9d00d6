"""What the API server's refusals mean: HTTP status and Status object into our error tree. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archiver.errors import KubeConflict, KubeDenied, KubeError, KubeGone, KubeNotReady, KubeUnavailable

_TEXT_LIMIT = 500
POD_LOGS = "pods/log"
# 400s of the log endpoint that mean "there is no such log", not "not yet" (kubelet_pods.go: validateContainerLogStatus).
_NO_SUCH_LOG = ("previous terminated container", "is not valid for pod", "not found")


@dataclass(frozen=True, slots=True)
class Call:
    """One request, with what an RBAC rule would call it, so that a refusal can name the missing right."""

    verb: str
    resource: str
    path: str
    namespace: str | None = None
    method: str = "GET"
    params: Mapping[str, str] | Sequence[tuple[str, str]] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_proxied: bool = False  # the answer may be somebody else's, whatever its status
    is_paced: bool = True  # False for what must not wait behind a thousand logs: the lease

    @property
    def intent(self) -> str:
        """``list rayjobs.ray.io in namespace team-a``."""
        where = f"in namespace {self.namespace}" if self.namespace else "in all namespaces"
        return f"{self.verb} {self.resource} {where}"


def status_message(body: bytes) -> str:
    """The Status object's message, or the body's text, shortened."""
    try:
        document = json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace").strip()[:_TEXT_LIMIT]
    message = document.get("message") if isinstance(document, dict) else None
    return str(message or document)[:_TEXT_LIMIT]


def is_status(body: bytes) -> bool:
    """Whether a refusal is the API server's own, rather than that of a server behind its proxy."""
    try:
        document = json.loads(body)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("kind") == "Status" and document.get("apiVersion") == "v1"


def denied(call: Call, message: str, *, is_unauthenticated: bool = False) -> KubeDenied:
    """The sentence that a person can act upon."""
    plural, _, group = call.resource.partition(".")
    said = f" (the API server says: {message})" if message else ""
    if is_unauthenticated:
        return KubeDenied(
            f"cannot {call.intent}: the API server does not accept our credentials; renew the token, certificate or "
            f"exec plugin of this kubeconfig context or service account{said}"
        )
    kind = "ClusterRole" if call.namespace is None else f"Role in namespace {call.namespace}"
    return KubeDenied(
        f'cannot {call.intent}: grant the verb "{call.verb}" on "{plural}" of API group "{group}" in a {kind}{said}'
    )


def error_of(call: Call, status: int, message: str) -> KubeError:
    """The error for an HTTP status (or the code of a watch's ERROR event) of 400 and more."""
    if status in (401, 403):
        return denied(call, message, is_unauthenticated=status == 401)
    sentence = f"cannot {call.intent}: HTTP {status}: {message}"
    if status == 410:
        return KubeGone(sentence)
    if status == 409:
        return KubeConflict(sentence)
    if status == 408 or status == 429 or status >= 500:
        return KubeUnavailable(sentence)
    if status == 400 and call.resource == POD_LOGS:
        is_gone = any(text in message for text in _NO_SUCH_LOG)
        return KubeGone(sentence) if is_gone else KubeNotReady(sentence)
    return KubeError(sentence)
