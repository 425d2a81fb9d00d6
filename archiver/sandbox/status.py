"""Status documents: how the API server says no. Texts and codes as Kubernetes 1.34 writes them."""

from archiver.sandbox.jsontypes import JsonObject
from archiver.sandbox.resources import Resource


class ApiRefusal(Exception):
    """An answer that is a Status document."""

    def __init__(self, code: int, reason: str, message: str, *, details: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.document = status_document(code, reason, message, details=details)


def status_document(code: int, reason: str, message: str, *, details: JsonObject | None = None) -> JsonObject:
    document: JsonObject = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if details is not None:
        document["details"] = details
    document["code"] = code
    return {key: value for key, value in document.items() if value != "" or key == "message"}


def _qualified(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _details(resource: Resource, name: str) -> JsonObject:
    details: JsonObject = {"name": name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details


def not_found(resource: Resource, name: str) -> ApiRefusal:
    message = f'{_qualified(resource)} "{name}" not found'
    return ApiRefusal(404, "NotFound", message, details=_details(resource, name))


def no_such_resource() -> ApiRefusal:
    return ApiRefusal(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(resource: Resource, name: str) -> ApiRefusal:
    message = f'{_qualified(resource)} "{name}" already exists'
    return ApiRefusal(409, "AlreadyExists", message, details=_details(resource, name))


def conflict(resource: Resource, name: str) -> ApiRefusal:
    message = (
        f'Operation cannot be fulfilled on {_qualified(resource)} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    return ApiRefusal(409, "Conflict", message, details=_details(resource, name))


def expired(message: str) -> ApiRefusal:
    return ApiRefusal(410, "Expired", message)


def too_old(asked: int, oldest: int) -> ApiRefusal:
    return expired(f"too old resource version: {asked} ({oldest})")


def bad_request(message: str) -> ApiRefusal:
    return ApiRefusal(400, "BadRequest", message)


def invalid(kind: str, name: str, causes: list[tuple[str, str]]) -> ApiRefusal:
    """422. ``causes``: field and what is wrong with it."""
    listed = [f"{field}: {text}" for field, text in causes]
    body = listed[0] if len(listed) == 1 else "[" + ", ".join(listed) + "]"
    details = {
        "name": name,
        "kind": kind,
        "causes": [{"reason": "FieldValueInvalid", "message": text, "field": field} for field, text in causes],
    }
    return ApiRefusal(422, "Invalid", f'{kind} "{name}" is invalid: {body}', details=details)


def unauthorized() -> ApiRefusal:
    return ApiRefusal(401, "Unauthorized", "Unauthorized")


def forbidden(user: str, verb: str, resource: Resource, *, subresource: str, namespace: str, name: str) -> ApiRefusal:
    """403 of RBAC, which names the verb and the resource that the user lacks."""
    full = f"{resource.plural}/{subresource}" if subresource else resource.plural
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    qualified = _qualified(resource) + (f' "{name}"' if name else "")
    message = (
        f'{qualified} is forbidden: User "{user}" cannot {verb} resource "{full}" '
        f'in API group "{resource.group}" {scope}'
    )
    details = {key: value for key, value in _details(resource, name).items() if value}
    return ApiRefusal(403, "Forbidden", message, details=details)


def unavailable(message: str) -> ApiRefusal:
    return ApiRefusal(503, "ServiceUnavailable", message)


def unsupported_media(accepted: list[str]) -> ApiRefusal:
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiRefusal(415, "UnsupportedMediaType", message)


def method_not_allowed() -> ApiRefusal:
    return ApiRefusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def injected(code: int) -> ApiRefusal:
    """The answer of ``fail_next``."""
    return ApiRefusal(code, _REASONS.get(code, "InternalError"), f"injected failure with status {code}")
