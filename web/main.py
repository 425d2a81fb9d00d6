"""The web application: REST API, pages, problems, security headers. Opening what it reads from is the runtime's."""

from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.staticfiles import StaticFiles

from archiver.read.service import Reader
from web import api, problems, urls
from web.headers import SecurityHeaders
from web.heads import Heads
from web.pages.differences import router as differences
from web.pages.people import router as forms
from web.pages.reports import router as reports
from web.pages.router import router as pages
from web.schemas import FieldError, Problem

TITLE = "RayJob Archiver"
_ABOUT = (
    "What is archived of RayJobs: how they ended, why, and every log. Errors are RFC 9457 problem documents; lists are"
    " paged by opaque tokens; every answer has an ETag."
)


def create_app(reader: Reader | None = None) -> FastAPI:
    """An application on an opened Reader, which the caller closes. Without one it can only be described."""
    app = FastAPI(
        title=TITLE,
        version=version("rayjob-archiver"),
        description=_ABOUT,
        openapi_url=urls.OPENAPI,
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.reader = reader
    problems.install(app)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(Heads)
    app.include_router(api.router)
    app.mount("/static", StaticFiles(packages=[("web", "static")]), name="static")
    app.include_router(forms)
    app.include_router(reports)
    app.include_router(differences)
    app.include_router(pages)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with Problem in place of the framework's own validation error."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = document["components"]["schemas"]
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        for shape in (FieldError, Problem):
            schemas[shape.__name__] = shape.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas[shape.__name__].pop("$defs", None)
        app.openapi_schema = document
    return app.openapi_schema
