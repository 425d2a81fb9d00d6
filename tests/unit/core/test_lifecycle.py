"""When an attempt ends, and as what, over every KubeRay version's words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.core.lifecycle import ended_as, read_rayjob, shows_end, will_be_deleted
from tests.unit.core.rayjobs import rayjob


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, "succeeded"),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, "stopped"),
        ({"jobDeploymentStatus": "Failed", "jobStatus": "RUNNING"}, "failed"),
        ({"jobDeploymentStatus": "Retrying", "jobStatus": "FAILED"}, "retried"),
        ({"jobDeploymentStatus": "Suspending"}, "suspended"),
        ({"jobDeploymentStatus": "ValidationFailed"}, "invalid"),
        ({"jobDeploymentStatus": "Running", "jobStatus": "FAILED"}, None),
        ({"jobDeploymentStatus": "SomethingNew"}, None),
        ({}, None),
    ],
)
def test_tells_how_an_attempt_ended(status, expected):
    assert ended_as(read_rayjob(rayjob(**status))) == expected


def test_the_job_status_is_a_sign_of_the_end_before_the_deployment_status_is():
    facts = read_rayjob(rayjob(jobDeploymentStatus="Running", jobStatus="FAILED"))
    assert shows_end(facts)
    assert ended_as(facts) is None


def test_a_cluster_goes_only_where_the_rayjob_says_so():
    kept = read_rayjob(rayjob(jobDeploymentStatus="Failed"))
    short = read_rayjob(rayjob(spec={"shutdownAfterJobFinishes": True}, jobDeploymentStatus="Failed"))
    long = read_rayjob(
        rayjob(spec={"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 3600}, jobDeploymentStatus="Failed")
    )
    shared = read_rayjob(
        rayjob(
            spec={"shutdownAfterJobFinishes": True, "clusterSelector": {"ray.io/cluster": "big"}},
            jobDeploymentStatus="Failed",
        )
    )
    assert [will_be_deleted(facts) for facts in (kept, short, long, shared)] == [False, True, False, False]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["status", "spec", "metadata", "jobId", "x"]), inner)
    ),
)


@given(JSON)
def test_any_json_reads_as_a_rayjob_without_an_error(document):
    facts = read_rayjob(document if isinstance(document, dict) else {"status": document})
    assert isinstance(facts.job_status, str)
    assert isinstance(facts.failed, int)
