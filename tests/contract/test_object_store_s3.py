"""What is S3's alone: errors and their words, faults on the way, and an independent reader of what was written."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from minio import Minio

from archiver.errors import StoreConflict, StoreDenied, StoreError, StoreNoBucket, StoreUnavailable, UserError
from archiver.store.bucket import init_bucket
from archiver.store.s3 import TRIES, S3Options, S3Store
from tests.fakes.store.proxy import Fault, FaultProxy, proxy_before
from tests.fakes.store.servers import S3Server, kinds, running


@pytest.fixture(scope="module", params=kinds())
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running(request.param, tmp_path_factory.mktemp("s3")) as started:
        yield started


@pytest.fixture
async def proxy(server: S3Server) -> AsyncIterator[FaultProxy]:
    async with proxy_before(server.url) as started:
        yield started


@pytest.fixture
async def store(server: S3Server, proxy: FaultProxy) -> AsyncIterator[S3Store]:
    """A store behind the proxy."""
    options = await asyncio.to_thread(server.options)
    near = S3Server(proxy.url, server.access_key, server.secret_key).access()
    quick = {"read_timeout_seconds": 1.0, "call_timeout_seconds": 2.0}
    async with S3Store(S3Options(bucket=options.bucket, **(near | quick))) as opened:  # type: ignore[arg-type]
        yield opened


async def test_another_client_reads_what_was_written(server: S3Server) -> None:
    options = await asyncio.to_thread(server.options)
    host = server.url.removeprefix("http://")
    client = Minio(host, access_key=server.access_key, secret_key=server.secret_key, secure=False, region="us-east-1")
    async with S3Store(options) as store:
        await store.put("a/b+c d.zst", b"text" * 1000)
        await store.compose(["a/b+c d.zst"] * 3, "joined", tail=b"end")

    def read(key: str) -> bytes:
        answer = client.get_object(bucket_name=options.bucket, object_name=key)
        try:
            return answer.read()
        finally:
            answer.close()
            answer.release_conn()

    assert await asyncio.to_thread(read, "a/b+c d.zst") == b"text" * 1000
    assert await asyncio.to_thread(read, "joined") == b"text" * 3000 + b"end"


async def test_a_bucket_that_is_missing_is_named_with_what_to_do(server: S3Server) -> None:
    async with S3Store(S3Options(bucket="never-made-bucket", **server.access())) as store:  # type: ignore[arg-type]
        with pytest.raises(StoreNoBucket, match=r"never-made-bucket does not exist.*archiver bucket init"):
            await store.put("k", b"x")
        with pytest.raises(StoreNoBucket):
            await store.get("k")
        with pytest.raises(StoreNoBucket):
            [info async for info in store.list("")]


async def test_init_may_run_again(server: S3Server) -> None:
    options = S3Options(bucket="made-once-bucket", **server.access())  # type: ignore[arg-type]
    assert (await asyncio.to_thread(init_bucket, options)).is_new
    assert not (await asyncio.to_thread(init_bucket, options)).is_new


async def test_init_says_in_a_sentence_what_is_wrong() -> None:
    dead = S3Options(bucket="b-b-b", endpoint_url="http://127.0.0.1:9", path_style=True, access_key="a", secret_key="b")
    with pytest.raises(UserError, match="does not answer"):
        await asyncio.to_thread(init_bucket, dead)


@pytest.mark.parametrize(
    ("fault", "wanted"),
    [
        (Fault(500), StoreUnavailable),
        (Fault(503, "SlowDown"), StoreUnavailable),
        (Fault(429, "TooManyRequests"), StoreUnavailable),
        (Fault(403, "AccessDenied"), StoreDenied),
        (Fault(403, "InvalidAccessKeyId"), StoreDenied),
        (Fault(400, "InvalidArgument"), StoreError),
        (Fault(delay_seconds=3.0), StoreUnavailable),
        (Fault(cut=True), StoreUnavailable),
    ],
)
async def test_every_fault_has_its_error(
    store: S3Store, proxy: FaultProxy, fault: Fault, wanted: type[StoreError]
) -> None:
    await store.put("k", b"before" * 100)
    proxy.fail_always(fault)
    with pytest.raises(StoreError) as caught:
        await store.get("k")
    assert type(caught.value) is wanted
    with pytest.raises(StoreError) as caught:
        await store.put("other", b"x")
    assert type(caught.value) is wanted
    proxy.heal()
    assert await store.get("k") == b"before" * 100


@pytest.mark.parametrize("fault", [Fault(500), Fault(503, "SlowDown"), Fault(cut=True)])
async def test_a_short_trouble_is_not_noticed(store: S3Store, proxy: FaultProxy, fault: Fault) -> None:
    proxy.fail(TRIES - 1, fault)
    await store.put("k", b"x" * 100_000)
    proxy.fail(TRIES - 1, fault)
    assert await store.get("k") == b"x" * 100_000
    proxy.fail(TRIES - 1, fault)
    assert [info.key async for info in store.list("")] == ["k"]


async def test_a_write_whose_answer_was_lost_looks_like_a_conflict(store: S3Store, proxy: FaultProxy) -> None:
    proxy.fail(1, Fault(500, after=True), "PUT")
    with pytest.raises(StoreConflict):
        await store.put("k", b"mine", if_absent=True)
    assert await store.get("k") == b"mine"


async def test_a_server_without_conditional_writes_is_asked_first(store: S3Store, proxy: FaultProxy) -> None:
    def refuse(method: str, path: str) -> Fault | None:
        return Fault(501, "NotImplemented") if method == "PUT" and proxy.requests.count((method, path)) % 2 else None

    proxy.fault = refuse
    await store.put("k", b"first", if_absent=True)
    proxy.fault = lambda method, path: Fault(501, "NotImplemented") if method == "PUT" else None
    with pytest.raises(StoreConflict):
        await store.put("k", b"second", if_absent=True)
    proxy.heal()
    assert await store.get("k") == b"first"


async def test_a_failed_upload_leaves_nothing(store: S3Store, proxy: FaultProxy) -> None:
    await store.put("part", b"0123456789abcdef" * (6 << 16))

    def refuse(method: str, path: str) -> Fault | None:
        return Fault(403, "AccessDenied") if method == "POST" and len(posts()) > 1 else None

    def posts() -> list[tuple[str, str]]:
        return [request for request in proxy.requests if request[0] == "POST"]

    proxy.requests.clear()
    proxy.fault = refuse
    with pytest.raises(StoreDenied):
        await store.compose(["part"] * 3, "whole", tail=b"x")
    proxy.heal()
    assert await store.head("whole") is None
    assert ("DELETE", f"/{store._options.bucket}/whole") in proxy.requests
