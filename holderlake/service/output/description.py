"""Completes what the framework says of the whole service: its chains, its errors, what is always in an answer.

The contract's models are what a client has to read; what we answer ourselves is stricter, and is described so. What
single routes declare stands in ``openapi``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from fastapi import FastAPI

from holderlake.contract.errors import ERROR_KINDS
from holderlake.service.output.openapi import examples
from holderlake.service.output.render import OLDER_SCORE

Schema = dict[str, Any]

_REQUESTED: Final = "RequestedKey"
_IF_NONE_MATCH: Final = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "`ETag` of an answer that the caller has: where it still holds, it is not sent again, and free.",
}


def errors_table() -> str:
    """Every error that the service answers, for the description's first page."""
    rows = [f"| {kind.status} | `{kind.code}` | {kind.when} |" for kind in ERROR_KINDS.values()]
    return "\n".join(("| status | code | when |", "|---|---|---|", *rows))


def complete(app: FastAPI, chains: Callable[[], Sequence[str]], score_names: Sequence[str] = ()) -> None:
    """Add to the app's description what routes cannot declare.

    ``chains`` returns the chains that are served at that time; ``score_names`` are the further names of the score.
    """
    write = app.openapi

    def openapi() -> Schema:
        is_new = app.openapi_schema is None
        description = write()
        if is_new:
            _complete(description)
            _name_scores(description["components"]["schemas"], score_names)
        for _, parameter in _parameters(description):
            if (parameter["in"], parameter["name"]) == ("path", "chain"):
                parameter["schema"] = {"type": "string", "enum": list(chains())}
        description["components"]["schemas"][_REQUESTED]["properties"]["chain"]["enum"] = list(chains())
        return description

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(description: Schema) -> None:
    for _, parameter in _parameters(description):
        parameter["schema"] = _given(parameter["schema"])
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
        _always_there(schema)
    _close_tokens_of_bodies(description)


def _close_tokens_of_bodies(description: Schema) -> None:
    """Describe tokens of request bodies: of a served chain, without other fields. Tokens of answers are open."""
    schemas = description["components"]["schemas"]
    token = schemas["TokenKey"]
    schemas[_REQUESTED] = token | {
        "title": _REQUESTED,
        "properties": {name: {**one} for name, one in token["properties"].items()},
        "additionalProperties": False,
    }
    reference = {"$ref": f"#/components/schemas/{_REQUESTED}"}
    schemas["SubgraphRequest"]["properties"]["context_token_key"]["anyOf"][0] = reference
    body = description["paths"]["/v0/tokens/metadata"]["post"]["requestBody"]["content"]["application/json"]
    body["schema"]["items"] = reference


def _name_scores(schemas: Schema, names: Sequence[str]) -> None:
    """Describe the score's further names as ``render`` writes them."""
    scores = schemas["Scores"]
    score = scores["properties"]["service_score"]
    holders = [scores] * bool(names) + [schemas["Map"]] * (OLDER_SCORE in names)
    for schema in holders:
        added = names if schema is scores else [OLDER_SCORE]
        schema["properties"] |= {name: {**score, "title": name} for name in added}
        schema["required"] = [*schema["required"], *added]


def _operations(description: Schema) -> Iterator[Schema]:
    for operations in description["paths"].values():
        yield from operations.values()


def _parameters(description: Schema) -> Iterator[tuple[Schema, Schema]]:
    for operation in _operations(description):
        for parameter in operation.get("parameters", ()):
            yield operation, parameter


def _given(schema: Schema) -> Schema:
    """A parameter is there or it is not: null can't be sent."""
    kinds = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return {**{name: value for name, value in schema.items() if name != "anyOf"}, **kinds[0]} if kinds else schema


def _always_there(schema: Schema) -> None:
    """Every field of an answer is there, null or not; raw amounts are never null, and only there when asked for."""
    if not schema.get("additionalProperties"):  # a request's, whose fields may be left out
        return
    raw = [name for name in schema["properties"] if name in ("amount_raw", "total_value_raw")]
    for name in raw:
        schema["properties"][name] = _given(schema["properties"][name])
    schema["required"] = [name for name in schema["properties"] if name not in raw]


def _only_our_relationships(description: Schema) -> None:
    """A client keeps relationships of types that it does not know; we answer none."""
    schemas = description["components"]["schemas"]
    ours = {"$ref": "#/components/schemas/GroupedTransfer"}
    for items in _lists(description):
        if ours in items.get("oneOf", ()):
            items.clear()
            items.update(ours)
    del schemas["UnknownRelationship"]


def _lists(node: Any) -> Iterator[Schema]:
    """What every list in a description consists of."""
    if isinstance(node, dict):
        if isinstance(node.get("items"), dict):
            yield node["items"]
        for inner in node.values():
            yield from _lists(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _lists(inner)


def _request_examples() -> tuple[Schema, Schema]:
    """Bodies by operation and parameters by name, that have an answer in the sample world."""
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
        "before": answers["x_changes"]["before"],
        "token_id": answers["x_item"]["token_id"],
    }
    return bodies, parameters
