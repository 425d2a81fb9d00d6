"""Who looks, and through what: the opened Reader and the viewer's scope. Access control will have this one place."""

from dataclasses import dataclass
from typing import cast

from fastapi import Request

from archiver.read.service import Reader
from archiver.read.views import Scope


@dataclass(frozen=True, slots=True)
class Access:
    reader: Reader
    scope: Scope


def access(request: Request) -> Access:
    """The application's Reader; today every viewer may see everything."""
    return Access(cast(Reader, request.app.state.reader), Scope.everything())
