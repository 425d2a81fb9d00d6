"""Reading a Ray head over HTTP: ranges, tokens, the three ways to it. The agent's files are served as Ray serves them."""

import contextlib
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from archiver.errors import KubeUnavailable, RayDenied, RayError, RayUnavailable
from archiver.ports import HttpAnswer, RayHead
from archiver.ray import RayClient
from archiver.ray.listing import parse_listing
from archiver.ray.routes import Routes

HEAD = RayHead("ml", "train-abcde", "train-head", "uid-1", "127.0.0.1", None)
DRIVER = b"starting\n\xff\xfe not utf-8\nTraceback: boom\n"


@contextlib.asynccontextmanager
async def served(app):
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def client(dashboard=0, agent=0, proxy=None, **options):
    async with aiohttp.ClientSession() as session:
        yield RayClient(Routes(session, proxy, **options), dashboard_port=dashboard, agent_port=agent)


def agent_app(folder: Path):
    (folder / "job-driver-x.log").write_bytes(DRIVER)
    (folder / "empty.log").write_bytes(b"")
    (folder / "events").mkdir()
    (folder / "events" / "event_JOBS.log").write_text("{}\n")
    app = web.Application()
    # exactly what Ray's agent does: aiohttp's static files with an index
    app.router.add_static("/logs", folder, show_index=True)
    return app


async def test_reads_any_range_of_a_file_byte_for_byte(tmp_path):
    async with served(agent_app(tmp_path)) as port, client(agent=port) as ray:
        middle = await ray.read_log(HEAD, "job-driver-x.log", start=9, length=5)
        rest = await ray.read_log(HEAD, "job-driver-x.log", start=9, length=10_000)
    assert (middle.data, middle.size_bytes, middle.start) == (DRIVER[9:14], len(DRIVER), 9)
    assert rest.data == DRIVER[9:]


async def test_at_the_end_of_the_file_there_is_nothing_more_and_its_size_is_told(tmp_path):
    async with served(agent_app(tmp_path)) as port, client(agent=port) as ray:
        end = await ray.read_log(HEAD, "job-driver-x.log", start=len(DRIVER), length=10)
        empty = await ray.read_log(HEAD, "empty.log", start=0, length=10)
        absent = await ray.read_log(HEAD, "nope.log", start=0, length=10)
    assert (end.data, end.size_bytes) == (b"", len(DRIVER))
    assert (empty.data, empty.size_bytes) == (b"", 0)
    assert absent is None


async def test_lists_files_in_sub_folders_too(tmp_path):
    async with served(agent_app(tmp_path)) as port, client(agent=port) as ray:
        assert set(await ray.list_logs(HEAD)) == {"job-driver-x.log", "empty.log", "events/event_JOBS.log"}


def test_links_that_lead_out_of_the_log_folder_are_no_files():
    page = b'<a href="/logs/../../etc/passwd">x</a><a href="/logs/a%20b.log">a</a><a href="/x">x</a>'
    assert parse_listing(page).files == ("a b.log",)


def test_links_that_the_api_servers_proxy_has_rewritten_are_the_same_files():
    page = b'<li><a href="/api/v1/namespaces/ml/pods/head:52365/proxy/logs/raylet.err">raylet.err</a></li>'
    assert parse_listing(page).files == ("raylet.err",)


async def test_sends_the_token_and_no_browsers_name():
    seen = {}

    async def job(request):
        seen.update(request.headers)
        return web.json_response({"status": "FAILED"})

    app = web.Application()
    app.router.add_get("/api/jobs/x", job)
    async with served(app) as port, client(dashboard=port) as ray:
        head = RayHead("ml", "c", "p", "u", "127.0.0.1", None, token="s3cret")
        assert await ray.job(head, "x") == {"status": "FAILED"}
    assert seen["X-Ray-Authorization"] == "Bearer s3cret"
    assert not seen["User-Agent"].startswith("Mozilla")
    assert "s3cret" not in repr(head)


@pytest.mark.parametrize(
    ("status", "error"), [(401, RayDenied), (403, RayDenied), (500, RayUnavailable), (400, RayError)]
)
async def test_refusals_say_whether_trying_again_helps(status, error):
    app = web.Application()
    app.router.add_get("/api/jobs/x", refusing(status))
    async with served(app) as port, client(dashboard=port) as ray:
        with pytest.raises(error):
            await ray.job(HEAD, "x")


def refusing(status):
    async def refuse(_):
        return web.Response(status=status, text="no")

    return refuse


async def test_a_job_that_ray_does_not_know_is_none():
    app = web.Application()
    async with served(app) as port, client(dashboard=port) as ray:
        assert await ray.job(HEAD, "x") is None


async def test_state_rows_come_out_of_their_wrappers_and_the_filter_is_sent():
    asked = []

    async def tasks(request):
        asked.append(dict(request.query))
        rows = [{"task_id": "t", "state": "FAILED"}]
        return web.json_response({"result": True, "msg": "", "data": {"result": {"total": 1, "result": rows}}})

    app = web.Application()
    app.router.add_get("/api/v0/tasks", tasks)
    async with served(app) as port, client(dashboard=port) as ray:
        answer = await ray.state(HEAD, "tasks", job_id="02000000", only_failed=True)
    assert answer["result"] == [{"task_id": "t", "state": "FAILED"}]
    assert asked[0]["limit"] == "10000"
    assert asked[0]["filter_keys"] == "job_id"


