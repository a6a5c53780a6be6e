"""Completes the OpenAPI document that FastAPI makes: served chains, errors, required fields, examples.

FastAPI describes all answers that the contract allows. This module narrows the document to the answers that this
service gives. The declarations of single routes are in ``openapi``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from fastapi import FastAPI

from holderlake.core.contract.errors import ERROR_KINDS
from holderlake.service.output.openapi import examples

Schema = dict[str, Any]

_REQUESTED: Final = "RequestedKey"
_IF_NONE_MATCH: Final = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "`ETag` of an answer that the caller has: if it is still valid, the answer is an empty 304, free.",
}


def errors_table() -> str:
    """Return a Markdown table of all error codes."""
    rows = [f"| {kind.status} | `{kind.code}` | {kind.when} |" for kind in ERROR_KINDS.values()]
    return "\n".join(("| status | code | when |", "|---|---|---|", *rows))


def complete(app: FastAPI, chains: Callable[[], Sequence[str]]) -> None:
    """Complete the app's OpenAPI document: served chains, required fields and examples.

    ``chains`` returns the ids of the chains that are served now.
    """
    write = app.openapi

    def openapi() -> Schema:
        is_new = app.openapi_schema is None
        description = write()
        if is_new:
            _complete(description)
        for _, parameter in _parameters(description):
            if (parameter["in"], parameter["name"]) == ("path", "chain"):
                parameter["schema"] = {"type": "string", "enum": list(chains())}
        description["components"]["schemas"][_REQUESTED]["properties"]["chain"]["enum"] = list(chains())
        return description

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(description: Schema) -> None:
    for _, parameter in _parameters(description):
        parameter["schema"] = _without_null(parameter["schema"])
    bodies, parameters = _request_examples()
    for operation in _operations(description):
        for parameter in operation.get("parameters", ()):
            if parameter["required"] and parameter["name"] in parameters:
                parameter["example"] = parameters[parameter["name"]]
        if operation["operationId"] in bodies:
            operation["requestBody"]["content"]["application/json"]["example"] = bodies[operation["operationId"]]
        if "304" in operation["responses"]:
            operation.setdefault("parameters", []).append(_IF_NONE_MATCH)
    _only_our_relationships(description)
    for schema in description["components"]["schemas"].values():
        _require_fields(schema)
    _close_tokens_of_bodies(description)


def _close_tokens_of_bodies(description: Schema) -> None:
    """Forbid unknown fields in the tokens of request bodies. Tokens in answers may have further fields."""
    schemas = description["components"]["schemas"]
    token = schemas["TokenKey"]
    schemas[_REQUESTED] = token | {
        "title": _REQUESTED,
        "properties": {name: {**schema} for name, schema in token["properties"].items()},
        "additionalProperties": False,
    }
    reference = {"$ref": f"#/components/schemas/{_REQUESTED}"}
    schemas["SubgraphRequest"]["properties"]["context_token_key"]["anyOf"][0] = reference
    body = description["paths"]["/v0/tokens/metadata"]["post"]["requestBody"]["content"]["application/json"]
    body["schema"]["items"] = reference


def _operations(description: Schema) -> Iterator[Schema]:
    for operations in description["paths"].values():
        yield from operations.values()


def _parameters(description: Schema) -> Iterator[tuple[Schema, Schema]]:
    for operation in _operations(description):
        for parameter in operation.get("parameters", ()):
            yield operation, parameter


def _without_null(schema: Schema) -> Schema:
    """Return the schema of a parameter without null, because null cannot be sent as a parameter."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    return {**{name: value for name, value in schema.items() if name != "anyOf"}, **kinds[0]} if kinds else schema


def _require_fields(schema: Schema) -> None:
    """Mark all fields in the schema of an answer as required, except raw amounts, which are optional and never null."""
    if not schema.get("additionalProperties"):  # a request's fields are optional
        return
    raw = [name for name in schema["properties"] if name in ("amount_raw", "total_value_raw")]
    for name in raw:
        schema["properties"][name] = _without_null(schema["properties"][name])
    schema["required"] = [name for name in schema["properties"] if name not in raw]


def _only_our_relationships(description: Schema) -> None:
    """Remove the schema of relationships of unknown types, because this service never returns such relationships."""
    schemas = description["components"]["schemas"]
    ours = {"$ref": "#/components/schemas/GroupedTransfer"}
    for items in _lists(description):
        if ours in items.get("oneOf", ()):
            items.clear()
            items.update(ours)
    del schemas["UnknownRelationship"]


def _lists(node: Any) -> Iterator[Schema]:
    """Yield the schema of the elements (``items``) of every array in an OpenAPI document or a part of it (``node``)."""
    if isinstance(node, dict):
        if isinstance(node.get("items"), dict):
            yield node["items"]
        for inner in node.values():
            yield from _lists(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _lists(inner)


def _request_examples() -> tuple[Schema, Schema]:
    """Return example bodies by operation id, and example parameters by name. The sample world has answers for them."""
    answers = examples()
    token, link = answers["token_metadata"], answers["subgraph"][0]
    pair = [link["from_address"], link["to_address"]]
    bodies = {
        "subgraph": {"addresses": pair, "context_token_key": token["token_key"]},
        "tokens_metadata": [token["token_key"]],
        "addresses_metadata": {"addresses": pair},
    }
    parameters = {
        "chain": token["token_key"]["chain"],
        "token_address": token["token_key"]["address"],
        "address": answers["address_metadata"]["address"],
        "query": token["metadata"]["symbol"],
        "token_id": answers["x_item"]["token_id"],
    }
    return bodies, parameters
