"""A retry and a resume are new attempts; a wiped status is none."""

import pytest

from archiver.core.attempts import KnownAttempt, admitted, attempt_number
from archiver.core.lifecycle import ended_as, read_rayjob
from tests.unit.core.rayjobs import rayjob


def number(known, **status):
    return attempt_number(read_rayjob(rayjob(**status)), known)


def test_the_first_status_is_the_first_attempt_with_or_without_a_cluster():
    assert number([]) == 1
    assert number([], rayClusterName="train-aaaaa") == 1


def test_a_cluster_that_gets_its_name_later_stays_the_same_attempt():
    assert number([KnownAttempt(1, "", ended=False)], rayClusterName="train-aaaaa") == 1


def test_another_cluster_is_another_attempt():
    known = [KnownAttempt(1, "train-aaaaa", ended=True)]
    assert number(known, rayClusterName="train-bbbbb") == 2


def test_another_cluster_is_another_attempt_where_the_end_of_the_one_before_was_not_seen():
    known = [KnownAttempt(1, "train-aaaaa", ended=False)]
    assert number(known, rayClusterName="train-bbbbb") == 2


def test_a_status_wiped_by_a_retry_belongs_to_no_attempt():
    assert number([KnownAttempt(1, "train-aaaaa", ended=True)], failed=1) is None


def test_a_late_status_of_an_earlier_cluster_is_its_own_attempt():
    known = [KnownAttempt(1, "train-aaaaa", ended=True), KnownAttempt(2, "train-bbbbb", ended=False)]
    assert number(known, rayClusterName="train-aaaaa") == 1


def test_suspended_without_a_cluster_stays_with_the_attempt_that_was_suspended():
    known = [KnownAttempt(1, "train-aaaaa", ended=True)]
    assert number(known, jobDeploymentStatus="Suspended") == 1


@pytest.mark.parametrize("status", ["", "Initializing", "Suspending", "Suspended"])
def test_a_rayjob_that_is_born_suspended_has_not_begun(status: str):
    born = {
        "spec": {"suspend": True},
        "status": {"jobDeploymentStatus": status, "rayClusterName": "never", "jobId": "x"},
    }
    facts = admitted(read_rayjob(born), [KnownAttempt(1, "", ended=False)])
    assert (facts.ray_cluster, facts.job_id, ended_as(facts)) == ("", "", None)


def test_a_rayjob_that_has_run_is_suspended_in_earnest():
    suspended = {"spec": {"suspend": True}, "status": {"jobDeploymentStatus": "Suspending", "rayClusterName": "one"}}
    facts = admitted(read_rayjob(suspended), [KnownAttempt(1, "one", ended=False)])
    assert (facts.ray_cluster, ended_as(facts)) == ("one", "suspended")
