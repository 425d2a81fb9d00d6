"""Makes the test bucket: one signed request (AWS signature version 4) over the standard library."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import http.client

REGION = "us-east-1"
EMPTY = hashlib.sha256(b"").hexdigest()


def sign(method: str, host: str, path: str, *, access: str, secret: str, now: datetime.datetime) -> dict[str, str]:
    """Headers that sign an empty request; `now` is in UTC."""
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    headers = {"host": host, "x-amz-content-sha256": EMPTY, "x-amz-date": stamp}
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = f"{method}\n{path}\n\n{lines}\n{names}\n{EMPTY}"
    scope = f"{day}/{REGION}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in (day, REGION, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={names}, Signature={signature}"
    return headers | {"authorization": credential}


def make_bucket(host: str, bucket: str, *, access: str, secret: str) -> int:
    """The status of the creation: 200, or 409 when it is there already."""
    now = datetime.datetime.now(datetime.UTC)
    connection = http.client.HTTPConnection(host, timeout=10)
    try:
        connection.request(
            "PUT", f"/{bucket}", headers=sign("PUT", host, f"/{bucket}", access=access, secret=secret, now=now)
        )
        return connection.getresponse().status
    finally:
        connection.close()
