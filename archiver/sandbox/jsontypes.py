"""The two names for parsed JSON in the sandbox, which handles raw Kubernetes and Ray documents as they are."""

from collections.abc import Mapping
from typing import Any

JsonObject = dict[str, Any]
JsonView = Mapping[str, Any]
