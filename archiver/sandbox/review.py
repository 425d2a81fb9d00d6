"""SelfSubjectAccessReview: may I? Answered from the same rules that refuse requests."""

import json

from aiohttp import web

from archiver.sandbox.cluster import SandboxCluster
from archiver.sandbox.resources import Resource
from archiver.sandbox.status import bad_request, method_not_allowed
from archiver.sandbox.verbs import json_response

PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def answer(cluster: SandboxCluster, request: web.BaseRequest) -> web.Response:
    if request.method != "POST":
        raise method_not_allowed()
    try:
        asked = json.loads(await request.read())
        attributes = asked["spec"].get("resourceAttributes") or {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    plural, group = str(attributes.get("resource", "")), str(attributes.get("group", ""))
    resource = cluster.catalogue.by_plural(plural, group=group) or Resource(group, "v1", plural, "")
    denied = cluster.faults.is_denied(
        str(attributes.get("verb", "")),
        resource,
        str(attributes.get("subresource", "")),
        str(attributes.get("namespace", "")),
    )
    status = {"allowed": not denied}
    document = {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {"creationTimestamp": None},
        "spec": asked["spec"],
        "status": status if denied else {**status, "reason": "RBAC: allowed by the sandbox"},
    }
    return json_response(document, status=201)
