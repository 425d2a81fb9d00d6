"""The log endpoint of pods: the kubelet's rules and refusals behind the API server's. Facts: kubelet sources of 1.34."""

from dataclasses import dataclass
from datetime import UTC, datetime

from aiohttp import web

from archiver.core.model import ContainerRun
from archiver.sandbox.cluster import SandboxCluster
from archiver.sandbox.containerlogs import ContainerLog, LogReader, ReadOptions
from archiver.sandbox.faults import OpenStream
from archiver.sandbox.jsontypes import JsonObject
from archiver.sandbox.podstates import container_names, container_status
from archiver.sandbox.resources import RESOURCES
from archiver.sandbox.signals import wait_for
from archiver.sandbox.status import bad_request, invalid, not_found

_POD = RESOURCES[0]
_FOLLOW_LIMIT_SECONDS = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class LogOptions:
    container: str
    follow: bool
    previous: bool
    limit_bytes: int | None
    read: ReadOptions


async def answer(cluster: SandboxCluster, request: web.BaseRequest, namespace: str, name: str) -> web.StreamResponse:
    pod = cluster.get("pods", namespace, name)
    if pod is None:
        raise not_found(_POD, name)
    options = _options(request, pod)
    if not (pod.get("spec") or {}).get("nodeName"):
        return web.Response(status=204)
    log = _log(cluster, pod, options)
    if log is None or log.is_removed:
        text = f"unable to retrieve container logs for {_container_id(pod, options)}"
        return web.Response(body=text.encode(), content_type="text/plain")
    stream = cluster.faults.open_stream("log", request)
    try:
        return await _Sending(cluster, request, log, options).run(stream)
    finally:
        cluster.faults.streams.discard(stream)


def _options(request: web.BaseRequest, pod: JsonObject) -> LogOptions:
    query = request.query
    if "sinceTime" in query and "sinceSeconds" in query:
        text = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
        raise invalid("PodLogOptions", "", [("sinceSeconds", text)])
    return LogOptions(
        container=_container(query.get("container", ""), pod),
        follow=query.get("follow") in ("1", "true", "True"),
        previous=query.get("previous") in ("1", "true", "True"),
        limit_bytes=_number(query.get("limitBytes"), "limitBytes", at_least=1),
        read=ReadOptions(
            timestamps=query.get("timestamps") in ("1", "true", "True"),
            since_ns=_since_ns(query.get("sinceTime"), query.get("sinceSeconds")),
            tail_lines=_number(query.get("tailLines"), "tailLines", at_least=0),
        ),
    )


def _number(text: str | None, field: str, *, at_least: int) -> int | None:
    if text is None or text == "":
        return None
    try:
        number = int(text)
    except ValueError as error:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error
    if number < at_least:
        text = f"Invalid value: {number}: must be greater than {'or equal to 0' if at_least == 0 else '0'}"
        raise invalid("PodLogOptions", "", [(field, text)])
    return number


def _since_ns(time_text: str | None, seconds_text: str | None) -> int:
    """Whole seconds: the API server drops the fraction on the way to the kubelet."""
    if seconds_text:
        seconds = _number(seconds_text, "sinceSeconds", at_least=1) or 0
        return int((datetime.now(UTC).timestamp() - seconds) * 1e9)
    if not time_text:
        return 0
    try:
        # fromisoformat takes six digits; what is behind the seconds is dropped anyway
        head, _, tail = time_text.partition(".")
        zone = "".join(char for char in tail if not char.isdigit())
        moment = datetime.fromisoformat(head + zone)
    except ValueError as error:
        text = f'parsing time "{time_text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{time_text}" as "2006"'
        raise bad_request(text) from error
    return int(moment.timestamp()) * 1_000_000_000


def _container(asked: str, pod: JsonObject) -> str:
    name = pod["metadata"]["name"]
    containers, init = container_names(pod), container_names(pod, "initContainers")
    if not asked:
        if len(containers) == 1:
            return containers[0]
        text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(containers)}]"
        raise bad_request(text + (f" or one of the init containers: [{' '.join(init)}]" if init else ""))
    if asked not in containers + init:
        raise bad_request(f"container {asked} is not valid for pod {name}")
    return asked


def _log(cluster: SandboxCluster, pod: JsonObject, options: LogOptions) -> ContainerLog | None:
    """Which run's file the kubelet would open; its refusals are 400s."""
    container, name = options.container, pod["metadata"]["name"]
    row = container_status(pod, container)
    where = f'container "{container}" in pod "{name}"'
    if row is None:
        raise bad_request(f"{where} is waiting to start: ContainerCreating")
    state, last = row.get("state") or {}, (row.get("lastState") or {}).get("terminated")
    current = ContainerRun(pod["metadata"]["namespace"], name, pod["metadata"]["uid"], container, row["restartCount"])
    before = ContainerRun(current.namespace, name, current.pod_uid, container, max(0, current.restart - 1))
    if options.previous:
        if not last:
            raise bad_request(f"previous terminated {where} not found")
        return cluster.find_log(before)
    if "running" in state or "terminated" in state:
        return cluster.current_log(current, is_running="running" in state)
    if last:
        return cluster.find_log(before)
    raise bad_request(f"{where} is waiting to start: {_waiting_text(state)}")


def _waiting_text(state: JsonObject) -> str:
    reason = str((state.get("waiting") or {}).get("reason", "ContainerCreating"))
    texts = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}
    return texts.get(reason, reason)


def _container_id(pod: JsonObject, options: LogOptions) -> str:
    row = container_status(pod, options.container) or {}
    return str(row.get("containerID") or "containerd://")


class _Sending:
    """One answer: the head goes out with the first bytes, as the kubelet's does."""

    def __init__(
        self, cluster: SandboxCluster, request: web.BaseRequest, log: ContainerLog, options: LogOptions
    ) -> None:
        self._cluster = cluster
        self._request = request
        self._log = log
        self._options = options
        self._reader = LogReader(log, options.read)
        self._left = options.limit_bytes
        self._response = web.StreamResponse(headers={"Content-Type": "text/plain"})

    async def run(self, stream: OpenStream) -> web.StreamResponse:
        try:
            await self._send_all(stream)
            if not self._response.prepared:
                await self._response.prepare(self._request)
            await self._response.write_eof()
        except ConnectionResetError:
            pass  # the client left or the stream was cut: there is nobody to tell
        return self._response

    async def _send_all(self, stream: OpenStream) -> None:
        while not stream.is_cut:
            ticket = self._log.signal.ticket()
            await self._cluster.faults.hold_while_paused()
            is_finished = self._log.is_finished
            for piece in self._reader.pieces():
                await self._write(piece)
            if self._left == 0 or is_finished or not self._options.follow:
                return
            if not await wait_for(ticket, _FOLLOW_LIMIT_SECONDS):
                return

    async def _write(self, piece: bytes) -> None:
        if self._left is not None:
            piece = piece[: self._left]
            self._left -= len(piece)
        if not self._response.prepared:
            await self._response.prepare(self._request)
        if piece:
            await self._response.write(piece)
