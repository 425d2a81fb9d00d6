"""Turns a template and its values into a response, with the headers that every page carries."""

from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from fastapi.routing import APIRoute

from archiver.errors import ArchiverError, UserError
from web.pages.choices import Choice
from web.pages.environment import environment

# No inline script or style anywhere, nothing from elsewhere, and no page may be framed.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_SHARED: Mapping[str, object] = {"page": "", "search": "", "commands": ()}


def render(template: str, values: Mapping[str, object], *, status_code: int = 200) -> HTMLResponse:
    """One page. Values that every template reads have a default here."""
    text = environment().get_template(f"pages/{template}.html").render({**_SHARED, **values})
    return HTMLResponse(text, status_code=status_code, headers=HEADERS)


def render_part(template: str, values: Mapping[str, object]) -> HTMLResponse:
    """A piece of a page, for its script to put in place."""
    text = environment().get_template(f"partials/{template}.html").render(values)
    return HTMLResponse(text, headers=HEADERS)


class PageRoute(APIRoute):
    """A route whose errors are pages too: what the reader can mend says how, what only passes says so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await inner(request)
            except RequestValidationError:
                return not_found("page")
            except UserError as error:
                return problem(400, "This address cannot be understood", str(error))
            except ArchiverError as error:
                if not error.retryable:
                    raise
                return problem(503, "The archive cannot be read right now", f"{error}. Try again in a moment.")

        return handle


def not_found(what: str) -> HTMLResponse:
    detail = (
        f"There is no {what} at this address. It may never have been archived, or its retention is over; "
        "a RayJob that was created again under its old name has another address."
    )
    return problem(404, f"No such {what}", detail)


def problem(status_code: int, title: str, detail: str) -> HTMLResponse:
    """An error as a page that says what to do."""
    actions = (Choice("All RayJobs", "/?status=all"), Choice("Is the archiver well?", "/health"))
    return render("problem", {"title": title, "detail": detail, "actions": actions}, status_code=status_code)


def utc_now() -> datetime:
    return datetime.now(UTC)
