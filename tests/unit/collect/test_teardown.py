"""What the clean-up did after the end is no evidence of the cause; what happened before it is."""

from datetime import UTC, datetime

from archiver.collect.teardown import events_before, pods_before

ENDED = datetime(2026, 11, 30, 10, 0, 10, 500_000, tzinfo=UTC)


def pod(*, deleted_at, finished_at, grace=30):
    ended = {"exitCode": 1, "startedAt": "2026-11-30T09:59:00Z", "finishedAt": finished_at}
    metadata = {"name": "head"}
    if deleted_at:
        metadata |= {"deletionTimestamp": deleted_at, "deletionGracePeriodSeconds": grace}
    status = {"phase": "Failed", "containerStatuses": [{"name": "ray-head", "state": {"terminated": ended}}]}
    return {"metadata": metadata, "status": status}


def test_a_pod_that_was_deleted_after_the_end_is_as_it_was_before():
    (before,) = pods_before([pod(deleted_at="2026-11-30T10:00:41Z", finished_at="2026-11-30T10:00:13Z")], ENDED)
    assert "deletionTimestamp" not in before["metadata"]
    assert before["status"]["phase"] == "Running"
    assert "running" in before["status"]["containerStatuses"][0]["state"]


def test_a_container_that_died_before_the_end_stays_dead():
    (before,) = pods_before([pod(deleted_at="2026-11-30T10:00:41Z", finished_at="2026-11-30T10:00:05Z")], ENDED)
    assert before["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1


def test_a_pod_that_was_deleted_before_the_end_stays_deleted():
    given = pod(deleted_at="2026-11-30T10:00:30Z", finished_at="2026-11-30T10:00:05Z")
    assert pods_before([given], ENDED) == [given]


def test_without_a_moment_nothing_changes():
    given = pod(deleted_at="2026-11-30T10:00:41Z", finished_at="2026-11-30T10:00:13Z")
    assert pods_before([given], None) == [given]


def test_stopping_what_was_over_is_no_event_of_the_cause_and_late_news_is():
    killing = {"reason": "Killing", "lastTimestamp": "2026-11-30T10:00:11Z"}
    earlier = {"reason": "Killing", "lastTimestamp": "2026-11-30T10:00:02Z"}
    evicted = {"reason": "Evicted", "lastTimestamp": "2026-11-30T10:00:20Z"}
    assert events_before([killing, earlier, evicted], ENDED) == [earlier, evicted]


def test_misshapen_pods_and_events_pass():
    assert pods_before([{}, {"metadata": {"deletionTimestamp": 7}}], ENDED)
    assert events_before([{}, {"reason": "Killing"}], ENDED)
