"""What the documents say is so: links lead somewhere, named commands, targets and settings exist."""

import re
from pathlib import Path

import pytest

from archiver.cli import main
from archiver.settings import Settings

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_relative_links_lead_to_files(page):
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_named_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^\$ |`)make ([a-z][a-z0-9-]*)", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert named - targets == set()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_named_commands_exist(page):
    named = set(re.findall(r"(?:bin/|`)archiver ([a-z]+)", page.read_text(encoding="utf-8")))
    assert named - set(main.commands) == set()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_named_settings_exist(page):
    named = set(re.findall(r"ARCHIVER_([A-Z0-9_]+)", page.read_text(encoding="utf-8")))
    known = {name.upper() for name in Settings.model_fields} | {"CLUSTER_CACHE"}
    assert {name for name in named if name.removesuffix("_FILE") not in known and not name.startswith("TEST_")} == set()


def test_every_setting_says_what_it_means():
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []
