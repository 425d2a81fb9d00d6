"""Any S3-compatible bucket, on the hot path, by aiobotocore. Making the bucket is elsewhere (bucket.py).

Retries are ours: a call is tried three times here, the spool tries for ever.
"""

import asyncio
import random
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from hashlib import md5
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError

from archiver.core.backoff import backoff_seconds
from archiver.errors import DataError, StoreConflict, StoreError, StoreUnavailable
from archiver.ports import ObjectInfo
from archiver.store.plan import UPLOAD_BYTES, Copy, Step, Upload, plan_compose
from archiver.store.s3_errors import error_code, translate

TRIES = 3
_READERS = 8
_DELETE_BATCH = 1000
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class S3Options:
    """How to reach the bucket. Without keys, the usual chain of the SDK is asked (environment, role, web identity).

    ``sse`` is empty, ``AES256`` or ``aws:kms`` (then with ``sse_key_id``).
    """

    bucket: str
    endpoint_url: str | None = None
    region: str = "us-east-1"
    path_style: bool = False
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    sse: str = ""
    sse_key_id: str = ""
    connect_timeout_seconds: float = 5.0
    read_timeout_seconds: float = 30.0
    call_timeout_seconds: float = 60.0
    max_connections: int = 32
    page_keys: int = 1000


