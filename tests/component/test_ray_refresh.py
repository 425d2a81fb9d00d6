"""A look at Ray's state that is under way when the job ends makes room for the last look at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from archiver.collect.raycapture import RayCapture
from archiver.collect.tools import Tools
from archiver.ports import RayHead
from tests.component.test_hopeless_sources import HEAD, Over


@dataclass(slots=True)
class Ending(Over):
    """A job that ends while its state is read."""

    has_ended: bool = False

    def is_ending(self) -> bool:
        return self.has_ended


@dataclass(slots=True)
class Answering:
    """A head whose job ends with the second question."""

    view: Ending
    asked: list[str] = field(default_factory=list)

    async def state(self, head: RayHead, what: str, **how: Any) -> Mapping[str, Any] | None:
        self.asked.append(what)
        self.view.has_ended = len(self.asked) == 2
        return None


async def test_a_look_ends_when_the_job_does(tmp_path: Path) -> None:
    view = Ending()
    ray = Answering(view)
    tools = SimpleNamespace(ray=ray, looks=Tools.__dataclass_fields__["looks"].default_factory())  # type: ignore[misc]
    capture = RayCapture(cast(Tools, tools), view, cast(Any, SimpleNamespace(open_stream=None)), {})
    await capture.refresh(HEAD, None)
    assert len(ray.asked) == 2
