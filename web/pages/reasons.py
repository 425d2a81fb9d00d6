"""What KubeRay's and Ray's own words mean, for attempts that have no verdict. Values stay open: an unknown one is shown."""

from archiver.core.model import GapReason

REASONS = {
    "AppFailed": "the job's own command failed",
    "SubmissionFailed": "the job could not be submitted to Ray",
    "DeadlineExceeded": "it ran longer than activeDeadlineSeconds allows",
    "PreRunningDeadlineExceeded": "it was not running before preRunningDeadlineSeconds were over",
    "JobStatusCheckTimeoutExceeded": "Ray's dashboard did not answer any more",
    "JobDeploymentStatusTransitionGracePeriodExceeded": "its submitter ended, and Ray never said how the job ended",
    "ValidationFailed": "KubeRay refused its spec",
}

RAY_ERRORS = {
    "JOB_ENTRYPOINT_COMMAND_ERROR": "the entrypoint ended with an error",
    "JOB_ENTRYPOINT_COMMAND_START_ERROR": "the entrypoint could not be started",
    "RUNTIME_ENV_SETUP_FAILURE": "the runtime environment could not be set up",
    "JOB_SUPERVISOR_ACTOR_START_TIMEOUT": "Ray could not start the job in time",
    "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE": "no node could take the job",
    "JOB_SUPERVISOR_ACTOR_DIED": "the process that watches over the job died",
}

GAPS = {
    GapReason.ROTATED: "the kubelet had rotated the older file away before it was read",
    GapReason.STREAM_CUT: "the stream ended before the container did",
    GapReason.ARCHIVER_DOWN: "no archiver was running",
    GapReason.DEADLINE: "more was left than could be read before the source vanished",
    GapReason.SOURCE_GONE: "the pod or head was deleted before the rest was read",
    GapReason.UNREADABLE: "the source could not be read",
    GapReason.DENIED: "the archiver has no right to read it",
}


def reason(word: str) -> str:
    """KubeRay's reason in words, or as it stands."""
    return REASONS.get(word, word)


def ray_error(word: str | None) -> str:
    return RAY_ERRORS.get(word or "", word or "")
