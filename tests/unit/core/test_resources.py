"""GPU and CPU seconds from requests and pod lifetimes."""

from datetime import UTC, datetime, timedelta

import pytest

from archiver.core.resources import pod_life, quantity, resource_use

START = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)


def gpu_pod(gpus="8", cpu="500m"):
    return {
        "spec": {
            "nodeName": "n",
            "containers": [{"resources": {"requests": {"cpu": cpu}, "limits": {"nvidia.com/gpu": gpus, "cpu": "4"}}}],
        },
        "status": {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": START.isoformat()}]},
    }


@pytest.mark.parametrize(
    ("text", "expected"), [("500m", 0.5), ("4", 4), ("1.5", 1.5), ("2Ki", 2048), ("x", 0), (None, 0), (3, 3), (True, 0)]
)
def test_reads_quantities(text, expected):
    assert quantity(text) == expected


def test_requests_count_before_limits_and_extended_resources_are_asked_for_as_limits():
    life = pod_life(gpu_pod(), gone_at=START + timedelta(seconds=100))
    use = resource_use([life], now=START + timedelta(seconds=500), first_task=None)
    assert (use.gpu_seconds, use.cpu_seconds, use.gpus) == (800, 50, 8)
    assert use.gpu_idle_seconds is None


def test_idle_time_is_what_passed_before_the_first_task():
    life = pod_life(gpu_pod("2"), gone_at=START + timedelta(seconds=100))
    use = resource_use([life], now=START + timedelta(seconds=100), first_task=START + timedelta(seconds=30))
    assert use.gpu_idle_seconds == 60


def test_a_pod_that_was_never_placed_costs_nothing():
    assert pod_life({"spec": {"containers": []}}, gone_at=None) is None


def test_a_clock_that_jumped_back_never_gives_negative_time():
    life = pod_life(gpu_pod(), gone_at=START - timedelta(hours=1))
    assert resource_use([life], now=START, first_task=None).gpu_seconds == 0
