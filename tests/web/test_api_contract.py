"""Schemathesis against the running server: every answer is one that the OpenAPI document promises, nothing crashes it."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from sqlalchemy.ext.asyncio import AsyncEngine

from archiver.core.manifest import to_json
from archiver.index.engine import open_engine
from archiver.index.writes import record
from archiver.read.service import Reader
from archiver.store.filesystem import FilesystemStore
from tests.fakes.manifests import START, key_of, manifest
from tests.fakes.streams import put_sealed
from web.main import create_app
from web.serve import WebServer

# what is in the index, so that the generated requests also reach something
KNOWN = {
    "uid": "uid-1", "number": 1, "artifact": "logs/driver.log", "cluster": "prod", "namespace": "ml-a",
    "name": "llama-ft-7b", "fingerprint": "abc", "leaf": "missing-module",
}  # fmt: skip


SCHEMA = schemathesis.openapi.from_dict(create_app().openapi())
OPERATIONS = {operation.label: operation for operation in (found.ok() for found in SCHEMA.get_all_operations())}
BOUNDED = settings(
    max_examples=10,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def _can_be_wrong(operation: Any) -> bool:
    """A text in a path can be any text."""
    return bool(operation.query) or "{number}" in operation.path


def _ask(case: schemathesis.Case, url: str) -> Any:
    """Which token fits which filter, which text is a pattern, and which parameters exclude each other, no schema can say."""
    given_parameters = set(case.query or {})
    is_free = not {"page_token", "cursor", "lines", "regex"} & given_parameters
    is_free = is_free and len({"around", "time", "tail"} & given_parameters) < 2
    excluded = [] if is_free else [positive_data_acceptance]
    if given_parameters & _lists(case.operation):
        excluded.append(negative_data_rejection)
    return case.call_and_validate(base_url=url, timeout=20, excluded_checks=excluded)


def _lists(operation: Any) -> set[str]:
    """Parameters that may be given several times. A number for a text is wrong only until it stands in an address."""
    return {each.name for each in operation.query if each.definition.get("schema", {}).get("type") == "array"}


class Served:
    """The application on a port, with an event loop, an engine and a store of its own in a thread."""

    def __init__(self, database_url: str, folder: Path) -> None:
        self._database_url = database_url
        self._folder = folder
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.url = ""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="api")

    def __enter__(self) -> "Served":
        self._thread.start()
        assert self._ready.wait(60)
        assert self.url
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        engine, store = open_engine(self._database_url), FilesystemStore(self._folder)
        try:
            await _archive(engine, store)
            async with WebServer(create_app(Reader(engine, store)), "127.0.0.1", 0) as server:
                self.url = f"http://127.0.0.1:{server.port}"
                self._ready.set()
                await self._stop.wait()
        finally:
            self._ready.set()
            await engine.dispose()


async def _archive(engine: AsyncEngine, store: FilesystemStore) -> None:
    bare = manifest()
    log = await put_sealed(store, key_of(bare).removesuffix("manifest.json"), "logs/driver.log", [b"a\xff\n" * 500])
    whole = manifest(artifacts=[log])
    await store.put(key_of(whole), to_json(whole))
    await record(engine, whole, key_of(whole))
    good = manifest("uid-0", start=START - timedelta(days=1), ended_as="succeeded")
    await record(engine, good, key_of(good))


@pytest.fixture(scope="module")
def api_url(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Served(database_url, tmp_path_factory.mktemp("store")) as served:
        yield served.url


@pytest.mark.parametrize("label", OPERATIONS)
def test_every_answer_is_one_that_the_document_promises(api_url: str, label: str) -> None:
    @BOUNDED
    @given(case=OPERATIONS[label].as_strategy())
    def ask(case: schemathesis.Case) -> None:
        _ask(case, api_url)

    ask()


@pytest.mark.parametrize("label", [label for label, operation in OPERATIONS.items() if _can_be_wrong(operation)])
def test_so_is_every_refusal_of_what_makes_no_sense(api_url: str, label: str) -> None:
    @BOUNDED
    @given(case=OPERATIONS[label].as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE))
    def ask(case: schemathesis.Case) -> None:
        _ask(case, api_url)

    ask()


@pytest.mark.parametrize("label", OPERATIONS)
def test_so_is_every_answer_about_what_is_archived(api_url: str, label: str) -> None:
    @BOUNDED
    @given(case=OPERATIONS[label].as_strategy())
    def ask(case: schemathesis.Case) -> None:
        case.path_parameters = {name: KNOWN[name] for name in case.path_parameters or {}}
        # the other side of a comparison is drawn at random, and is no attempt of anything
        assert _ask(case, api_url).status_code != 404 or "with" in (case.query or {})

    ask()
