"""The failure cases under tests/data/cases: each file keeps the format, names a known cause and carries nothing private."""

from __future__ import annotations

import ipaddress
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

CASES = Path(__file__).parents[1] / "data" / "cases"
FILES = sorted([*CASES.glob("learn/*.yaml"), *CASES.glob("held-out/*.yaml")])
NAME = re.compile(r"case-(\d{4})-([a-z-]+)\.yaml")
FIRST_HELD_OUT = 2001

LEAVES = {
    "user-code": (
        "user-exception user-config-or-shape-error user-divergence user-native-crash user-hang-or-timeout "
        "user-gpu-program-error user-ray-misuse collective-mismatch"
    ),
    "data-storage": (
        "data-not-found data-corrupt-or-schema storage-permission-denied object-storage-error shared-fs-hang "
        "disk-full filesystem-io-error volume-mount-failed storage-not-shared"
    ),
    "environment": "missing-module runtime-env-failed binary-or-version-mismatch model-hub-access",
    "memory": ("host-oom-container host-oom-ray-monitor host-oom-node gpu-oom object-store-full shm-exhausted"),
    "accelerator": ("gpu-memory-ecc gpu-off-bus nvlink-fault gpu-firmware-hang gpu-unavailable host-hardware-fault"),
    "network-collective": (
        "collective-timeout nccl-init-error rdma-fault dns-or-connectivity service-mesh tls-or-auth-mismatch"
    ),
    "scheduling-capacity": (
        "capacity-shortage quota-exceeded infeasible-request preempted-by-priority queue-evicted autoscaler-scale-down"
    ),
    "ray-runtime": "head-lost gcs-overload gcs-ft-backend ray-component-crash ray-defect",
    "kubernetes-node": (
        "node-lost spot-reclaimed node-drained image-pull-failed pod-start-failed probe-killed operator-fault "
        "os-limit-exhausted"
    ),
    "submission-config": (
        "spec-invalid pod-spec-rejected submitter-cannot-connect entrypoint-not-startable driver-start-timeout "
        "deadline-exceeded status-channel-lost"
    ),
    "cancelled": "cancelled-by-user ended-from-outside",
    "unknown": "unknown",
    "none": "none",
}
CATEGORY = {leaf: category for category, leaves in LEAVES.items() for leaf in leaves.split()}
OWNERS = {"user", "platform", "hardware", "provider", "vendor-bug", "unknown", "none"}
SOURCES = {"rayjob_status", "pods", "k8s_events", "node_conditions", "logs"}

PRIVATE = {
    "e-mail address": re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)*\.[a-z]{2,}"),
    "access key": re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b"),
    "token": re.compile(r"\b(hf_|ghp_|gho_|github_pat_|xox[abp]-|glpat-|sk-)[A-Za-z0-9_-]{12,}"),
    "signed token": re.compile(r"\beyJ[\w-]{10,}\.[\w-]{10,}"),
    "private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "password in an address": re.compile(r"://[^/\s:@]+:[^/\s:@]{3,}@"),
}
IPV4 = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.-])")

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@cache
def load(path: Path) -> dict[str, Any]:
    """The case in a file."""
    case: dict[str, Any] = yaml.load(path.read_text(), Loader=LOADER)
    return case


def texts(value: object) -> list[str]:
    """Every text in a value, however deep."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)] + [json.dumps(value)]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [str(value)]


def public(address: str) -> bool:
    """Whether an address is one of the public internet."""
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:
        return False


def test_no_two_cases_share_an_id() -> None:
    repeated = [number for number, count in Counter(load(path)["id"] for path in FILES).items() if count > 1]
    assert repeated == []


def test_no_report_is_used_twice() -> None:
    repeated = [source for source, count in Counter(load(path)["source"] for path in FILES).items() if count > 1]
    assert repeated == []


def test_every_cause_has_a_case() -> None:
    assert {load(path)["expected"]["cause"] for path in FILES} == set(CATEGORY)


def test_some_cases_are_held_out_of_writing_rules() -> None:
    held_out = [load(path)["expected"] for path in FILES if path.parent.name == "held-out"]
    assert len(held_out) >= 30
    assert len({CATEGORY[expected["cause"]] for expected in held_out}) >= 8


@each_file
def test_the_file_name_gives_the_id_the_cause_and_the_set(path: Path) -> None:
    name = NAME.fullmatch(path.name)
    assert name, "the name is case-NNNN-<leaf>.yaml"
    case = load(path)
    assert (case["id"], case["expected"]["cause"]) == name.groups()
    assert path.parent.name == ("held-out" if int(name[1]) >= FIRST_HELD_OUT else "learn")


@each_file
def test_the_case_has_the_parts_of_the_format(path: Path) -> None:
    case = load(path)
    assert set(case) == {"id", "evidence", "expected", "source"}
    assert set(case["evidence"]) == SOURCES
    assert any(case["evidence"].values()), "some evidence is there"
    assert case["source"].startswith("https://")


@each_file
def test_the_expected_verdict_is_in_the_taxonomy(path: Path) -> None:
    expected = load(path)["expected"]
    assert expected["category"] == CATEGORY[expected["cause"]]
    assert set(expected["acceptable"]) <= set(CATEGORY) - {expected["cause"]}
    assert expected["visible"] in ("yes", "no")
    assert expected["owner"] in OWNERS
    assert expected["explanation"].strip()


@each_file
def test_the_decisive_lines_are_in_the_evidence(path: Path) -> None:
    case = load(path)
    evidence = texts(case["evidence"])
    lines = case["expected"]["root_lines"]
    assert lines
    assert [line for line in lines if not any(line in text for text in evidence)] == []


@each_file
def test_nothing_private_is_in_the_case(path: Path) -> None:
    text = path.read_text()
    found = {name: match[0] for name, pattern in PRIVATE.items() if (match := pattern.search(text))}
    assert found == {}
    assert [address for address in IPV4.findall(text) if public(address)] == []
