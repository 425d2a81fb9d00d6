"""What a browser sends on somebody's behalf: only from a page of ours, and never more than a form holds. Not who it is.

There are no cookies here, but a proxy in front may have some: a form on another site must not speak for its visitor.
"""

from urllib.parse import parse_qsl, urlsplit

from fastapi import Request

from web.problems import FORBIDDEN, INVALID, TOO_LARGE, ProblemError

MAX_BODY_BYTES = 32_768
FORM = "application/x-www-form-urlencoded"


def require_same_origin(request: Request, *, is_program_allowed: bool) -> None:
    """Raises ProblemError for a request that another site made. Programs send neither header: for them the REST API is."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_ours = site in ("same-origin", "none")
    elif origin is not None:
        is_ours = urlsplit(origin).netloc == request.headers.get("host")
    else:
        is_ours = is_program_allowed
    if not is_ours:
        raise ProblemError(FORBIDDEN, "this was sent from a page of another site; send it from the archiver's own page")


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a small form, the last of each name. Raises ProblemError."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise ProblemError(INVALID, f"a form comes as {FORM}")
    try:
        return dict(parse_qsl((await read_body(request)).decode(), keep_blank_values=True, max_num_fields=50))
    except ValueError as error:
        raise ProblemError(INVALID, "the form cannot be read") from error


async def read_body(request: Request) -> bytes:
    """At most MAX_BODY_BYTES; raises ProblemError for more."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise ProblemError(TOO_LARGE, f"at most {MAX_BODY_BYTES:,} bytes fit")
    return bytes(body)
