"""The watcher's own small HTTP: alive, ready, metrics. No evidence is served here."""

from collections.abc import Callable

from fastapi import FastAPI
from fastapi.responses import JSONResponse, PlainTextResponse, Response


def create_probe_app(not_ready: Callable[[], list[str]], metrics: Callable[[], bytes]) -> FastAPI:
    """``not_ready`` gives sentences about what keeps the watcher from working; ``metrics`` the Prometheus text."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.get("/livez")
    async def livez() -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        problems = not_ready()
        return JSONResponse({"ready": not problems, "problems": problems}, status_code=503 if problems else 200)

    @app.get("/metrics")
    async def prometheus() -> Response:
        return Response(metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return app
