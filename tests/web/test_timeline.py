"""Timeline entries out of archived objects: phases, restarts, deletions, Ray's events, clocks that disagree."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from archiver.core.timeline import Lane, Severity, TimelineEntry
from archiver.read.documents import Version
from archiver.read.happenings import from_clusters, from_pods, from_ray_events
from web.pages import axis

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def seen(seconds: float | None, obj: Mapping[str, Any], how: str = "MODIFIED") -> Version:
    return Version(None if seconds is None else at(seconds), how, obj)


def pod(phase: str, restarts: int = 0, uid: str = "p", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"uid": uid, "name": f"pod-{uid}", "creationTimestamp": "2026-03-01T12:00:00Z"},
        "status": {"phase": phase, "containerStatuses": [{"name": "ray", "restartCount": restarts}]},
        **more,
    }


def bars(*found: Version) -> list[tuple[str, float, float | None]]:
    return [
        (
            entry.title,
            (entry.at - START).total_seconds(),
            (entry.until - START).total_seconds() if entry.until else None,
        )
        for entry in from_pods(found)
    ]


def test_a_pod_is_a_bar_for_each_phase_and_each_restart() -> None:
    found = (
        seen(1, pod("Pending")),
        seen(5, pod("Running")),
        seen(6, pod("Running")),
        seen(9, pod("Running", 1)),
        seen(20, pod("Running", 1), "DELETED"),
    )
    assert bars(*found) == [("Pending", 0, 5), ("Running", 5, 9), ("Running", 9, 20)]
    assert [entry.severity for entry in from_pods(found)] == [Severity.INFO, Severity.INFO, Severity.WARNING]
    assert list(from_pods(found))[-1].detail == "after 1 restart"


def test_a_clock_that_goes_backwards_makes_no_negative_bar() -> None:
    assert bars(seen(1, pod("Pending")), seen(-50, pod("Running")), seen(None, pod("Failed"))) == [
        ("Pending", 0, 0),
        ("Failed", 0, None),
    ]


def test_a_ray_cluster_tells_its_states_and_when_its_deletion_was_asked_for() -> None:
    gone = {"metadata": {"name": "rc", "deletionTimestamp": "2026-03-01T12:00:30Z"}, "status": {"state": "ready"}}
    ready = {"metadata": {"name": "rc"}, "status": {"state": "ready"}}
    found = list(from_clusters([seen(3, ready), seen(4, ready), seen(31, gone), seen(32, gone, "DELETED")]))
    assert [(entry.at, entry.title) for entry in found] == [(at(3), "ready"), (at(30), "deletion begins")]


def test_ray_events_are_found_whatever_they_lie_in() -> None:
    events = [
        {"timestamp": "1772366405.5", "severity": "ERROR", "message": "a node died", "sourceType": "GCS"},
        {"timestamp": 1772366401, "severity": "INFO", "message": "up"},
        {"timestamp": "soon", "message": "no time"},
        {"timestamp": 1e300, "message": "no such year"},
    ]
    found = list(from_ray_events({"data": {"events": {"global": events}}}))
    assert [(entry.severity, entry.detail) for entry in found] == [
        (Severity.ERROR, "a node died"),
        (Severity.INFO, "up"),
    ]
    assert found[0].lane is Lane.RAY


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda s: (
            st.lists(s)
            | st.dictionaries(st.sampled_from(["message", "timestamp", "status", "metadata", "phase", "x"]), s)
        ),
        max_leaves=20,
    )
)
def test_any_document_is_told_or_passed_over(document: Any) -> None:
    list(from_ray_events(json.loads(json.dumps(document))))
    if isinstance(document, dict):
        list(from_pods([seen(1, document), seen(2, document, "DELETED")]))
        list(from_clusters([seen(1, document)]))


def bar(name: str, start: float, end: float, severity: Severity = Severity.INFO) -> TimelineEntry:
    return TimelineEntry(at(start), Lane.POD, severity, f"c-{name}", "Running", until=at(end))


def test_five_hundred_pods_stay_readable_and_the_bad_ones_have_rows_of_their_own() -> None:
    entries = [bar(f"gpu-worker-{number:05}", number % 7, 100) for number in range(500)]
    entries[321] = bar("gpu-worker-00321", 3, 60, Severity.ERROR)
    chart = axis.draw(entries, axis.span_of(entries, axis.Asked()), ray_cluster="c")
    assert chart is not None
    labels = [row.label for row in chart.rows]
    assert "gpu-worker-00321" in labels
    assert "gpu-worker × 494" in labels
    assert len(labels) <= 2 * axis.MAX_PODS + len(Lane)
    assert sum(len(row.marks) for row in chart.rows) < 50
    assert any(mark.title.endswith(" more") for row in chart.rows for mark in row.marks)


def test_many_moments_are_thinned_but_no_error_is_lost() -> None:
    moments = [TimelineEntry(at(n / 10), Lane.KUBE_EVENT, Severity.INFO, "x", "Pulled") for n in range(5_000)]
    wrong = [TimelineEntry(at(n), Lane.KUBE_EVENT, Severity.ERROR, "x", "Failed") for n in range(20)]
    entries = [*moments, *wrong, bar("head", 0, 500)]
    chart = axis.draw(entries, axis.span_of(entries, axis.Asked()))
    assert chart is not None
    marks = [mark for row in chart.rows if row.label == "Kubernetes Events" for mark in row.marks]
    assert len(marks) <= 2 * axis.MAX_MARKS
    assert sum(mark.css == "is-error" for mark in marks) == 20


def test_what_lies_outside_the_attempt_does_not_stretch_its_axis() -> None:
    early = TimelineEntry(at(-86_400), Lane.KUBE_EVENT, Severity.WARNING, "node", "old")
    entries = [early, bar("head", 0, 100)]
    span = axis.span_of(entries, axis.Asked())
    assert span is not None
    assert (span.start, span.end, span.outside) == (at(0), at(100), 1)
    assert axis.within(entries, span) == tuple(entries)


def test_a_part_of_the_axis_has_only_what_touches_it_and_leads_on() -> None:
    entries = [bar("head", 0, 100), bar("late", 80, 90)]
    asked = axis.parse({"from": "2026-03-01T12:00:10Z", "to": "2026-03-01T12:00:50Z"}, START)
    span = axis.span_of(entries, asked)
    assert span is not None
    assert axis.within(entries, span) == (entries[0],)
    links = {zoom.label: zoom.href for zoom in axis.zooms(entries, span, asked, "/p")}
    assert links["last quarter"] == "/p?from=2026-03-01T12%3A00%3A40.000Z&to=2026-03-01T12%3A00%3A50.000Z#timeline"
    assert links["whole"] == "/p#timeline"


def test_an_empty_or_backward_part_shows_the_whole() -> None:
    entries = [bar("head", 0, 100)]
    span = axis.span_of(entries, axis.Asked(at(50), at(10)))
    assert span is not None
    assert (span.start, span.end, span.is_part) == (at(0), at(100), False)
    assert axis.span_of([], axis.Asked()) is None
    assert axis.draw([], None) is None