class S3Store:
    """An ObjectStore over one bucket. Use as an async context manager."""

    def __init__(self, options: S3Options) -> None:
        self._options = options
        self._stack = AsyncExitStack()
        self._client: Any = None
        self._put_options = _sse(options)

    async def __aenter__(self) -> Self:
        options = self._options
        context = get_session().create_client(
            "s3",
            endpoint_url=options.endpoint_url,
            region_name=options.region,
            aws_access_key_id=options.access_key,
            aws_secret_access_key=options.secret_key,
            aws_session_token=options.session_token,
            config=_config(options),
        )
        self._client = await self._stack.enter_async_context(context)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def put(self, key: str, body: bytes, *, if_absent: bool = False) -> ObjectInfo:
        """See ObjectStore. A server that knows no If-None-Match is asked for the object first: then two writers of the
        same key at the same moment are not told apart."""
        if len(body) > UPLOAD_BYTES:
            pieces = [
                Upload((Copy("", at, min(len(body), at + UPLOAD_BYTES)),)) for at in range(0, len(body), UPLOAD_BYTES)
            ]
            return await self._put_large(key, pieces, body, if_absent)
        condition = {"IfNoneMatch": "*"} if if_absent else {}
        try:
            etag = await self._put_once(key, body, condition)
        except StoreError as error:
            if not (if_absent and _knows_no_condition(error)):
                raise
            await self._refuse_existing(key)
            etag = await self._put_once(key, body, {})
        return ObjectInfo(key, len(body), etag)

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes | None:
        """See ObjectStore."""
        if length is not None and (length <= 0 or start < 0):
            body = await self.get(key, start=start) if length > 0 else b""
            return body[:length] if body is not None else None
        arguments = {"Bucket": self._options.bucket, "Key": key}
        if start or length is not None:
            last = "" if length is None else str(start + length - 1)
            arguments["Range"] = f"bytes={start}" if start < 0 else f"bytes={start}-{last}"

        async def read() -> bytes:
            answer = await self._client.get_object(**arguments)
            async with answer["Body"] as stream:
                body: bytes = await stream.read()
            if len(body) != answer["ContentLength"]:
                raise StoreUnavailable(f"the store cut the answer for {key}")
            return body

        try:
            return await self._call(f"get {key}", read)
        except StoreError as error:
            code = error_code(error)
            if code in ("NoSuchKey", "404"):
                return None
            if code in ("InvalidRange", "416"):
                return b""
            raise

    async def head(self, key: str) -> ObjectInfo | None:
        """See ObjectStore. S3 does not tell a missing bucket from a missing object here."""
        try:
            answer = await self._call(
                f"head {key}", lambda: self._client.head_object(Bucket=self._options.bucket, Key=key)
            )
        except StoreError as error:
            if error_code(error) in ("404", "NoSuchKey", "NotFound"):
                return None
            raise
        return ObjectInfo(key, answer["ContentLength"], answer["ETag"].strip('"'), answer.get("LastModified"))

    async def list(self, prefix: str, *, after: str = "") -> AsyncIterator[ObjectInfo]:
        """See ObjectStore."""
        arguments: dict[str, Any] = {
            "Bucket": self._options.bucket,
            "Prefix": prefix,
            "MaxKeys": self._options.page_keys,
        }
        if after:
            arguments["StartAfter"] = after
        while True:
            page = await self._call(f"list {prefix}", lambda: self._client.list_objects_v2(**arguments))
            for row in page.get("Contents", ()):
                yield ObjectInfo(row["Key"], row["Size"], row["ETag"].strip('"'), row["LastModified"])
            if not page.get("IsTruncated"):
                return
            arguments["ContinuationToken"] = page["NextContinuationToken"]

    async def compose(self, sources: Sequence[str], key: str, *, tail: bytes = b"") -> ObjectInfo:
        """See ObjectStore. Holds at most one part of an upload in memory; large sources do not come through here."""
        limit = asyncio.Semaphore(_READERS)

        async def size(source: str) -> tuple[str, int]:
            async with limit:
                info = await self.head(source)
            if info is None:
                raise DataError(f"cannot compose: {source} is not there")
            return source, info.size_bytes

        sized = await asyncio.gather(*(size(source) for source in sources))
        steps = plan_compose([*sized, ("", len(tail))])
        if len(steps) <= 1 and not any(isinstance(step, Copy) for step in steps):
            return await self.put(key, b"".join([await self._read(step, tail) for step in steps]))
        return await self._put_large(key, steps, tail, False)

    async def delete(self, keys: Sequence[str]) -> None:
        """See ObjectStore."""
        for start in range(0, len(keys), _DELETE_BATCH):
            batch = keys[start : start + _DELETE_BATCH]
            wanted = {"Objects": [{"Key": key} for key in batch], "Quiet": True}
            answer = await self._call(
                "delete",
                lambda: self._client.delete_objects(Bucket=self._options.bucket, Delete=wanted),  # noqa: B023
            )
            for refused in answer.get("Errors", ()):
                raise translate(_as_client_error(refused), f"delete {refused.get('Key')}", self._options.bucket)

    async def _put_once(self, key: str, body: bytes, condition: dict[str, str]) -> str:
        arguments = {"Bucket": self._options.bucket, "Key": key, "Body": body, "ContentMD5": _md5(body)}
        call = lambda: self._client.put_object(**arguments, **condition, **self._put_options)  # noqa: E731
        answer = await self._call(f"put {key}", call)
        etag: str = answer["ETag"].strip('"')
        return etag

    async def _put_large(self, key: str, steps: Sequence[Step], body: bytes, if_absent: bool) -> ObjectInfo:
        if if_absent:
            await self._refuse_existing(key)
        bucket = self._options.bucket
        start = lambda: self._client.create_multipart_upload(Bucket=bucket, Key=key, **self._put_options)  # noqa: E731
        target = {"Bucket": bucket, "Key": key, "UploadId": (await self._call(f"put {key}", start))["UploadId"]}
        try:
            parts = [await self._send(target, number, step, body) for number, step in enumerate(steps, 1)]
            condition = {"IfNoneMatch": "*"} if if_absent else {}
            upload = {"Parts": parts}
            finish = lambda: self._client.complete_multipart_upload(**target, MultipartUpload=upload, **condition)  # noqa: E731
            answer = await self._call(f"put {key}", finish)
        except BaseException:
            with suppress(StoreError, TimeoutError):
                await self._call(f"abort {key}", lambda: self._client.abort_multipart_upload(**target))
            raise
        size = sum(step.size_bytes if isinstance(step, Upload) else step.end - step.start for step in steps)
        return ObjectInfo(key, size, answer["ETag"].strip('"'))

    async def _send(self, target: dict[str, str], number: int, step: Step, body: bytes) -> dict[str, Any]:
        where = {**target, "PartNumber": number}
        if isinstance(step, Copy):
            source = {"Bucket": self._options.bucket, "Key": step.source}
            span = f"bytes={step.start}-{step.end - 1}"
            copy = lambda: self._client.upload_part_copy(**where, CopySource=source, CopySourceRange=span)  # noqa: E731
            etag = (await self._call(f"copy {step.source}", copy))["CopyPartResult"]["ETag"]
        else:
            piece = await self._read(step, body)
            send = lambda: self._client.upload_part(**where, Body=piece, ContentMD5=_md5(piece))  # noqa: E731
            etag = (await self._call(f"put {target['Key']}", send))["ETag"]
        return {"PartNumber": number, "ETag": etag}

    async def _read(self, step: Step, body: bytes) -> bytes:
        """The bytes of an upload. The empty source name means ``body``."""
        limit = asyncio.Semaphore(_READERS)

        async def one(piece: Copy) -> bytes:
            if not piece.source:
                return body[piece.start : piece.end]
            async with limit:
                found = await self.get(piece.source, start=piece.start, length=piece.end - piece.start)
            if found is None or len(found) != piece.end - piece.start:
                raise StoreError(f"cannot compose: {piece.source} changed meanwhile")
            return found

        ranges = step.ranges if isinstance(step, Upload) else (step,)
        return b"".join(await asyncio.gather(*(one(piece) for piece in ranges)))

    async def _refuse_existing(self, key: str) -> None:
        if await self.head(key) is not None:
            raise StoreConflict(f"{key} is there already")

    async def _call(self, what: str, call: Callable[[], Awaitable[R]]) -> R:
        for failures in range(1, TRIES + 1):
            try:
                return await self._once(what, call)
            except StoreUnavailable:
                if failures == TRIES:
                    raise
                await asyncio.sleep(backoff_seconds(failures, random.random()))
        raise AssertionError("the loop returns or raises")

    async def _once(self, what: str, call: Callable[[], Awaitable[R]]) -> R:
        try:
            async with asyncio.timeout(self._options.call_timeout_seconds):
                return await call()
        except (ClientError, BotoCoreError, aiohttp.ClientError, TimeoutError, OSError) as error:
            raise translate(error, what, self._options.bucket) from error


def _config(options: S3Options) -> AioConfig:
    return AioConfig(
        connect_timeout=options.connect_timeout_seconds,
        read_timeout=options.read_timeout_seconds,
        max_pool_connections=options.max_connections,
        retries={"max_attempts": 0},
        s3={"addressing_style": "path" if options.path_style else "auto"},
        # Content-MD5 is understood by every S3 server; the newer trailing checksums are not
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        user_agent_extra="rayjob-archiver",
    )


def _sse(options: S3Options) -> dict[str, str]:
    if not options.sse:
        return {}
    key = {"SSEKMSKeyId": options.sse_key_id} if options.sse_key_id else {}
    return {"ServerSideEncryption": options.sse, **key}


def _md5(body: bytes) -> str:
    return b64encode(md5(body, usedforsecurity=False).digest()).decode()


def _knows_no_condition(error: StoreError) -> bool:
    return error_code(error) in ("NotImplemented", "501")


def _as_client_error(refused: dict[str, Any]) -> ClientError:
    return ClientError({"Error": {"Code": refused.get("Code"), "Message": refused.get("Message")}}, "DeleteObjects")
