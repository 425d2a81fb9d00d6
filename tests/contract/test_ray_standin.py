"""The stand-in of the mass test answers as real Ray does: the same questions, asked of both, have the same answers."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from archiver.ports import FileRange, RayHead
from archiver.ray import RayClient
from archiver.ray.routes import Routes
from tests.contract.ray_questions import converse

TESTS = Path(__file__).parents[1]
RAY = TESTS / "e2e/cluster/images/ray-standin/files/usr/local/bin/ray"
RECORDED = json.loads((TESTS / "data/ray/2.60.0.json").read_text())
SUBMITTERS = TESTS / "data/recordings/source/2.60.0/submitter"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
BY_NAME = {answer["question"]: answer for answer in RECORDED}

# what is each Ray's own: when, where, which node, which build, how many actors of its own it runs
FREE = ("ray_commit", "node_id", "ray.io/node-id", "driver_node_id", "resources_total", "total", "num_after_truncation")
VARIABLE = (
    (re.compile(r"\d{4}-\d\d-\d\d[ _]\d\d[:-]\d\d[:-]\d\d[,_]\d+(_\d+)?"), "MOMENT"),
    (re.compile(r"/\S+/session_MOMENT"), "SESSION"),
    (re.compile(r"\b\d{13}\b"), "0"),
    (re.compile(r"://[\d.]+:\d+"), "://ADDRESS"),
    (re.compile(r"position \d+"), "position N"),
    (re.compile(r"(\w+\.py):\d+"), r"\1"),
)


@asynccontextmanager
async def standin(
    folder: Path, drain_seconds: float = 0.0
) -> AsyncIterator[tuple[int, int, asyncio.subprocess.Process]]:
    """A running head: the ports of agent and dashboard, and its process."""
    ports = ("--dashboard-port=0", "--dashboard-agent-listen-port=0", "--dashboard-host=127.0.0.1")
    # as KubeRay writes it: flags that mean nothing here are passed over
    command = (
        "start",
        "--head",
        *ports,
        f"--temp-dir={folder}",
        "--block",
        "--num-cpus=2",
        "--metrics-export-port=8080",
    )
    environment = ENVIRONMENT | {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(drain_seconds)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, RAY, *command, stdout=asyncio.subprocess.PIPE, env=environment
    )
    try:
        assert process.stdout
        agent, dashboard = map(int, (await process.stdout.readline()).split()[-2:])
        yield agent, dashboard, process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    async def ask() -> list[dict[str, Any]]:
        async with standin(tmp_path_factory.mktemp("ray")) as (agent, dashboard, _):
            return await converse(f"http://127.0.0.1:{dashboard}", f"http://127.0.0.1:{agent}")

    found = asyncio.run(ask())
    return {answer["question"]: answer for answer in found}


@pytest.mark.parametrize("question", BY_NAME)
def test_answers_as_recorded(answers: dict[str, Any], question: str) -> None:
    mine, rays = answers[question], BY_NAME[question]
    assert _envelope(mine) == _envelope(rays)
    if question == "GET dashboard /events":
        assert set(mine["body"]["data"]["events"]) == {"global"}  # rows are Ray's, the frame is both's
    elif question.startswith("TAIL"):
        assert _normal("".join(mine["messages"])) == _normal("".join(rays["messages"]))
    elif "/logs" in question and "html" in rays["headers"]["Content-Type"]:
        assert _listed(mine["body"]) == _listed(rays["body"])
    else:
        assert _normal(mine["body"]) == _normal(rays["body"])


async def test_a_head_that_is_told_to_stop_serves_until_the_drain_is_over(tmp_path: Path) -> None:
    async with standin(tmp_path, drain_seconds=1.0) as (_, dashboard, process), aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{dashboard}/api/jobs/"
        async with session.post(url, json={"entrypoint": "sleep 600", "submission_id": "lasts"}):
            process.terminate()
        async with session.get(url + "lasts") as response:
            assert (await response.json())["status"] in ("PENDING", "RUNNING")
        assert await process.wait() == 1


@pytest.mark.parametrize("kind", ["k8sjob", "sidecar"])
async def test_the_submitter_prints_as_recorded(tmp_path: Path, kind: str) -> None:
    """The commands are KubeRay's; the recordings were made with a driver that prints two lines and exits with 3."""
    name = f"{kind}-exit3"
    script = tmp_path / "job/exit3.py"
    script.parent.mkdir()
    script.write_text("print('config: bad value for --lr')\nprint('exiting early')\nraise SystemExit(3)\n")
    async with standin(tmp_path / "ray") as (_, dashboard, _):
        address = f"http://127.0.0.1:{dashboard}"
        submit = f"job submit --address {address} --submission-id {name}"
        if kind == "k8sjob":
            assert (await _run(f"job status --address {address} {name}"))[0] == 1
            assert (await _run(f"{submit} --no-wait -- {sys.executable} {script}"))[0] == 0
            code, said = await _run(f"job logs --address {address} --follow {name}")
        else:
            code, said = await _run(f"{submit} -- {sys.executable} {script}")
    recorded = (SUBMITTERS / f"{kind}.log").read_text()
    said = said.replace(f"{sys.executable} {script}", "python /home/ray/job/exit3.py")
    assert code == (0 if kind == "k8sjob" else 1)
    assert list(_words(said)) == list(_words(recorded))


