"""Errors of the S3 SDK to ours, with a sentence for the person who runs the archiver. Retries nothing."""

from botocore.exceptions import ClientError, NoCredentialsError, PartialCredentialsError

from archiver.errors import StoreConflict, StoreDenied, StoreError, StoreNoBucket, StoreUnavailable

_DENIED = {
    "AccessDenied",
    "AccountProblem",
    "AllAccessDisabled",
    "AuthorizationHeaderMalformed",
    "ExpiredToken",
    "Forbidden",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "401",
    "403",
}
_CONFLICT = {"PreconditionFailed", "ConditionalRequestConflict", "412"}
_BUSY = {"RequestTimeout", "RequestTimeTooSkewed", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests"}
# a body that was cut on its way does not fit its Content-MD5: send it again
_DAMAGED = {"BadDigest", "IncompleteBody"}


def error_code(error: StoreError) -> str:
    """The S3 code that an error came from, empty where it was none."""
    cause = error.__cause__
    return str(cause.response.get("Error", {}).get("Code", "")) if isinstance(cause, ClientError) else ""


def translate(error: Exception, what: str, bucket: str) -> StoreError:
    """``what`` names the call (``put <key>``)."""
    if isinstance(error, (NoCredentialsError, PartialCredentialsError)):
        return StoreDenied(f"no credentials for bucket {bucket}: set the access key and the secret key, or give a role")
    if not isinstance(error, ClientError):
        return StoreUnavailable(f"{what}: the store does not answer ({type(error).__name__}: {error})")
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code == "NoSuchBucket":
        return StoreNoBucket(f"the bucket {bucket} does not exist: make it with `archiver bucket init`")
    if code in _CONFLICT or status == 412:
        return StoreConflict(f"{what}: there is an object already")
    if code in _BUSY | _DAMAGED or status == 429 or (status >= 500 and status != 501):
        return StoreUnavailable(f"{what}: the store answered {code or status}")
    if code in _DENIED or status in (401, 403):
        return StoreDenied(
            f"{what}: the store refuses ({code or status}); check the key and the rights on bucket {bucket}"
        )
    return StoreError(f"{what}: the store answered {code or status}: {error}")
