"""Objects find their attempt, also when they come first, and after their owner is gone."""

from archiver.core.model import AttemptId, Kind, RayJobId
from archiver.core.ownership import Ownership
from tests.unit.core.rayjobs import job, pod, raycluster, submitter

FIRST = AttemptId(RayJobId("c", "ml", "train", "job-uid"), 1)
SECOND = AttemptId(RayJobId("c", "ml", "train", "job-uid"), 2)


def learned(attempt=FIRST, cluster="train-abcde"):
    ownership = Ownership()
    ownership.learn_rayjob("job-uid", attempt, cluster_namespace="ml", ray_cluster=cluster)
    return ownership


def test_ray_pods_are_found_by_their_cluster_label_before_the_cluster_object_is_seen():
    assert learned().learn(Kind.POD, pod()) == {FIRST}


def test_submitter_pods_are_found_through_their_job():
    ownership = learned()
    assert ownership.learn(Kind.POD, submitter()) == frozenset()
    ownership.learn(Kind.JOB, job())
    assert ownership.learn(Kind.POD, submitter()) == {FIRST}


def test_a_job_keeps_its_attempt_when_the_rayjob_goes_on_to_the_next():
    ownership = learned()
    ownership.learn(Kind.JOB, job())
    ownership.learn_rayjob("job-uid", SECOND, cluster_namespace="ml", ray_cluster="train-fghij")
    assert ownership.attempts_of(Kind.JOB, job()) == {FIRST}
    assert ownership.attempts_of(Kind.JOB, job(uid="batch-2")) == {SECOND}


def test_a_cluster_of_another_attempt_is_not_taken_for_the_current_ones():
    assert learned().attempts_of(Kind.RAYCLUSTER, raycluster("train-fghij", uid="other")) == frozenset()


def test_events_are_found_by_the_uid_of_what_they_are_about():
    ownership = learned()
    ownership.learn(Kind.POD, pod())
    event = {"metadata": {"uid": "e"}, "involvedObject": {"kind": "Pod", "uid": "pod-uid"}}
    assert ownership.attempts_of(Kind.EVENT, event) == {FIRST}


def test_events_of_a_node_belong_to_every_attempt_that_has_a_pod_there():
    ownership = learned()
    ownership.learn_rayjob("other-uid", SECOND, cluster_namespace="ml", ray_cluster="other-abcde")
    ownership.learn(Kind.POD, pod())
    ownership.learn(Kind.POD, pod(uid="p2", cluster="other-abcde"))
    event = {"metadata": {"uid": "e"}, "involvedObject": {"kind": "Node", "name": "node-1", "uid": "node-uid"}}
    assert ownership.attempts_of(Kind.EVENT, event) == {FIRST, SECOND}


def test_a_shared_cluster_belongs_to_every_rayjob_on_it():
    ownership = learned(cluster="big")
    ownership.learn_rayjob("other-uid", SECOND, cluster_namespace="ml", ray_cluster="big")
    assert ownership.learn(Kind.POD, pod(cluster="big")) == {FIRST, SECOND}


def test_a_forgotten_attempt_leads_nowhere_and_leaves_others_alone():
    ownership = learned(cluster="big")
    ownership.learn_rayjob("other-uid", SECOND, cluster_namespace="ml", ray_cluster="big")
    ownership.learn(Kind.POD, pod(cluster="big"))
    ownership.forget(FIRST)
    assert ownership.attempts_of(Kind.POD, pod(cluster="big")) == {SECOND}


def test_the_same_name_in_another_namespace_is_another_cluster():
    stranger = pod()
    stranger["metadata"]["namespace"] = "other"
    assert learned().learn(Kind.POD, stranger) == frozenset()