async def test_the_archivers_own_client_reads_it(tmp_path: Path) -> None:
    async with standin(tmp_path) as (agent, dashboard, _), aiohttp.ClientSession() as session:
        client = RayClient(Routes(session, None), dashboard_port=dashboard, agent_port=agent)
        head = RayHead("ns", "cluster", "head-pod", "uid", "127.0.0.1", None)
        url = f"http://127.0.0.1:{dashboard}/api/jobs/"
        async with session.post(url, json={"entrypoint": "printf 'a\\nb'", "submission_id": "one"}):
            pass
        async with session.ws_connect(f"{url}one/logs/tail") as following:
            assert [message.data async for message in following]  # it ends when the job has
        piece = await client.read_log(head, "job-driver-one.log", start=3, length=1 << 20)
        beyond = await client.read_log(head, "job-driver-one.log", start=1 << 20, length=10)
        assert piece
        assert piece.data.endswith(b"\na\nb")
        assert piece.size_bytes == len(piece.data) + 3
        assert beyond == FileRange(1 << 20, b"", piece.size_bytes)
        assert {"job-driver-one.log", "jobs/supervisor-one.log", "raylet.out"} <= set(
            await client.list_logs(head) or {}
        )
        for kind in ("tasks", "actors", "workers", "nodes", "placement_groups", "events", "version", "jobs"):
            assert await client.state(head, kind) is not None


async def _run(arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, RAY, *arguments.split(), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


def _envelope(answer: dict[str, Any]) -> dict[str, Any]:
    """Status, type, the names of the other headers, and which bytes of how many."""
    headers = dict(answer.get("headers", {}))
    is_whole = "Last-Modified" in headers  # a file of an agent says how long it is; a stream does not
    length = headers.pop("Content-Length", None)
    return {
        "status": answer.get("status", answer.get("close_code")),
        "type": headers.get("Content-Type"),
        "range": headers.get("Content-Range"),
        "names": sorted(headers),
        "length": length if is_whole else None,
        "is_tagged": bool(re.fullmatch(r'"[0-9a-f]{16}-[0-9a-f]+"', headers.get("ETag", ""))),
    }


def _normal(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "FREE" if key in FREE else _normal(one) for key, one in value.items()}
    if isinstance(value, list):
        return sorted((_normal(one) for one in value), key=partial(json.dumps, sort_keys=True))
    if isinstance(value, str):
        return _normal_text(value)
    return 0 if isinstance(value, int) and value > 10**12 else value


def _normal_text(text: str) -> list[str]:
    """Lines in any order: the driver may print before Ray has written that it starts it. Of tracebacks only the error."""
    for pattern, word in VARIABLE:
        text = pattern.sub(word, text)
    lines = text.splitlines()
    if lines and lines[0].startswith("Traceback"):
        return [next(line for line in reversed(lines) if re.match(r"\w+Error: ", line))]
    return sorted(lines)


def _listed(page: str) -> list[str]:
    """The frame of a folder's page, and the rows of what both have."""
    return [
        line for line in page.splitlines() if not line.startswith("<li>") or ("job" in line and "JobHead" not in line)
    ]


def _words(output: str) -> Iterator[str]:
    for line in output.splitlines():
        for pattern, word in VARIABLE:
            line = pattern.sub(word, line)
        yield re.sub(r"\w+\.py -- ", "", line) if "INFO" in line or "SUCC" in line or "ERR" in line else line
