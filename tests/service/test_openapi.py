"""The API description against the tables of ``docs/contract.md``: paths, parameters, defaults, bounds, fields."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from holderlake.core.contract import exact_json
from holderlake.core.contract.errors import ERROR_KINDS
from holderlake.core.contract.requests import ENDPOINTS
from holderlake.core.contract.rules import MapRules
from holderlake.engine.records import TokenInfo
from holderlake.service.extra_models import (
    AddressItems,
    AddressLabels,
    Evidence,
    HoldersPage,
    ItemHolders,
    OwnerClusters,
    Usage,
    VerifiedTokens,
)
from holderlake.service.output.openapi import examples

_PAGE = Path(__file__).parents[2] / "docs" / "contract.md"
_NOT_FIELDS = {"GROUPED_TRANSFER", "native", "use_time_nodes"}
_WHOLE_ANSWERS = {
    "Map": "Map",
    "Chain[]": "Chain",
    "the Map's `metrics`": "Metrics",
    "Holder[] by rank": "Holder",
    "Token": "Token",
    "Token[], unknown tokens left out": "Token",
    "Token[]": "Token",
    "Screenshot": "Screenshot",
    "GroupedTransfer[]": "GroupedTransfer",
    "{`address`, `address_details`}": "AddressMetadata",
    "an array of these": "AddressMetadata",
}


@pytest.fixture(scope="module")
def page() -> str:
    return _PAGE.read_text()


@pytest.fixture(scope="module")
def description(service) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{service.base_url}/openapi.json", timeout=None, verify=False).json()
    return found


def _rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading, without its two head rows."""
    section = page.split(f"## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    split = (re.split(r"(?<!\\)\|", line)[1:-1] for line in lines)
    return [[cell.strip().replace("\\|", "|") for cell in cells] for cells in split]


def _parameters(cell: str) -> dict[str, str]:
    """Return the text about each parameter in a cell, by the parameter's name in back-ticks."""
    found = re.findall(r"`(\w+)`([^`]*)", cell)
    return {name: text.strip(" ,;") for name, text in found}


def _resolved(schema: dict[str, Any], description: dict[str, Any]) -> dict[str, Any]:
    """Resolve a schema's reference, and drop null from its alternatives."""
    if "$ref" in schema:
        found: dict[str, Any] = description["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        return found
    choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return _resolved(choices[0], description) | {"nullable": True} if choices else schema


def _given(operation: dict[str, Any], name: str, description: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema of a parameter, or of a property of the body."""
    for parameter in operation.get("parameters", ()):
        if parameter["name"] == name:
            schema = _resolved(parameter["schema"], description)
            return schema | {"required": parameter.get("required", False)} | _default(parameter["schema"])
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    properties = _resolved(body, description).get("properties", {}) if body else {}
    return _resolved(properties[name], description) if name in properties else None


def _default(schema: dict[str, Any]) -> dict[str, Any]:
    return {"default": schema["default"]} if "default" in schema else {}


def test_parameters_defaults_and_bounds_match_the_contract(page, description):
    rows = _rows(page, "Endpoints and credits")
    assert len(rows) == len(ENDPOINTS)
    for endpoint, message, *_ in rows:
        method, path = endpoint.strip("`").split()
        operation = description["paths"][path][method.lower()]
        for name, text in _parameters(message).items():
            schema = _given(operation, name, description)
            assert schema is not None, f"{endpoint}: {name} is not described"
            _holds(schema, text, f"{endpoint}: {name}")


def _holds(schema: dict[str, Any], text: str, where: str) -> None:
    """Check a parameter against the page's default and valid values, such as ``80 (or 250, 500)``."""
    default, valid = re.fullmatch(r"(\w*) ?(?:\((.+)\))?.*", text).groups()
    bounds = [int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", valid or "")]
    if default in ("true", "false"):
        assert (schema["type"], schema["default"]) == ("boolean", default == "true"), where
    elif default.isdigit():
        assert (schema["enum"], schema["default"]) == ([int(default), *bounds], int(default)), where
    elif default == "now":
        assert (schema["type"], schema["minimum"], schema["required"]) == ("integer", *bounds, False), where
    elif default == "null":
        assert schema["nullable"] and "chain" in schema["properties"], where
    elif "characters" in valid:
        assert (schema["minLength"], schema["required"]) == (*bounds, True), where
    else:
        assert [schema["minItems"], schema["maxItems"]] == bounds, where


def test_token_array_has_its_bound(description):
    body = description["paths"]["/v0/tokens/metadata"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert (body["type"], body["maxItems"]) == ("array", 1_000)


def test_answers_match_the_contract(page, description):
    for endpoint, _, answer, _ in _rows(page, "Endpoints and credits"):
        method, path = endpoint.strip("`").split()
        good = description["paths"][path][method.lower()]["responses"]["200"]["content"]["application/json"]["schema"]
        is_list = "[]" in answer or "array" in answer
        assert (good.get("type") == "array") is is_list, endpoint
        assert f"/{_WHOLE_ANSWERS[answer]}" in json.dumps(good), endpoint


def test_every_field_of_the_contract_is_described(page, description):
    schemas = description["components"]["schemas"]
    for title, fields in _rows(page, "Objects"):
        known = _properties(schemas[title], description, depth=2)
        assert set(re.findall(r"`(\w+)`", fields)) - _NOT_FIELDS <= known, title


def _properties(schema: dict[str, Any], description: dict[str, Any], depth: int) -> set[str]:
    """Return the names of properties, including nested ones."""
    found = set(schema.get("properties", {}))
    if depth:
        for inner in schema.get("properties", {}).values():
            found |= _properties(_resolved(inner, description), description, depth - 1)
    return found


def test_every_error_of_the_contract_has_an_example(page, description):
    declared = json.dumps(description["paths"])
    reported = description["info"]["description"]
    for status, codes, _ in _rows(page, "Errors"):
        for code in re.findall(r"`(\w+)`", codes):
            assert ERROR_KINDS[code].status == int(status)
            assert f"`{code}`" in reported, code
            assert f'"code": "{code}"' in declared or code == "removed", code


def test_operations_with_a_key_declare_it_and_the_common_errors(description):
    keyed = [one for path in description["paths"].values() for one in path.values() if one.get("security")]
    assert len(keyed) >= len(ENDPOINTS)
    for operation in keyed:
        assert operation["security"] == [{"APIKeyHeader": []}]
        assert {"200", "401", "408", "413", "415", "422", "429", "500", "503"} <= set(operation["responses"]), operation
    assert description["components"]["securitySchemes"]["APIKeyHeader"]["name"] == "X-ApiKey"


def test_description_has_health_and_readiness(description):
    paths = description["paths"]
    assert paths["/health"]["get"]["tags"] == paths["/ready"]["get"]["tags"] == ["service"]
    assert "503" in paths["/ready"]["get"]["responses"]
    assert "/metrics" not in paths


def test_operation_names_are_unique(description):
    names = [
        operation["operationId"] for operations in description["paths"].values() for operation in operations.values()
    ]
    assert len(set(names)) == len(names)


def test_examples_are_valid_answers():
    shapes = {endpoint.endpoint: endpoint.answer for endpoint in ENDPOINTS}
    shapes |= {
        "x_holders": HoldersPage,
        "x_evidence": Evidence,
        "x_clusters": OwnerClusters,
        "x_labels": AddressLabels,
        "x_usage": Usage,
        "x_rules": MapRules,
        "x_verified": VerifiedTokens,
        "x_item": ItemHolders,
        "x_address_items": AddressItems,
    }
    assert set(examples()) == set(shapes)
    for endpoint, example in examples().items():
        exact_json.decode(exact_json.encode(example), shapes[endpoint])


def test_docs_page_loads_nothing_from_other_hosts(service):
    with httpx.Client(base_url=service.base_url, timeout=None, verify=False) as http:
        page = http.get("/docs")
        assert page.status_code == 200
        sources = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert sources and all(source.startswith("/") for source in sources)
        assert all(http.get(source).status_code == 200 for source in sources)


# ------------------------------------------------------------------------ all routes


def test_all_fields_but_raw_amounts_are_required(description):
    schemas = description["components"]["schemas"]
    for title in ("Map", "Nodes", "Cluster", "AddressDetails", "Holder", "HolderData", "Token", "Chain", "Scores"):
        optional = set(schemas[title]["properties"]) - set(schemas[title]["required"])
        assert optional <= {"amount_raw", "total_value_raw"}, title
    assert set(schemas["SubgraphRequest"]["required"]) == {"addresses"}


def test_bounds_are_described_as_minimum_and_maximum(description):
    """With a validator before them, pydantic writes ``ge`` and ``le``, which no client understands."""
    assert not re.search(r'"(ge|le|gt|lt)":', json.dumps(description))
    assert description["components"]["schemas"]["HolderData"]["properties"]["share"]["maximum"] == 1


def test_parameters_are_not_nullable(description):
    for operations in description["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                assert '"type": "null"' not in json.dumps(parameter["schema"]), (
                    operation["operationId"],
                    parameter["name"],
                )


@pytest.mark.integration
def test_description_lists_the_supported_chains(own_world, start):
    base_url = start(store=own_world.store).base_url

    def named() -> set[str]:
        paths = httpx.get(f"{base_url}/openapi.json", timeout=None, verify=False).json()["paths"]
        (chain,) = [
            one
            for one in paths["/v0/tokens/map/{chain}/{token_address}"]["get"]["parameters"]
            if one["name"] == "chain"
        ]
        return set(chain["schema"]["enum"])

    assert {"eth", "arc", own_world.strange_chain} <= named()
    own_world.store.add_tokens([TokenInfo("chain-of-tomorrow", own_world.token, "New", "NEW", 18)])
    assert "chain-of-tomorrow" in named()


def test_description_of_invalid_requests_matches_the_answer(description, custom):
    answer = custom.http.get("/v0/tokens/search").json()
    schema = description["components"]["schemas"]["InvalidRequest"]
    assert set(schema["properties"]) == set(schema["required"]) == set(answer) == {"detail", "code"}
    for operations in description["paths"].values():
        for operation in operations.values():
            if "422" in operation["responses"]:
                described = operation["responses"]["422"]["content"]["application/json"]["schema"]
                assert described == {"$ref": "#/components/schemas/InvalidRequest"}
