"""Selectors: what the API server takes, and what it refuses."""

from typing import Any

import pytest

from archiver.sandbox.resources import RESOURCES
from archiver.sandbox.selectors import parse_field_selector, parse_label_selector
from archiver.sandbox.status import ApiRefusal

POD = next(resource for resource in RESOURCES if resource.plural == "pods")
ITEM: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "n", "labels": {"ray.io/cluster": "c", "empty": ""}},
    "spec": {"nodeName": "m", "hostNetwork": True},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("selector", "is_match"),
    [
        ("", True),
        ("ray.io/cluster", True),
        ("!ray.io/cluster", False),
        ("ray.io/cluster=c", True),
        ("ray.io/cluster==c", True),
        ("ray.io/cluster!=c", False),
        ("absent!=c", True),
        ("ray.io/cluster in (b, c)", True),
        ("ray.io/cluster notin (b,c)", False),
        ("absent notin (b)", True),
        ("absent in (b)", False),
        ("empty=", True),
        ("ray.io/cluster=c,!absent,empty", True),
        ("ray.io/cluster in (b,c),absent", False),
    ],
)
def test_label_selectors(selector: str, is_match: bool) -> None:
    assert parse_label_selector(selector)(ITEM) is is_match


@pytest.mark.parametrize("selector", ["a b", "a in b", "=c", "a=b=c"])
def test_text_that_is_no_selector_is_refused(selector: str) -> None:
    with pytest.raises(ApiRefusal) as refused:
        parse_label_selector(selector)
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("selector", "is_match"),
    [
        ("metadata.name=a", True),
        ("metadata.name!=a", False),
        ("metadata.name==a,status.phase=Running", True),
        ("spec.nodeName=other", False),
        ("spec.hostNetwork=true", True),
        ("status.podIP=", True),
    ],
)
def test_field_selectors(selector: str, is_match: bool) -> None:
    assert parse_field_selector(selector, POD)(ITEM) is is_match


def test_a_field_that_is_not_indexed_is_refused() -> None:
    with pytest.raises(ApiRefusal, match=r"field label not supported: spec\.containers"):
        parse_field_selector("spec.containers=x", POD)