async def test_a_state_api_that_refuses_is_an_error_with_its_words():
    app = web.Application()
    refusal = {"result": False, "msg": "exceeds the supported limit"}
    app.router.add_get("/api/v0/nodes", answering(refusal))
    async with served(app) as port, client(dashboard=port) as ray:
        with pytest.raises(RayError, match="exceeds the supported limit"):
            await ray.state(HEAD, "nodes")


def answering(body):
    async def answer(_):
        return web.json_response(body)

    return answer


class Proxy:
    """The API server's proxy, recorded."""

    def __init__(self, error=None):
        self.asked = []
        self.error = error

    async def proxy_get(self, namespace, target, path, *, headers, timeout_seconds):
        self.asked.append((namespace, target, path))
        if self.error:
            raise self.error
        return HttpAnswer(200, {}, b'{"status": "RUNNING"}')


async def test_goes_through_the_api_server_where_the_pod_cannot_be_reached_and_remembers_it():
    proxy = Proxy()
    async with client(dashboard=1, proxy=proxy) as ray:  # nothing listens on port 1
        assert await ray.job(HEAD, "x") == {"status": "RUNNING"}
        assert await ray.job(HEAD, "x") == {"status": "RUNNING"}
    assert proxy.asked == [("ml", "pods/train-head:1", "/api/jobs/x")] * 2


async def test_tries_the_direct_way_again_after_a_while():
    now = [0.0]
    proxy, app = Proxy(), web.Application()
    app.router.add_get("/api/jobs/x", answering({"status": "PENDING"}))
    async with served(app) as port, client(dashboard=1, proxy=proxy, clock=lambda: now[0]) as ray:
        routes = ray._routes
        assert await ray.job(HEAD, "x") == {"status": "RUNNING"}
        direct = RayClient(routes, dashboard_port=port)  # the same head answers directly by now
        assert await direct.job(HEAD, "x") == {"status": "RUNNING"}
        now[0] = 61.0
        assert await direct.job(HEAD, "x") == {"status": "PENDING"}
    assert len(proxy.asked) == 2


async def test_says_every_way_that_was_tried_when_none_works():
    async with client(dashboard=1, proxy=Proxy(KubeUnavailable("gone"))) as ray:
        with pytest.raises(RayUnavailable, match=r"pod-ip: .*; proxy: KubeUnavailable gone"):
            await ray.job(HEAD, "x")


async def test_an_answer_without_end_is_cut_off():
    async def big(_):
        return web.Response(body=b"x" * 5000)

    app = web.Application()
    app.router.add_get("/api/jobs/x", big)
    async with served(app) as port, client(dashboard=port, answer_limit_bytes=1000) as ray:
        with pytest.raises(RayUnavailable, match="larger than 1000 bytes"):
            await ray.job(HEAD, "x")


async def test_reads_through_the_dashboard_where_the_agent_is_closed():
    app = web.Application()
    nodes = {
        "result": True,
        "data": {"result": {"result": [{"node_id": "n1", "is_head_node": True, "state": "ALIVE"}]}},
    }
    app.router.add_get("/api/v0/nodes", answering(nodes))
    asked = {}

    async def file(request):
        asked.update(request.query)
        return web.Response(body=DRIVER)

    app.router.add_get("/api/v0/logs/file", file)
    async with served(app) as port, client(dashboard=port, agent=1) as ray:
        piece = await ray.read_log(HEAD, "job-driver-x.log", start=9, length=5)
    assert (piece.data, piece.size_bytes) == (DRIVER[9:14], len(DRIVER))
    assert asked["lines"] == "-1"


async def test_reads_a_workers_files_through_the_dashboard_where_its_agent_is_closed():
    app = web.Application()
    asked = []

    async def listing(request):
        asked.append(request.query["node_ip"])
        classes = {"worker_err": ["worker-1.err"], "internal": ["events/event_RAYLET.log", "a/b/too-deep.log"]}
        return web.json_response({"result": True, "msg": "", "data": {"result": classes}})

    async def file(request):
        asked.append(request.query["node_ip"])
        return web.Response(body=DRIVER)

    app.router.add_get("/api/v0/logs", listing)
    app.router.add_get("/api/v0/logs/file", file)
    async with served(app) as port, client(dashboard=port, agent=1) as ray:
        names = await ray.list_logs(HEAD, node_ip="127.0.0.9")
        piece = await ray.read_log(HEAD, "worker-1.err", start=9, length=5, node_ip="127.0.0.9")
    assert list(names) == ["worker-1.err", "events/event_RAYLET.log"]
    assert (piece.data, asked) == (DRIVER[9:14], ["127.0.0.9"] * 2)


async def test_a_dashboard_that_gives_nothing_of_a_file_that_had_bytes_is_no_answer():
    app = web.Application()
    app.router.add_get("/api/v0/logs/file", answering_nothing)
    async with served(app) as port, client(dashboard=port, agent=1) as ray:
        with pytest.raises(RayUnavailable, match="gave nothing"):
            await ray.read_log(HEAD, "job-driver-x.log", start=9, length=5, node_ip="127.0.0.9")


async def answering_nothing(_request):
    return web.Response(body=b"")


@pytest.mark.parametrize("depth", [150, 100_000])
async def test_json_that_is_nested_without_end_is_an_error_of_ray(depth):
    async def nested(_request):
        return web.Response(text='{"a":' * depth + "1" + "}" * depth, content_type="application/json")

    app = web.Application()
    app.router.add_get("/api/jobs/{name}", nested)
    async with served(app) as port, client(dashboard=port) as ray:
        with pytest.raises(RayError, match=r"nested|not JSON"):
            await ray.job(HEAD, "job-1")
