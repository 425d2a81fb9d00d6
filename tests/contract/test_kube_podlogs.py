"""The log endpoint: every byte from the first line, and the right error where there is none."""

import asyncio
import socket
from datetime import UTC, datetime

import pytest

from archiver.core.model import ContainerRun
from archiver.errors import KubeDenied, KubeError, KubeGone, KubeNotReady, KubeUnavailable
from archiver.kube.access import PlainAccess
from archiver.kube.podlogs import ApiServerPodLogs
from archiver.kube.transport import Transport, keepalive_socket
from archiver.ports import LogRequest
from archiver.sandbox.cluster import ContainerEnd
from archiver.sandbox.server import SandboxServer
from tests.fakes.kube.documents import NAMESPACE, ray_pod
from tests.fakes.kube.tcpfaults import TcpFaults
from tests.fakes.kube.watching import eventually

pytest_plugins = ("tests.fakes.kube.fixtures",)

SECOND = 1_000_000_000
NOON = int(datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()) * SECOND


def start(server: SandboxServer, name: str = "head") -> ContainerRun:
    """A scheduled pod whose container runs."""
    document = ray_pod(name)
    document["spec"]["nodeName"] = "node-1"
    if server.cluster.get("pods", NAMESPACE, name) is None:
        server.cluster.create(document)
    return server.cluster.start_container(NAMESPACE, name, "main")


def lines(data: bytes) -> list[bytes]:
    """The text behind the timestamps."""
    return [line.partition(b" ")[2] for line in data.splitlines()]


async def read(transport: Transport, request: LogRequest) -> bytes:
    async with ApiServerPodLogs(transport).stream(request) as chunks:
        return b"".join([chunk async for chunk in chunks])


class Follower:
    """Reads in a task; ``data`` grows, ``task`` ends with the stream."""

    def __init__(self, transport: Transport, request: LogRequest) -> None:
        self.data = bytearray()
        self.is_open = False
        self.task = asyncio.create_task(self._run(transport, request), name="follower under test")

    async def _run(self, transport: Transport, request: LogRequest) -> None:
        async with ApiServerPodLogs(transport).stream(request) as chunks:
            self.is_open = True
            async for chunk in chunks:
                self.data += chunk


async def test_follows_from_the_first_line_to_the_end_of_the_container(
    sandbox: SandboxServer, to_sandbox: Transport
) -> None:
    run = start(sandbox)
    sandbox.cluster.write_log(run, b"first\n")
    follower = Follower(to_sandbox, LogRequest(run))
    await eventually(lambda: lines(follower.data) == [b"first"])
    sandbox.cluster.write_log(run, b"second\nthird\n")
    await eventually(lambda: lines(follower.data) == [b"first", b"second", b"third"])
    sandbox.cluster.write_log(run, b"no newline")
    sandbox.cluster.finish_container(run)
    await asyncio.wait_for(follower.task, 10)
    assert lines(follower.data)[-1] == b"no newline"


async def test_a_silent_container_is_followed_without_a_time_limit(
    sandbox: SandboxServer, to_sandbox: Transport
) -> None:
    run = start(sandbox)
    follower = Follower(to_sandbox, LogRequest(run))
    await eventually(lambda: sandbox.cluster.faults.streams)
    assert not follower.is_open, "the kubelet sends no head before the first line"
    sandbox.cluster.write_log(run, b"at last\n")
    await eventually(lambda: lines(follower.data) == [b"at last"])
    follower.task.cancel()
    await asyncio.gather(follower.task, return_exceptions=True)
    await eventually(lambda: not sandbox.cluster.faults.streams), "closing the context closes the connection"


