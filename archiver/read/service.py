"""The read side's front door: ``Reader``. Its methods are all that pages, REST and command line call.

Every method takes the viewer's scope first; what lies outside it does not exist (None, or no row).
"""

from typing import Protocol

from archiver.core.timeline import TimelineEntry
from archiver.read.views import (
    ArtifactView,
    AttemptView,
    EventPage,
    FacetsView,
    HealthView,
    JobFilter,
    JobPage,
    JobView,
    LogWindow,
    PageRequest,
    Scope,
)
from archiver.read.windows import ByteRange, RawLog, Window


class Reader(Protocol):
    async def jobs(self, scope: Scope, request: PageRequest) -> JobPage: ...

    async def facets(self, scope: Scope, job_filter: JobFilter) -> FacetsView: ...

    async def job(self, scope: Scope, uid: str) -> JobView | None: ...

    async def job_named(self, scope: Scope, cluster: str, namespace: str, name: str) -> JobView | None:
        """The newest RayJob of that name; ``JobView.same_name`` has the others."""

    async def attempt(self, scope: Scope, uid: str, number: int) -> AttemptView | None: ...

    async def artifacts(self, scope: Scope, uid: str, number: int) -> tuple[ArtifactView, ...] | None: ...

    async def manifest(self, scope: Scope, uid: str, number: int) -> bytes | None:
        """The commit record as it stands in the bucket."""

    async def log_window(
        self, scope: Scope, uid: str, number: int, artifact: str, window: Window
    ) -> LogWindow | None: ...

    async def log_raw(
        self, scope: Scope, uid: str, number: int, artifact: str, byte_range: ByteRange | None = None
    ) -> RawLog | None: ...

    async def events(self, scope: Scope, uid: str, number: int) -> EventPage | None: ...

    async def timeline(self, scope: Scope, uid: str, number: int) -> tuple[TimelineEntry, ...] | None: ...

    async def health(self, scope: Scope) -> HealthView: ...
