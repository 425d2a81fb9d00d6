"""The API server's log endpoint: one stream of one container run. Chunks as they come; no lines, no resuming."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC

import aiohttp

from archiver.errors import KubeGone, KubeUnavailable
from archiver.kube.answers import POD_LOGS, Call
from archiver.kube.kubelettext import KubeletText
from archiver.kube.resources import CANDIDATES
from archiver.kube.transport import Transport, next_chunk
from archiver.ports import Kind, LogRequest

_PODS = CANDIDATES[Kind.POD][0]
_BOUNDED_READ_SECONDS = 60.0  # a log that is not followed always has its next bytes ready
# behind a proxy a connection can die without a sign: a log that is silent for so long is opened again
_SILENT_SECONDS = 120.0


class ApiServerPodLogs:
    """Implements ``ports.PodLogs``."""

    def __init__(self, transport: Transport, *, silent_seconds: float = _SILENT_SECONDS) -> None:
        self._transport = transport
        self._silent_seconds = silent_seconds

    @asynccontextmanager
    async def stream(self, request: LogRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """See the port. A followed log has no time limit, but one that is silent for ``silent_seconds`` raises
        KubeUnavailable: it may print nothing, or the connection may be half dead, and opening it again from the checkpoint
        costs nothing. Closing the context closes the connection. Where the kubelet complains in the middle of an answer
        (``kubelettext``), what came before is given and then KubeNotReady or KubeUnavailable raised.
        """
        call = log_call(request)
        limit_seconds = self._silent_seconds if request.follow else _BOUNDED_READ_SECONDS
        async with self._transport.open(call, header_timeout_seconds=limit_seconds) as response:
            if response.status == 404:
                raise KubeGone(f"cannot {call.intent}: pod {request.run.pod} does not exist (any more)")
            async with aclosing(log_text(call, response, limit_seconds)) as text:
                yield text


async def log_text(
    call: Call, response: aiohttp.ClientResponse, limit_seconds: float | None
) -> AsyncGenerator[bytes, None]:
    """The stream's bytes without the kubelet's own complaints, which raise."""
    kubelet = KubeletText()
    try:
        while chunk := await next_chunk(call, response, silence_seconds=limit_seconds):
            text = kubelet.feed(chunk)
            if text:
                yield text
            if kubelet.complaint is not None:
                raise kubelet.complaint
    except TimeoutError as error:
        raise KubeUnavailable(f"cannot {call.intent}: the log stopped in the middle") from error
    rest = kubelet.flush()
    if rest:
        yield rest


def log_call(request: LogRequest) -> Call:
    """The request for a container's log. The kubelet gets ``sinceTime`` in whole seconds: expect an overlap."""
    run = request.run
    params = {"container": run.container, "timestamps": "true"}
    if request.follow:
        params["follow"] = "true"
    if request.previous:
        params["previous"] = "true"
    if request.since is not None:
        params["sinceTime"] = request.since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if request.tail_lines is not None:
        params["tailLines"] = str(request.tail_lines)
    if request.limit_bytes is not None:
        params["limitBytes"] = str(request.limit_bytes)
    path = _PODS.path(run.namespace, run.pod, "log")
    return Call("get", POD_LOGS, path, run.namespace, params=params)
