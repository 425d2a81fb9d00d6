"""What an orchestrator asks: alive, ready, which version. Outside of /api/v1, because probes never change."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse

from web.api.documented import Responses
from web.api.respond import JSON
from web.deps import CurrentViewer
from web.schemas import Readiness, Version

router = APIRouter(tags=["probes"])
_NOT_READY: Responses = {503: {"model": Readiness, "description": "Not ready: the checks say what is missing"}}


@router.get("/livez", response_class=PlainTextResponse)
async def livez() -> str:
    """The process answers; says nothing about what it depends on."""
    return "ok\n"


@router.get("/readyz", response_model=Readiness, responses=_NOT_READY)
async def readyz(viewer: CurrentViewer) -> JSONResponse:
    """Whether the index and the bucket can be read."""
    checks = await viewer.reader.checks()
    ready = Readiness(is_ready=all(check.is_ok for check in checks), checks=checks)
    return JSONResponse(ready.model_dump(mode="json"), 200 if ready.is_ready else 503, media_type=JSON)


@router.get("/version", response_model=Version)
async def version(request: Request) -> Version:
    """Of the running server."""
    return Version(product=request.app.version, api="v1")
