"""All stories, in the order of their telling."""

from collections.abc import Callable

from archiver.sandbox.recording import Recording
from tests.data.recordings.composing import stories

STORIES: tuple[Callable[[], Recording], ...] = (
    stories.missing_module,
    stories.early_exit,
    stories.sidecar_exit,
)
