"""What the image installs: a wheel that has every file that is no Python, too."""

import os
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    finally:
        os.chdir(before)
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.parametrize("folder", ["web/templates", "web/static", "archiver/diagnosis/rules", "migrations"])
def test_the_wheel_has_what_the_pages_rules_and_migrations_are_made_of(names: set[str], folder: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert files
    assert {str(path.relative_to(ROOT)) for path in files} <= names


def test_the_wheel_has_nothing_else(names: set[str]) -> None:
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"archiver", "web", "migrations"}


def test_the_wheel_has_a_command(names: set[str]) -> None:
    assert any(name.endswith(".dist-info/entry_points.txt") for name in names)
