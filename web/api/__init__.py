"""The REST API: a handler parses, reads, answers. The same reads as the pages."""

from fastapi import APIRouter

from web import urls
from web.api import attempts, findings, groups, jobs, logs, people, probes, search, statistics
from web.problems import not_found

router = APIRouter()
for _part in (jobs, people, attempts, findings, groups, statistics, search, logs):
    router.include_router(_part.router, prefix=urls.API)
router.include_router(probes.router)


@router.get(f"{urls.API}/{{rest:path}}", include_in_schema=False)
async def nothing(rest: str) -> None:
    """An address of no route is a problem document too, not a page."""
    raise not_found(f"route {urls.API}/{rest}")


__all__ = ["router"]
