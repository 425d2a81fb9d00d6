"""Any request to a replayed Ray node, whichever way it came: liveness, token, then agent or dashboard."""

from aiohttp import web

from archiver.sandbox import rayagent, raydashboard
from archiver.sandbox.raynode import AGENT_PORT, NodeState, RayNode
from archiver.sandbox.signals import wait_for

_SILENCE_LIMIT_SECONDS = 600.0
_OPEN_PATHS = ("/api/gcs_healthz", "/api/authentication_mode", "/api/healthz", "/api/local_raylet_healthz")


async def answer(
    node: RayNode, request: web.BaseRequest, *, port: int, path: str, is_proxied: bool = False
) -> web.StreamResponse:
    """ConnectionRefusedError where nothing listens (any more)."""
    if node.state is NodeState.SILENT:
        await wait_for(node.signal.ticket(), _SILENCE_LIMIT_SECONDS)
    if node.state is not NodeState.UP or port not in node.ports():
        raise ConnectionRefusedError(f"dial tcp {node.address}:{port}: connect: connection refused")
    refusal = _refusal(node, request, path, is_proxied=is_proxied)
    if refusal is not None:
        return refusal
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client left")
    node.busy.add(transport)
    try:
        if port == AGENT_PORT:
            return await rayagent.answer(node, request, path)
        return await raydashboard.answer(node, request, path)
    finally:
        node.busy.discard(transport)


def _refusal(node: RayNode, request: web.BaseRequest, path: str, *, is_proxied: bool) -> web.Response | None:
    """Token authentication, with the paths that Ray leaves open. The API server's proxy keeps Authorization to itself."""
    if not node.token or path in _OPEN_PATHS:
        return None
    given = request.headers.get("X-Ray-Authorization") or (None if is_proxied else request.headers.get("Authorization"))
    if given is None:
        return web.Response(status=401, text="Unauthorized: Missing authentication token")
    if given != f"Bearer {node.token}":
        return web.Response(status=403, text="Forbidden: Invalid authentication token")
    return None