async def test_a_silent_container_can_be_given_up(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    follower = Follower(to_sandbox, LogRequest(start(sandbox)))
    await eventually(lambda: sandbox.cluster.faults.streams)
    follower.task.cancel()
    await asyncio.gather(follower.task, return_exceptions=True)
    await eventually(lambda: not sandbox.cluster.faults.streams)
    assert follower.task.cancelled()


async def test_every_byte_of_a_large_log_arrives(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    run = start(sandbox)
    text = b"".join(b"%06d %s\n" % (number, b"x" * (number % 200)) for number in range(20_000))
    sandbox.cluster.write_log(run, text)
    sandbox.cluster.finish_container(run)
    assert b"".join(line + b"\n" for line in lines(await read(to_sandbox, LogRequest(run)))) == text


async def test_reads_since_a_time_with_an_overlap_of_less_than_a_second(
    sandbox: SandboxServer, to_sandbox: Transport
) -> None:
    run = start(sandbox)
    for number in range(4):
        sandbox.cluster.write_log(run, b"%d\n" % number, stamp_ns=NOON + number * SECOND // 2)
    since = datetime(2026, 11, 30, 12, 0, 1, 400_000, tzinfo=UTC)
    assert lines(await read(to_sandbox, LogRequest(run, follow=False, since=since))) == [b"2", b"3"]


async def test_reads_the_last_lines_and_no_more_bytes_than_asked(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    run = start(sandbox)
    sandbox.cluster.write_log(run, b"a\nb\nc\n")
    assert lines(await read(to_sandbox, LogRequest(run, follow=False, tail_lines=2))) == [b"b", b"c"]
    assert len(await read(to_sandbox, LogRequest(run, follow=False, limit_bytes=40))) == 40


async def test_reads_the_previous_instance(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    first = start(sandbox)
    sandbox.cluster.write_log(first, b"before\n")
    sandbox.cluster.finish_container(first, ContainerEnd(exit_code=1, restart=True))
    second = sandbox.cluster.current_run(NAMESPACE, "head", "main")
    sandbox.cluster.write_log(second, b"after\n")
    assert lines(await read(to_sandbox, LogRequest(second, follow=False, previous=True))) == [b"before"]
    assert lines(await read(to_sandbox, LogRequest(second, follow=False))) == [b"after"]


async def test_no_previous_instance_is_gone(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    with pytest.raises(KubeGone, match="previous terminated container"):
        await read(to_sandbox, LogRequest(start(sandbox), previous=True))


async def test_a_container_that_has_not_started_is_not_ready(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    document = ray_pod("head")
    document["spec"]["nodeName"] = "node-1"
    uid = sandbox.cluster.create(document)["metadata"]["uid"]
    with pytest.raises(KubeNotReady, match="waiting to start"):
        await read(to_sandbox, LogRequest(ContainerRun(NAMESPACE, "head", uid, "main")))


async def test_a_missing_right_is_named(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    sandbox.cluster.deny("get", "pods/log")
    with pytest.raises(KubeDenied, match='cannot get pods/log in namespace team-a: grant the verb "get" on "pods/log"'):
        await read(to_sandbox, LogRequest(start(sandbox)))


async def test_a_log_file_that_was_removed_is_not_taken_for_text(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    run = start(sandbox)
    sandbox.cluster.write_log(run, b"text\n")
    sandbox.cluster.remove_log(run)
    with pytest.raises(KubeNotReady, match="the kubelet says: unable to retrieve container logs"):
        await read(to_sandbox, LogRequest(run))


async def test_a_cut_stream_gives_what_came_and_then_says_so(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    run = start(sandbox)
    sandbox.cluster.write_log(run, b"before the cut\n")
    follower = Follower(to_sandbox, LogRequest(run))
    await eventually(lambda: lines(follower.data) == [b"before the cut"])
    sandbox.cluster.cut_streams("log")
    with pytest.raises(KubeUnavailable):
        await asyncio.wait_for(follower.task, 10)
    assert lines(follower.data) == [b"before the cut"]


async def test_no_cut_is_taken_for_the_end(sandbox: SandboxServer) -> None:
    run = start(sandbox)
    sandbox.cluster.write_log(run, b"x" * 100 + b"\n" + b"y" * 100 + b"\n")
    sandbox.cluster.finish_container(run)
    outcomes: list[str] = []
    async with TcpFaults(sandbox.port) as faults:
        for at in range(1, 900, 13):
            faults.cut_at = [at]
            async with Transport(PlainAccess(faults.url, sandbox.token)) as transport:
                try:
                    assert len(lines(await read(transport, LogRequest(run)))) == 2, f"cut after {at} bytes"
                    outcomes.append("whole")
                except KubeUnavailable:
                    outcomes.append("cut")
    assert outcomes.count("cut") > 20
    assert outcomes[-10:] == ["whole"] * 10
    assert faults.cuts < len(outcomes)


async def test_server_errors_are_unavailable(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    run = start(sandbox)
    sandbox.cluster.fail_next(1, 500, path="/log")
    with pytest.raises(KubeUnavailable):
        await read(to_sandbox, LogRequest(run))


async def test_an_error_of_the_reader_stays_its_own(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    run = start(sandbox)
    sandbox.cluster.write_log(run, b"text\n")

    async def fail() -> None:
        async with ApiServerPodLogs(to_sandbox).stream(LogRequest(run)) as chunks:
            await anext(chunks)
            raise ValueError("the reader's")

    with pytest.raises(ValueError, match="the reader's"):
        await fail()


async def test_hundreds_of_logs_are_followed_at_once(sandbox: SandboxServer, to_sandbox: Transport) -> None:
    runs = [start(sandbox, f"head-{number}") for number in range(300)]
    for run in runs:
        sandbox.cluster.write_log(run, run.pod.encode() + b"\n")
    followers = [Follower(to_sandbox, LogRequest(run)) for run in runs]
    await eventually(lambda: all(follower.data for follower in followers), seconds=30)
    for run in runs:
        sandbox.cluster.finish_container(run)
    await asyncio.wait_for(asyncio.gather(*(follower.task for follower in followers)), 30)
    assert [lines(follower.data) for follower in followers] == [[run.pod.encode()] for run in runs]


def test_the_kernel_probes_a_peer_that_went_silent() -> None:
    with keepalive_socket((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 0))) as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_KEEPIDLE"):
            idle = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
            pause = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
            probes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
            assert idle + pause * probes <= 60


def test_log_errors_are_in_the_tree() -> None:
    assert issubclass(KubeNotReady, KubeError)
    assert KubeNotReady.retryable
    assert not KubeDenied.retryable
