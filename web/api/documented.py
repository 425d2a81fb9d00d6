"""The errors of each kind of route, for the OpenAPI document."""

from typing import Any

from web.problems import MEDIA_TYPE

Responses = dict[int | str, dict[str, Any]]


def _problem(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


_ALWAYS: Responses = {
    422: _problem("A parameter is wrong or unknown"),
    500: _problem("The archiver failed, or archived bytes are damaged"),
    503: _problem("The index or the bucket cannot be read now; see Retry-After"),
}
NOT_MODIFIED: Responses = {304: {"description": "The caller has it already (If-None-Match)"}}
LIST_ERRORS: Responses = {**NOT_MODIFIED, 400: _problem("The page token fits another list"), **_ALWAYS}
ONE_ERRORS: Responses = {**NOT_MODIFIED, 404: _problem("Not archived, or not visible to the caller"), **_ALWAYS}
SAY_ERRORS: Responses = {
    400: _problem("What was said makes no sense here, or is too long"),
    403: _problem("Sent from a page of another site"),
    404: _problem("Not archived, or not visible to the caller"),
    **_ALWAYS,
}
RANGE_ERRORS: Responses = {
    206: {"description": "The bytes of the asked range", "content": {"text/plain": {}}},
    **ONE_ERRORS,
    416: _problem("The range lies behind the end"),
}
GREP_ERRORS: Responses = {**ONE_ERRORS, 400: _problem("The pattern cannot be searched for")}
SEARCH_ERRORS: Responses = {
    400: _problem("The pattern cannot be searched for, or the token is another search's"),
    **_ALWAYS,
}
