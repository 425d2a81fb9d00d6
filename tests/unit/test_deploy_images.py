"""What no test builds: every file that the image copies is there, every command exists, and compose holds together."""

import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from archiver.cli import main
from archiver.settings import PREFIX, load_settings

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}


def test_every_path_that_is_copied_exists() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert names
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_what_is_copied_from_a_stage_was_made_in_it() -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE))
    for stage, path in re.findall(r"^COPY --from=(\S+) (\S+) \S+$", DOCKERFILE, re.MULTILINE):
        assert stage in stages
        assert f" {path}" in DOCKERFILE.split("\nFROM ")[1]


def test_the_package_has_what_the_image_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (entrypoint,) = re.findall(r'^ENTRYPOINT \["(\S+)"\]$', DOCKERFILE, re.MULTILINE)
    assert entrypoint in project["project"]["scripts"]
    packages = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert packages <= set(re.findall(r"^COPY (\S+) \./\S+$", DOCKERFILE, re.MULTILINE))
    assert (ROOT / project["project"]["readme"]).exists()


def test_the_images_python_is_one_that_the_package_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lowest = re.findall(r"\d+", project["project"]["requires-python"])
    for image in re.findall(r"^FROM python:(\d+)\.(\d+)", DOCKERFILE, re.MULTILINE):
        assert [int(number) for number in image] >= [int(number) for number in lowest[:2]]


def test_every_dependency_of_the_package_is_locked_with_a_hash() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lock = (ROOT / "requirements.lock").read_text()
    locked = {
        name.lower().replace("_", "-") for name in re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==", lock, re.MULTILINE)
    }
    wanted = {
        re.split(r"[\[<>=!~; ]", each)[0].lower().replace("_", "-") for each in project["project"]["dependencies"]
    }
    assert wanted <= locked
    assert lock.count("--hash=sha256:") >= len(locked)


@pytest.mark.parametrize("name", OURS)
def test_every_command_of_compose_is_one_of_the_command_line(name: str) -> None:
    command: click.Command = main
    for word in OURS[name]["command"]:
        assert isinstance(command, click.Group)
        assert word in command.commands
        command = command.commands[word]
    assert not isinstance(command, click.Group)
    assert not any(parameter.required for parameter in command.params)


@pytest.mark.parametrize("name", OURS)
def test_every_setting_of_compose_is_a_setting(name: str) -> None:
    environ = {key: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) for key, value in OURS[name]["environment"].items()}
    assert all(key.startswith(PREFIX) for key in environ)
    assert load_settings(environ).s3_endpoint == "http://minio:9000"


def test_what_compose_names_exists() -> None:
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in SERVICES, f"{name} waits for {other}"
            needs_health = how["condition"] == "service_healthy"
            assert not needs_health or "healthcheck" in SERVICES[other]
            assert how["condition"] != "service_completed_successfully" or SERVICES[other]["restart"] in (
                "no",
                "on-failure",
            )
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            assert source.startswith(("$", ".", "/")) or source in COMPOSE["volumes"]
    for service in OURS.values():
        assert (ROOT / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    hosts = re.findall(r"(?:@|//)(\w+):\d+", str([service["environment"] for service in OURS.values()]))
    assert set(hosts) <= set(SERVICES)


def test_compose_and_manifests_run_the_same_image() -> None:
    built = {service["image"] for service in OURS.values()}
    deployed = re.findall(
        r"image: (rayjob-archiver:\S+)", "".join(f.read_text() for f in ROOT.glob("deploy/**/*.yaml"))
    )
    assert built == set(deployed)


def test_a_writable_folder_is_a_volume_where_the_root_is_read_only() -> None:
    for service in OURS.values():
        assert service["read_only"] is True
        spool = service["environment"].get("ARCHIVER_SPOOL_DIR")
        mounts = [mount.split(":")[1] for mount in service.get("volumes", ())]
        assert spool is None or spool in mounts
