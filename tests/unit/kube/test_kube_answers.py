"""Refusals become the right error, with a sentence that tells what to grant."""

import pytest

from archiver.errors import KubeConflict, KubeDenied, KubeError, KubeGone, KubeNotReady, KubeUnavailable
from archiver.kube.answers import POD_LOGS, Call, error_of, status_message

WATCH = Call("watch", "rayjobs.ray.io", "/apis/ray.io/v1/namespaces/team-a/rayjobs", "team-a")
LOG = Call("get", POD_LOGS, "/api/v1/namespaces/team-a/pods/p/log", "team-a")


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, KubeDenied),
        (403, KubeDenied),
        (409, KubeConflict),
        (410, KubeGone),
        (429, KubeUnavailable),
        (500, KubeUnavailable),
        (503, KubeUnavailable),
        (504, KubeUnavailable),
        (400, KubeError),
        (422, KubeError),
    ],
)
def test_translates_each_status(status: int, error: type[KubeError]) -> None:
    assert type(error_of(WATCH, status, "why")) is error


def test_a_refusal_names_verb_resource_namespace_and_what_to_grant() -> None:
    text = str(error_of(WATCH, 403, "User x cannot watch"))
    assert text.startswith("cannot watch rayjobs.ray.io in namespace team-a: ")
    assert 'grant the verb "watch" on "rayjobs" of API group "ray.io" in a Role in namespace team-a' in text
    assert "User x cannot watch" in text


def test_a_cluster_wide_refusal_asks_for_a_cluster_role() -> None:
    text = str(error_of(Call("list", "nodes", "/api/v1/nodes"), 403, ""))
    assert text == (
        'cannot list nodes in all namespaces: grant the verb "list" on "nodes" of API group "" in a ClusterRole'
    )


def test_refused_credentials_are_not_called_a_missing_right() -> None:
    text = str(error_of(WATCH, 401, "Unauthorized"))
    assert "does not accept our credentials" in text
    assert "grant" not in text


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ('container "main" in pod "p" is waiting to start: ContainerCreating', KubeNotReady),
        ('container "main" in pod "p" is waiting to start: PodInitializing', KubeNotReady),
        ('container "main" in pod "p" is waiting to start: trying and failing to pull image', KubeNotReady),
        ('previous terminated container "main" in pod "p" not found', KubeGone),
        ("container other is not valid for pod p", KubeGone),
    ],
)
def test_tells_a_log_that_is_not_there_yet_from_one_that_never_will_be(message: str, error: type[KubeError]) -> None:
    assert type(error_of(LOG, 400, message)) is error


def test_reads_the_message_of_a_status_or_of_plain_text() -> None:
    assert status_message(b'{"kind":"Status","message":"no"}') == "no"
    assert status_message(b"404 page not found\n") == "404 page not found"
    assert len(status_message(b"x" * 9000)) == 500
    assert status_message(b"\xff[1]") == "\ufffd[1]"
