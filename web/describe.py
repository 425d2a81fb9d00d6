"""Prints the OpenAPI document: ``python -m web.describe > docs/openapi.json``. A test holds the file to it."""

import json
import sys

from web.main import create_app


def document() -> str:
    """As it is checked in."""
    return json.dumps(create_app().openapi(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
