"""What is ours, what the cache keeps, and that broken objects do not break it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.kube.trim import MESSAGE_LIMIT, is_ours, owner_uids, trim, without_managed_fields
from archiver.ports import Kind
from tests.fakes.kube.documents import job, kube_event, pod, ray_pod, rayjob, submitter_pod

ANNOTATIONS = {"kubectl.kubernetes.io/last-applied-configuration": "{}" * 500, "team": "vision"}


def stamped(document: dict[str, Any]) -> dict[str, Any]:
    document["metadata"] |= {"uid": "u", "resourceVersion": "1", "managedFields": [{"manager": "kuberay"}]}
    return document


def test_drops_managed_fields_without_touching_the_original() -> None:
    document = stamped(rayjob("a"))
    assert "managedFields" not in without_managed_fields(document)["metadata"]
    assert "managedFields" in document["metadata"]
    assert without_managed_fields(rayjob("a")) == rayjob("a")


def test_drops_the_last_applied_configuration_and_keeps_other_annotations() -> None:
    document = stamped(rayjob("a"))
    document["metadata"]["annotations"] = ANNOTATIONS
    assert trim(Kind.RAYJOB, document)["metadata"]["annotations"] == {"team": "vision"}


def test_keeps_what_the_lifecycle_of_a_rayjob_needs() -> None:
    cluster_spec = {
        "rayVersion": "2.52.0",
        "headGroupSpec": {"rayStartParams": {"dashboard-host": "0.0.0.0"}, "template": {"spec": {"containers": [{}]}}},
        "workerGroupSpecs": [{"groupName": "gpu", "replicas": 8, "template": {"spec": {"containers": [{}]}}}],
    }
    document = stamped(rayjob("a", submissionMode="HTTPMode", backoffLimit=2, rayClusterSpec=cluster_spec))
    document["status"] = {"jobStatus": "FAILED", "jobDeploymentStatus": "Retrying", "message": "x" * 20_000, "odd": 1}
    trimmed = trim(Kind.RAYJOB, document)
    assert trimmed["spec"]["submissionMode"] == "HTTPMode"
    assert trimmed["spec"]["backoffLimit"] == 2
    assert trimmed["spec"]["rayClusterSpec"]["workerGroupSpecs"] == [{"groupName": "gpu", "replicas": 8}]
    assert trimmed["status"] == {**document["status"], "message": "x" * MESSAGE_LIMIT}


def test_keeps_container_states_and_drops_volumes_of_a_pod() -> None:
    document = stamped(submitter_pod("s"))
    document["spec"]["volumes"] = [{"name": "v"}]
    document["status"] = {
        "phase": "Running",
        "containerStatuses": [{"name": "main", "restartCount": 1}],
        "qosClass": "x",
    }
    trimmed = trim(Kind.POD, document)
    assert trimmed["status"] == {"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": 1}]}
    assert "volumes" not in trimmed["spec"]
    names = [env["name"] for env in trimmed["spec"]["containers"][0]["env"]]
    assert names == ["RAY_DASHBOARD_ADDRESS", "RAY_JOB_SUBMISSION_ID"]


def test_knows_the_pods_of_ray_and_of_submitters() -> None:
    assert is_ours(Kind.POD, ray_pod("head"))
    assert is_ours(Kind.POD, submitter_pod("of KubeRay before 1.7"))
    assert is_ours(Kind.POD, pod("of KubeRay 1.7", labels={"ray.io/originated-from-crd": "RayJob"}))
    assert not is_ours(Kind.POD, pod("foreign", labels={"batch.kubernetes.io/job-name": "nightly"}))


def test_knows_the_kubernetes_events_that_can_be_ours() -> None:
    assert is_ours(Kind.EVENT, kube_event("e", kind="Node"))
    assert not is_ours(Kind.EVENT, kube_event("e", kind="ReplicaSet"))


def test_owners_are_owner_references_and_what_an_event_is_about() -> None:
    document = ray_pod("head")
    document["metadata"]["ownerReferences"] = [{"uid": "c-1"}, {"uid": ""}, "broken"]
    assert owner_uids(Kind.POD, document) == ("c-1",)
    event = kube_event("e", uid="pod-1") | {"related": {"uid": "node-1"}}
    assert owner_uids(Kind.EVENT, event) == ("pod-1", "node-1")


@pytest.mark.parametrize("kind", list(Kind))
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_broken_objects_are_trimmed_all_the_same(kind: Kind, data: st.DataObject) -> None:
    leaf = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
    names = st.sampled_from(
        ["labels", "annotations", "containers", "env", "status", "message", "spec", "rayClusterSpec", "ownerReferences"]
    )
    values = st.recursive(leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3))
    metadata = data.draw(st.dictionaries(names, values)) | {"name": "a", "uid": "u", "resourceVersion": "1"}
    document = data.draw(st.dictionaries(names, values)) | {"metadata": metadata}
    trimmed = trim(kind, document)
    assert trimmed["metadata"]["uid"] == "u"
    assert isinstance(is_ours(kind, document), bool)
    assert isinstance(owner_uids(kind, document), tuple)


def test_a_trimmed_pod_is_much_smaller() -> None:
    document = stamped(job("j"))
    document["spec"]["template"]["spec"]["volumes"] = [{"name": f"v{number}"} for number in range(100)]
    assert len(str(trim(Kind.JOB, document))) < len(str(document)) / 4
