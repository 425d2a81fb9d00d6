"""Making a bucket ready, once, by hand: ``archiver bucket init``. Not on the hot path, hence the blocking SDK."""

from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from archiver.errors import UserError
from archiver.store.s3 import S3Options
from archiver.store.s3_errors import translate

_ABORT_AFTER_DAYS = 2
_RULE = "rayjob-archiver-abort-unfinished-uploads"


@dataclass(frozen=True, slots=True)
class BucketReport:
    """What was done and what the server does not know."""

    is_new: bool
    notes: tuple[str, ...]


def init_bucket(options: S3Options) -> BucketReport:
    """Makes the bucket where it is missing, and has the server clear up unfinished uploads. May run again.

    Raises UserError where the bucket cannot be made or does not take an object.
    """
    client = _client(options)
    try:
        is_new = _create(client, options)
        notes = _add_rule(client, options.bucket)
        _try_write(client, options.bucket)
    except (ClientError, BotoCoreError) as error:
        raise UserError(str(translate(error, "init", options.bucket))) from error
    return BucketReport(is_new, tuple(notes))


def _create(client: Any, options: S3Options) -> bool:
    place = {} if options.region == "us-east-1" else {"LocationConstraint": options.region}
    try:
        client.head_bucket(Bucket=options.bucket)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
            raise
    else:
        return False
    arguments = {"CreateBucketConfiguration": place} if place else {}
    client.create_bucket(Bucket=options.bucket, **arguments)
    return True


def _add_rule(client: Any, bucket: str) -> list[str]:
    """Keeps the rules that others have set."""
    try:
        rules = client.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    except ClientError as error:
        if _code(error) not in ("NoSuchLifecycleConfiguration", "404"):
            return [f"lifecycle rules are not known to this server ({_code(error)}): unfinished uploads stay"]
        rules = []
    if any(rule.get("ID") == _RULE for rule in rules):
        return []
    abort = {"DaysAfterInitiation": _ABORT_AFTER_DAYS}
    rules.append({"ID": _RULE, "Status": "Enabled", "Filter": {"Prefix": ""}, "AbortIncompleteMultipartUpload": abort})
    try:
        client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    except ClientError as error:
        return [f"the server takes no lifecycle rule ({_code(error)}): unfinished uploads stay"]
    return []


def _try_write(client: Any, bucket: str) -> None:
    key = ".rayjob-archiver-check"
    client.put_object(Bucket=bucket, Key=key, Body=b"ok")
    client.delete_object(Bucket=bucket, Key=key)


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _client(options: S3Options) -> Any:
    style = "path" if options.path_style else "auto"
    config = Config(
        s3={"addressing_style": style},
        connect_timeout=options.connect_timeout_seconds,
        read_timeout=options.read_timeout_seconds,
        retries={"max_attempts": 2},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return boto3.client(
        "s3",
        endpoint_url=options.endpoint_url,
        region_name=options.region,
        aws_access_key_id=options.access_key,
        aws_secret_access_key=options.secret_key,
        aws_session_token=options.session_token,
        config=config,
    )
