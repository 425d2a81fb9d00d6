"""All stories, in the order of their telling."""

from collections.abc import Callable

from archiver.sandbox.recording import Recording
from tests.data.recordings.composing import stories, stories_large, stories_outside

STORIES: tuple[Callable[[], Recording], ...] = (
    stories.missing_module,
    stories.early_exit,
    stories.sidecar_exit,
    stories.retry_to_success,
    stories.segfault,
    stories.success,
    stories.binary_output,
    stories.secrets_in_output,
    stories.runtime_env_failed,
    stories.actor_dies,
    stories.cause_chain,
    stories_outside.image_pull,
    stories_outside.head_oom,
    stories_outside.suspended,
    stories_outside.user_deletes,
    stories_outside.validation_failed,
    stories_outside.spot_reclaimed,
    stories_large.rotated_log,
)
