"""Which container runs of a pod have a log to keep."""

from archiver.core.model import LogKind
from archiver.core.pods import container_started_at, wanted_logs
from tests.unit.core.rayjobs import pod, running, submitter, terminated


def shown(found):
    return [(log.kind, log.run.container, log.run.restart, log.is_finished, log.previous) for log in found]


def test_head_autoscaler_and_sidecar_submitter_are_wanted_and_other_sidecars_are_not():
    head = pod(
        statuses=[running("ray-head"), running("autoscaler"), running("ray-job-submitter"), running("istio-proxy")]
    )
    assert shown(wanted_logs(head)) == [
        (LogKind.HEAD, "ray-head", 0, False, False),
        (LogKind.AUTOSCALER, "autoscaler", 0, False, False),
        (LogKind.SUBMITTER, "ray-job-submitter", 0, False, False),
    ]


def test_the_submitters_first_container_is_wanted_whatever_its_name():
    assert shown(wanted_logs(submitter(statuses=[terminated("renamed-by-the-user")]))) == [
        (LogKind.SUBMITTER, "renamed-by-the-user", 0, True, False)
    ]


def test_after_a_restart_the_instance_before_is_wanted_too():
    head = pod(statuses=[running("ray-head", 2, terminated={"exitCode": 137})])
    assert shown(wanted_logs(head)) == [
        (LogKind.HEAD, "ray-head", 1, True, True),
        (LogKind.HEAD, "ray-head", 2, False, False),
    ]


def test_while_a_container_waits_for_its_restart_the_dead_instance_is_the_current_one():
    waiting = {"name": "ray-head", "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    head = pod(statuses=[{**waiting, "lastState": {"terminated": {"exitCode": 1}}}])
    assert shown(wanted_logs(head)) == [(LogKind.HEAD, "ray-head", 1, True, False)]


def test_a_container_that_never_started_has_no_log():
    pulling = {"name": "ray-head", "restartCount": 0, "state": {"waiting": {"reason": "ErrImagePull"}}}
    assert wanted_logs(pod(statuses=[pulling])) == []


def test_a_container_that_waited_when_its_pod_was_deleted_has_no_log():
    ended = {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
    status = {"name": "ray-head", "restartCount": 0, "state": {"terminated": ended}}
    assert wanted_logs(pod(statuses=[status])) == []


def test_init_containers_are_wanted():
    worker = pod(node_type="worker", initContainerStatuses=[terminated("wait-gcs-ready", 0)])
    assert shown(wanted_logs(worker)) == [(LogKind.INIT, "wait-gcs-ready", 0, True, False)]


def test_the_start_of_a_run_is_read_from_the_state_it_is_in():
    head = pod(statuses=[running("ray-head")])
    started = container_started_at(head, wanted_logs(head)[0].run)
    assert started is not None
    assert started.isoformat() == "2026-11-30T10:00:05+00:00"
