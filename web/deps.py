"""What a handler gets handed: the opened Reader and the viewer's scope. Access control will have this one place."""

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from archiver.read.service import Reader
from archiver.read.views import Scope


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks, and through what."""

    reader: Reader
    scope: Scope


def viewer(request: Request) -> Viewer:
    """Today every viewer may see everything."""
    return Viewer(cast(Reader, request.app.state.reader), Scope.everything())


CurrentViewer = Annotated[Viewer, Depends(viewer)]
