"""One stored Event, two shapes: core/v1 (stored) and events.k8s.io/v1 (a view). Nothing else is converted."""

from archiver.sandbox.jsontypes import JsonObject, JsonView
from archiver.sandbox.resources import EVENTS_GROUP, Resource

# core/v1 name -> events.k8s.io/v1 name
_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_CORE_NAMES = {new: old for old, new in _NAMES.items()}


def to_view(event: JsonView) -> JsonObject:
    view = {_NAMES.get(name, name): value for name, value in event.items()}
    return {**view, "apiVersion": f"{EVENTS_GROUP}/v1", "kind": "Event"}


def from_view(document: JsonObject, resource: Resource) -> JsonObject:
    """What is stored of a document that was sent to this resource."""
    if resource.group != EVENTS_GROUP:
        return document
    event = {_CORE_NAMES.get(name, name): value for name, value in document.items()}
    return {"firstTimestamp": None, "lastTimestamp": None, "source": {}, **event, "apiVersion": "v1"}
