"""The deaths with much output: one function each, named as its recording."""

from archiver.sandbox.manifests import RayJobSpec
from archiver.sandbox.recording import Content, LineRule, Recording
from tests.data.recordings.composing.attempt import SUBMITTER
from tests.data.recordings.composing.courses import (
    Run,
    begin,
    job_statuses,
    run_driver,
    submitter_prints,
    terminal,
    verdict,
)
from tests.data.recordings.composing.stories import GPUS_2, labels, origin
from tests.data.recordings.composing.story import Story

BURSTS = 6
LINES = 40_000


def rotated_log() -> Recording:
    spec = RayJobSpec(
        "recsys",
        "item2vec-full",
        "python /home/ray/train/item2vec.py",
        labels=labels("recommendations", "gpu-prod"),
        groups=GPUS_2,
    )
    title = "Prints 18 MB in a few seconds: the kubelet rotates the submitter's log"
    story = Story("rotated-log", title, spec, origin=origin(16, 10))
    story.add_nodes("cpu-a-01", "cpu-a-02", "gpu-a-01")
    story.rayjob_created()
    run = begin(story, 1, "2.60.0/task_exc", script="/home/ray/train/item2vec.py", ip_base=21)
    run.attempt.create_submitter(run.submitted - 5.2, "cpu-a-02")
    lines = run_driver(story, run)
    _print_much(story, run, lines)
    run.data.ended(story, run.ended, run.attempt.head_name)
    submitter_prints(story, run, run.attempt.submitter_name, lines)
    job_statuses(story, run, first_terminal=run.ended + 1.4)
    run.attempt.finish_submitter(run.ended + 2.4)
    terminal(story, run, at=run.ended + 4.4, retries=False, deleted_after=0.016)
    why = "a row has no column called value"
    run.attempt.truth(verdict("user-exception", why, "KeyError: 'value'", "data-corrupt-or-schema"))
    return story.recording("Failed")


def _print_much(story: Story, run: Run, lines: list[tuple[float, bytes]]) -> None:
    """Bursts between the last ordinary line and the traceback, in the driver's file and in the submitter's output."""
    trace = next(n for n, (_, line) in enumerate(lines) if line.startswith(b"Traceback"))
    begin_at, end_at = lines[trace - 1][0], lines[trace][0]
    for index in range(BURSTS):
        template = "step {n} loss 0.{h} lr 3.0e-4 grad_norm 1.{h} tokens/s 182044"
        content = Content(rule=LineRule(template, 1 + index * LINES, LINES))
        at = begin_at + (end_at - begin_at) * (index + 1) / (BURSTS + 2)
        story.ray_file(at, run.attempt.head_name, f"job-driver-{run.attempt.submission_id}.log", content)
        story.log_content(at + 0.9, run.attempt.submitter_name, SUBMITTER, content)
