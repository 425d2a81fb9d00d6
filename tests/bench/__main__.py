"""Runs the registered benchmarks, all of them or those whose title has one of the words given."""

import asyncio
import importlib
import inspect
import pkgutil
import sys
from pathlib import Path

from tests import bench


async def _run(words: list[str]) -> None:
    for title, function in bench.REGISTERED.items():
        if not words or any(word.lower() in title.lower() for word in words):
            found = function()
            bench.show(title, await found if inspect.isawaitable(found) else found)


def main() -> None:
    """Imports every module of the package: importing is what registers them."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name != "__main__":
            importlib.import_module(f"tests.bench.{module.name}")
    asyncio.run(_run(sys.argv[1:]))


if __name__ == "__main__":
    main()
