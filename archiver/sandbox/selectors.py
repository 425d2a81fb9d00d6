"""Label and field selectors, parsed as the API server does. Not their application to lists and watches."""

import re
from collections.abc import Callable

from archiver.sandbox.jsontypes import JsonView
from archiver.sandbox.resources import Resource
from archiver.sandbox.status import bad_request

Predicate = Callable[[JsonView], bool]

_REQUIREMENT = re.compile(
    r"^\s*(?:"
    r"(?P<absent>!)\s*(?P<absent_key>[\w./-]+)"
    r"|(?P<set_key>[\w./-]+)\s+(?P<set_op>in|notin)\s*\((?P<values>[^)]*)\)"
    r"|(?P<key>[\w./-]+)\s*(?P<op>==|=|!=)\s*(?P<value>[\w./-]*)"
    r"|(?P<present>[\w./-]+)"
    r")\s*$"
)


def parse_label_selector(text: str) -> Predicate:
    """A predicate on whole objects. Raises the 400 of the API server for text that is no selector."""
    requirements = [_label_requirement(part) for part in _split(text) if part.strip()]
    return lambda item: all(holds(_labels(item)) for holds in requirements)


def _labels(item: JsonView) -> JsonView:
    labels = item.get("metadata", {}).get("labels")
    return labels if isinstance(labels, dict) else {}


def _split(text: str) -> list[str]:
    """Splits at commas that are not inside a parenthesis."""
    return re.split(r",(?![^(]*\))", text)


def _label_requirement(part: str) -> Predicate:
    match = _REQUIREMENT.match(part)
    if match is None:
        raise bad_request(f"unable to parse requirement: found '{part.strip()}'")
    if match["absent"]:
        return _is_absent(match["absent_key"])
    if match["set_key"]:
        values = {value.strip() for value in match["values"].split(",")}
        return _is_in(match["set_key"], values, wanted=match["set_op"] == "in")
    if match["key"]:
        return _is_in(match["key"], {match["value"]}, wanted=match["op"] != "!=")
    return _is_present(match["present"])


def _is_absent(key: str) -> Predicate:
    return lambda labels: key not in labels


def _is_present(key: str) -> Predicate:
    return lambda labels: key in labels


def _is_in(key: str, values: set[str], *, wanted: bool) -> Predicate:
    """``!=`` and ``notin`` hold for objects without the label as well."""
    if wanted:
        return lambda labels: labels.get(key) in values
    return lambda labels: labels.get(key) not in values


_COMMON_FIELDS = {"metadata.name", "metadata.namespace"}
_FIELDS = {
    "pods": {
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    },
    "events": {
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    },
    "nodes": {"spec.unschedulable"},
    "namespaces": {"status.phase"},
    "secrets": {"type"},
    "jobs": {"status.successful"},
}


def parse_field_selector(text: str, resource: Resource) -> Predicate:
    """A predicate on whole objects. An unsupported field is the API server's 400."""
    requirements = [_field_requirement(part, resource) for part in text.split(",") if part]
    return lambda item: all(holds(item) for holds in requirements)


def _field_requirement(part: str, resource: Resource) -> Predicate:
    match = re.match(r"^(?P<field>[^=!]+)(?P<op>==|=|!=)(?P<value>.*)$", part)
    if match is None:
        raise bad_request(f"invalid field selector: '{part}'; can't understand '{part}'")
    name, value, wanted = match["field"], match["value"], match["op"] != "!="
    if name not in _COMMON_FIELDS | _FIELDS.get(resource.plural, set()):
        raise bad_request(f"field label not supported: {name}")
    return lambda item: (_field_value(item, name) == value) == wanted


def _field_value(item: JsonView, name: str) -> str:
    value: object = item
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if name == "source":
        value = item.get("source", {}).get("component")
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
