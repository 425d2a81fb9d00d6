"""The REST API: a handler parses, reads, answers. The same reads as the pages."""

from fastapi import APIRouter

from web import urls
from web.api import attempts, jobs, logs, probes

router = APIRouter()
for _part in (jobs, attempts, logs):
    router.include_router(_part.router, prefix=urls.API)
router.include_router(probes.router)

__all__ = ["router"]
