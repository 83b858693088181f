"""Answers held to the API's description."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema

if TYPE_CHECKING:
    import httpx

Document = dict[str, Any]


def schema_of(document: Document, method: str, route: str, answer: httpx.Response) -> Any:
    """The schema of this answer's JSON. Raises KeyError where the description has none."""
    responses = document["paths"][route][method.lower()]["responses"]
    described = responses.get(str(answer.status_code)) or responses["default"]
    content_type = answer.headers["content-type"].partition(";")[0]
    return described["content"][content_type]["schema"]


def check(document: Document, method: str, route: str, answer: httpx.Response) -> Any:
    """The answer's JSON, which must be what the description says, and no member more."""
    schema = schema_of(document, method, route, answer)
    body = answer.json()
    whole = {**schema, "components": document["components"]}
    jsonschema.Draft202012Validator(whole).validate(body)
    _no_more(document, schema, body, at=f"{method} {route}")
    return body


def _no_more(document: Document, schema: Any, value: Any, at: str) -> None:
    """Every member of an object whose members are described is one of them."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for variant in schema.get("anyOf", ()):
        if value is not None and variant.get("type") != "null":
            _no_more(document, variant, value, at)
    if isinstance(value, list) and "items" in schema:
        for item in value:
            _no_more(document, schema["items"], item, f"{at}[]")
    members = schema.get("properties")
    if isinstance(value, dict) and members:
        assert value.keys() <= members.keys(), at
        if "Problem" not in schema.get("title", ""):
            assert members.keys() == value.keys(), at
        for name, member in value.items():
            _no_more(document, members[name], member, f"{at}.{name}")
