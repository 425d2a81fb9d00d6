"""docker-compose.yml: every service that the product needs, in an order that works, with settings that exist."""

import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from archiver.cli import main
from archiver.settings import PREFIX, load_settings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = ("migrate", "bucket", "watcher", "web")
DAEMONS = ("watcher", "web")


def test_has_all_that_the_product_needs() -> None:
    assert {"postgres", "minio", "migrate", "watcher", "web"} <= SERVICES.keys()


def test_every_image_is_pinned() -> None:
    loose = [
        service["image"]
        for service in SERVICES.values()
        if not re.search(r":(v?\d+\.\d+|RELEASE\.\d{4}-)", service["image"])
    ]
    assert loose == []


@pytest.mark.parametrize("name", DAEMONS)
def test_daemons_start_when_tables_and_bucket_are_there(name: str) -> None:
    waits = SERVICES[name]["depends_on"]
    assert waits["migrate"] == waits["bucket"] == {"condition": "service_completed_successfully"}


def test_nothing_waits_for_what_does_not_exist() -> None:
    assert all(waited in SERVICES for service in SERVICES.values() for waited in service.get("depends_on", ()))


@pytest.mark.parametrize("name", OURS)
def test_every_command_is_one_of_the_command_line(name: str) -> None:
    command: click.Command = main
    for word in SERVICES[name]["command"]:
        assert isinstance(command, click.Group)
        command = command.commands[word]


def test_what_is_waited_for_to_be_healthy_says_when_it_is() -> None:
    healthy = {
        name
        for service in SERVICES.values()
        for name, wait in service.get("depends_on", {}).items()
        if wait["condition"] == "service_healthy"
    }
    assert healthy == {name for name, service in SERVICES.items() if "healthcheck" in service}


@pytest.mark.parametrize("name", OURS)
def test_every_setting_is_a_setting(name: str) -> None:
    environ = {
        key: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value)) for key, value in SERVICES[name]["environment"].items()
    }
    assert all(variable.startswith(PREFIX) for variable in environ)
    settings = load_settings(environ)
    assert settings.database_url is not None
    assert settings.s3_endpoint == "http://minio:9000"


def test_the_watcher_reads_the_users_kubeconfig_and_cannot_change_it() -> None:
    watcher = SERVICES["watcher"]
    assert "${KUBECONFIG:-~/.kube/config}:/kube/config:ro" in watcher["volumes"]
    assert watcher["environment"]["ARCHIVER_KUBECONFIG"] == "/kube/config"


def test_the_spool_outlives_the_watcher() -> None:
    watcher = SERVICES["watcher"]
    assert f"spool:{watcher['environment']['ARCHIVER_SPOOL_DIR']}" in watcher["volumes"]
    assert "spool" in COMPOSE["volumes"]


@pytest.mark.parametrize("name", OURS)
def test_our_containers_have_no_rights_to_spare(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_nothing_listens_beyond_this_machine() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
