"""A strict typed client of every 2xx answer: exact types, nulls and fields of the contract, and relations between them.

The shapes are written here again from the contract's page, independently of our models. The answers are also checked
against the service's own description.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import islice, pairwise
from typing import Any

import httpx
import pytest

from holderlake.core.contract.times import dt_update_text, from_unix, to_unix, utc_now
from holderlake.engine.store.store import Store

Is = Callable[[Any], bool]

# ------------------------------------------------------------------------ reading


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    assert len(found) == len(pairs), f"duplicate name in {[name for name, _ in pairs]}"
    return found


def _refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is not JSON")


def read(raw: bytes) -> Any:
    """Parse JSON exactly: only integers without a decimal point become ``int``, others ``Decimal``."""
    return json.loads(raw.decode(), parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_unique)


# ------------------------------------------------------------------------ the contract's objects


@dataclass(frozen=True)
class Null:
    """A nullable value."""

    of: Any


def integer(value: Any) -> bool:
    return type(value) is int


def number(value: Any) -> bool:
    return type(value) in (int, Decimal)


def flag(value: Any) -> bool:
    return type(value) is bool


def text(value: Any) -> bool:
    return isinstance(value, str)


def nothing(value: Any) -> bool:
    return value is None


def name(value: Any) -> bool:
    return text(value) and value != ""


def count(value: Any) -> bool:
    return integer(value) and value >= 0


def share(value: Any) -> bool:
    return number(value) and 0 <= value <= 1


def amount(value: Any) -> bool:
    return number(value) and value >= 0


def score(value: Any) -> bool:
    return number(value) and 0 <= value <= 100 and value == round(Decimal(value), 2)


def seconds(value: Any) -> bool:
    return integer(value) and 0 <= value <= to_unix(utc_now()) + 1


def raw_integer(value: Any) -> bool:
    return text(value) and re.fullmatch("0|[1-9][0-9]*", value) is not None


def day(value: Any) -> bool:
    return text(value) and re.fullmatch(r"\d{4}-\d\d-\d\d", value) is not None


def date_time(value: Any) -> bool:
    """RFC 3339 with a zone, as in ``format: date-time``."""
    return text(value) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", value) is not None


def zoneless(value: Any) -> bool:
    """ISO 8601 with microseconds and without zone, as in ``dt_update``."""
    return text(value) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", value) is not None


def url(value: Any) -> bool:
    return text(value) and value.startswith(("http://", "https://"))


def one_of(*values: str) -> Is:
    return lambda value: value in values


CHAIN = {"id": name, "name": name, "dexscreener_id": Null(name), "coingecko_id": Null(name)}
TOKEN_KEY = {"chain": name, "address": name}
TOKEN = {
    "token_key": TOKEN_KEY,
    "metadata": {"name": text, "symbol": text, "is_indexed": flag, "img_url": Null(url)},
    "stats": nothing,
}
STATS = {"transfers_count": count, "min_date": Null(date_time), "max_date": Null(date_time)}
DETAILS = {
    **dict.fromkeys(("degree", "inward_relations", "outward_relations"), count),
    **dict.fromkeys(("is_supernode", "is_contract", "is_cex", "is_dex", "is_paid_label"), flag),
    **dict.fromkeys(("label", "entity_id"), Null(name)),
    "first_activity_date": Null(date_time),
}
ADDRESS = {"address": name, "address_details": DETAILS}
NODE = {**ADDRESS, "is_shown_on_map": flag}
SUPPLY = dict.fromkeys(("cexs", "dexs", "contracts", "fresh_wallets", "top_10_adjusted", "bundles"), share)
SCORES = {
    "service_score": Null(score),
    "gini_index": share,
    "herfindahl_hirschman_index": share,
    "nakamoto_coefficient": count,
}
METRICS = {"supply_stats": SUPPLY, "scores": SCORES}
SCREENSHOT = {"image_url": url, "updated_at": date_time}


def holder_data(raw: bool) -> Any:
    return {"amount": amount, "rank": count, "share": share} | ({"amount_raw": raw_integer} if raw else {})


def holder(details: bool, raw: bool) -> Any:
    return {
        "address": name,
        "holder_data": holder_data(raw),
        "address_details": DETAILS if details else nothing,
    }


def transfer(raw: bool) -> Any:
    data = {"total_value": amount, "total_transfers": count, "first_date": seconds, "last_date": seconds}
    data |= {"token_key": TOKEN_KEY} | ({"total_value_raw": raw_integer} if raw else {})
    ends = {"from_address": name, "to_address": name}
    return ends | {"rel_type": one_of("GROUPED_TRANSFER"), "data": data}


def cluster(raw: bool) -> Any:
    figures = {"share": share, "amount": amount, "holder_count": count, "magic_node_count": count}
    return figures | {"holders": [name], "magic_nodes": [name]} | ({"amount_raw": raw_integer} if raw else {})


def whole_map(asked: dict[str, Any]) -> Any:
    """Return the shape of a map with these options."""
    raw = bool(asked.get("return_raw_amounts"))
    time_node = {"address": name, "relationships": [transfer(raw)]}
    nodes = {
        "top_holders": [{**NODE, "holder_data": holder_data(raw)}],
        "magic_nodes": [NODE] if asked.get("use_magic_nodes", True) else nothing,
        "time_nodes": [time_node] if asked.get("use_time_nodes", True) else nothing,
    }
    scores = SCORES if asked.get("return_decentralization_score", True) else SCORES | {"service_score": nothing}
    return {
        "metadata": {"dt_update": zoneless, "ts_update": seconds},
        "metrics": {"supply_stats": SUPPLY, "scores": scores},
        "nodes": nodes if asked.get("return_nodes") else nothing,
        "relationships": [transfer(raw)] if asked.get("return_relationships") else nothing,
        "clusters": [cluster(raw)] if asked.get("return_clusters", True) else nothing,
    }


EVIDENCE = {
    "as_of": seconds,
    "clusters": [
        {
            "cluster_id": count,
            "links": [
                {
                    **{"from_address": name, "to_address": name, "data": transfer(raw=True)["data"]},
                    **{"strength": count, "token_symbol": text},
                    **dict.fromkeys(("from_kind", "to_kind"), one_of("holder", "magic", "time")),
                    "time_node": Null(count),
                    "transfers": [
                        {
                            "tx_hash": Null(name),
                            **{"block_number": count, "timestamp": seconds, "log_index": integer},
                            **{"token_id": Null(raw_integer), "value_raw": raw_integer},
                        }
                    ],
                }
            ],
        }
    ],
}
LABELS = {
    "address": name,
    "labels": [
        {
            "source": name,
            **dict.fromkeys(("chain", "label", "entity_id"), Null(name)),
            **dict.fromkeys(("is_cex", "is_dex", "is_contract", "is_paid_label"), flag),
            "precedence": integer,
            **dict.fromkeys(("valid_from", "valid_to"), Null(seconds)),
        }
    ],
}
USAGE = {
    **dict.fromkeys(("allowance", "spent", "reserved", "remaining"), count),
    "renews_on": day,
    "charged": [{"day": day, "endpoint": name, "requests": count, "hundredths": count}],
}
RULES = {
    "labels": one_of("latest", "as_of"),
    **dict.fromkeys(("supernode_degree", "hypernode_transfers", "magic_links", "magic_limit"), count),
    **dict.fromkeys(
        ("time_window", "time_links", "time_wallets", "time_limit", "fresh_wallet_seconds", "score_version"), count
    ),
    "time_allowed": [name],
}


def hold(value: Any, shape: Any, where: str = "the answer") -> None:
    """Check that a value has exactly the fields of a shape."""
    if isinstance(shape, Null):
        if value is not None:
            hold(value, shape.of, where)
    elif isinstance(shape, dict):
        assert isinstance(value, dict), f"{where}: {value!r}"
        assert set(value) == set(shape), f"{where}: {set(value) ^ set(shape)}"
        for field, inner in shape.items():
            hold(value[field], inner, f"{where}.{field}")
    elif isinstance(shape, list):
        assert isinstance(value, list), f"{where}: {value!r}"
        for place, one in enumerate(value):
            hold(one, shape[0], f"{where}[{place}]")
    else:
        assert shape(value), f"{where}: {value!r} is no {shape.__name__}"


# ------------------------------------------------------------------------ client


@dataclass(frozen=True)
class Strict:
    """A client that accepts only answers that match the contract and the service's own description."""

    http: httpx.Client
    store: Store
    tokens: list[tuple[str, str]]
    described: Any

    def ask(self, route: str, shape: Any, path: str | None = None, body: Any = None, **query: Any) -> Any:
        """Return the answer to a request after checking it against a shape and the route's description."""
        method = "GET" if body is None else "POST"
        answer = self.http.request(method, path or route, params=query, json=body)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/json"
        found = read(answer.content)
        hold(found, shape)
        _holds_to_the_description(self.described[route][method], answer)
        if isinstance(found, dict) and "metadata" in found and "metrics" in found:
            assert answer.headers["X-Dt-Update"] == found["metadata"]["dt_update"]
        return found

    def of(self, route: str, token: tuple[str, str], shape: Any, **query: Any) -> Any:
        """The same as ``ask``, for a route about one token."""
        path = route.replace("{chain}", token[0]).replace("{token_address}", token[1])
        return self.ask(route, shape, path, **query)


def _holds_to_the_description(operation: Any, answer: httpx.Response) -> None:
    from schemathesis.core.failures import FailureGroup

    try:
        operation.validate_response(answer)
    except FailureGroup as failures:
        raise AssertionError([str(failure) for failure in failures.exceptions]) from failures


@cache
def _described(base_url: str) -> Any:
    """Return the service's own description, without additional properties."""
    import schemathesis

    description = httpx.get(f"{base_url}/openapi.json", timeout=None, verify=False).json()
    for schema in description["components"]["schemas"].values():
        if schema.get("additionalProperties") is True:
            schema["additionalProperties"] = False
    return schemathesis.openapi.from_dict(description)


def _held(http: httpx.Client, store: Store) -> Iterator[tuple[str, str]]:
    """Yield supported tokens that have holders."""
    for history in store.histories():
        if http.get(f"/v0/tokens/metrics/{history.chain}/{history.token_address}").status_code == 200:
            yield history.chain, history.token_address


@pytest.fixture(scope="module", params=["small", "sample"])
def strict(request: pytest.FixtureRequest) -> Iterator[Strict]:
    """A strict client of the service over each world."""
    if request.param == "small":
        running, store = request.getfixturevalue("service"), request.getfixturevalue("world").store
        base_url, secret = running.base_url, running.keys.create("strict", 10**12, custom_plan=True)
    else:
        running = request.getfixturevalue("sample_service")
        base_url, secret, store = running.base_url, running.secret, running.store
    with httpx.Client(base_url=base_url, headers={"X-ApiKey": secret}, timeout=None, verify=False) as http:
        tokens = list(islice(_held(http, store), 5))
        assert tokens
        yield Strict(http, store, tokens, _described(base_url))


def _past(strict: Strict, token: tuple[str, str]) -> int:
    """Return a second in the middle of a token's history."""
    history = strict.store.history(*token)
    assert history is not None
    return (history.first_time + history.last_time) // 2


# ------------------------------------------------------------------------ maps

MAP, HOLDERS = "/v0/tokens/map/{chain}/{token_address}", "/v0/tokens/holders/{chain}/{token_address}"
ALL = {"return_nodes": True, "return_relationships": True, "return_clusters": True}
ASKED: dict[str, dict[str, Any]] = {
    "by default": {},
    "with all": ALL,
    "with all and exact": ALL | {"return_raw_amounts": True},
    "with nodes only": {"return_nodes": True, "return_clusters": False},
    "without a score": ALL | {"return_decentralization_score": False},
    "without magic nodes": ALL | {"use_magic_nodes": False},
    "without time nodes": ALL | {"use_time_nodes": False},
    "refresh": ALL | {"refresh": True},
    "of 250": ALL | {"limit": 250},
    "of 500": ALL | {"limit": 500, "return_raw_amounts": True},
}


@pytest.mark.later(integration=3, long=6)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("when", ["now", "then"])
def test_map_matches_the_contract(strict, asked, when):
    for token in strict.tokens:
        query = ASKED[asked] | ({"timestamp": _past(strict, token)} if when == "then" else {})
        found = strict.of(MAP, token, whole_map(query), **query)
        metadata = found["metadata"]
        assert to_unix(from_unix(metadata["ts_update"])) == metadata["ts_update"]
        assert metadata["dt_update"].startswith(dt_update_text(from_unix(metadata["ts_update"]))[:19])
        if found["nodes"] is not None:
            _nodes_hold(found)
        if found["clusters"] is not None:
            _clusters_hold(found)


def _nodes_hold(found: Any) -> None:
    top, shown = found["nodes"]["top_holders"], _shown(found)
    _ranks_hold(top)
    assert not any(
        node["address_details"][kind] for node in shown.values() for kind in ("is_cex", "is_dex", "is_contract")
    )
    magic = [node["address"] for node in found["nodes"]["magic_nodes"] or ()]
    assert len({*magic}) == len(magic) and not {*magic} & {node["address"] for node in top}
    assert all(node["is_shown_on_map"] for node in found["nodes"]["magic_nodes"] or ())
    for link in found["relationships"] or ():
        _link_holds(link, {*shown, *magic})
    for node in found["nodes"]["time_nodes"] or ():
        for link in node["relationships"]:
            _link_holds(link, {*shown, *magic, node["address"]})


def _shown(found: Any) -> dict[str, Any]:
    return {node["address"]: node for node in found["nodes"]["top_holders"] if node["is_shown_on_map"]}


def _ranks_hold(holders: list[Any], first: int = 1) -> None:
    """Check ranks without gaps, descending amounts and shares, unique addresses."""
    assert [one["holder_data"]["rank"] for one in holders] == list(range(first, first + len(holders)))
    for field in ("amount", "share"):
        assert all(one["holder_data"][field] >= other["holder_data"][field] for one, other in pairwise(holders))
    assert len({one["address"] for one in holders}) == len(holders)
    assert sum(one["holder_data"]["share"] for one in holders) <= 1 + Decimal("1e-9")


def _link_holds(link: Any, nodes: set[str]) -> None:
    assert {link["from_address"], link["to_address"]} <= nodes
    assert link["from_address"] != link["to_address"]
    assert link["data"]["total_transfers"] >= 1
    assert link["data"]["first_date"] <= link["data"]["last_date"]


def _clusters_hold(found: Any) -> None:
    """Check that clusters do not overlap and sum the holders of the map."""
    clusters = found["clusters"]
    assert all(one["share"] >= other["share"] for one, other in pairwise(clusters))
    members = [address for one in clusters for address in (*one["holders"], *one["magic_nodes"])]
    assert len(set(members)) == len(members)
    for one in clusters:
        assert one["holder_count"] == len(one["holders"]) >= 2
        assert one["magic_node_count"] == len(one["magic_nodes"])
    if found["nodes"] is None:
        return
    shown = _shown(found)
    magic = {node["address"] for node in found["nodes"]["magic_nodes"] or ()}
    for one in clusters:
        assert {*one["magic_nodes"]} <= magic
        held = [shown[address]["holder_data"] for address in one["holders"]]
        assert sum(Fraction(holding["amount"]) for holding in held) == Fraction(one["amount"])  # exactly
        assert abs(sum(holding["share"] for holding in held) - one["share"]) < Decimal("1e-9")


def test_metrics_equal_the_maps(strict):
    for token in strict.tokens:
        found = strict.of("/v0/tokens/metrics/{chain}/{token_address}", token, METRICS)
        assert found == strict.of(MAP, token, whole_map({}))["metrics"]


@pytest.mark.long
def test_screenshot_url_leads_to_a_picture(strict):
    for token in strict.tokens[:3]:
        found = strict.of("/v0/tokens/screenshot/{chain}/{token_address}", token, SCREENSHOT)
        picture = httpx.get(found["image_url"], timeout=None, verify=False)
        assert (picture.status_code, picture.headers["content-type"]) == (200, "image/png")


# ------------------------------------------------------------------------ holders


@pytest.mark.later(integration=4, long=7)
@pytest.mark.parametrize("query", [{}, {"return_metadata": True}, {"limit": 500, "return_raw_amounts": True}])
@pytest.mark.parametrize("when", ["now", "then"])
def test_holders_match_the_contract(strict, query, when):
    shape = [holder(bool(query.get("return_metadata")), bool(query.get("return_raw_amounts")))]
    for token in strict.tokens:
        asked = query | ({"timestamp": _past(strict, token)} if when == "then" else {})
        found = strict.of(HOLDERS, token, shape, **asked)
        assert 1 <= len(found) <= query.get("limit", 80)
        _ranks_hold(found)


def test_holders_equal_the_maps(strict):
    for token in strict.tokens:
        listed = strict.of(HOLDERS, token, [holder(details=True, raw=False)], return_metadata=True)
        nodes = strict.of(MAP, token, whole_map({"return_nodes": True}), return_nodes=True)["nodes"]["top_holders"]
        assert listed == [{field: node[field] for field in listed[0]} for node in nodes]


def test_pages_of_holders_are_contiguous(strict):
    shape = {"as_of": seconds, "holders": [holder(details=False, raw=True)], "next_cursor": Null(name)}
    for token in strict.tokens:
        rank, query = 1, {"limit": 7}
        while True:
            page = strict.of("/v0/x/tokens/holders/{chain}/{token_address}", token, shape, **query)
            _ranks_hold(page["holders"], rank)
            rank += len(page["holders"])
            if page["next_cursor"] is None or rank > 50:
                break
            query["cursor"] = page["next_cursor"]


# ------------------------------------------------------------------------ tokens, chains and addresses


def test_chains_match_the_contract(strict):
    found = strict.ask("/v0/chains", [CHAIN])
    names = [one["id"] for one in found]
    assert len(set(names)) == len(names) >= 14


def test_tokens_match_the_contract(strict):
    keys = [{"chain": chain, "address": address} for chain, address in strict.tokens]
    with_stats = TOKEN | {"stats": STATS}
    plain = [strict.of("/v0/tokens/metadata/{chain}/{token_address}", token, TOKEN) for token in strict.tokens]
    reported = [
        strict.of("/v0/tokens/metadata/{chain}/{token_address}", token, with_stats, return_token_stats=True)
        for token in strict.tokens
    ]
    assert [one["token_key"] for one in plain] == keys
    assert strict.ask("/v0/tokens/metadata", [TOKEN], body=keys) == plain
    assert strict.ask("/v0/tokens/metadata", [with_stats], body=keys, return_token_stats=True) == reported
    for one in reported:
        assert one["stats"]["min_date"] <= one["stats"]["max_date"]


def test_search_by_address_symbol_and_name(strict):
    for chain, address in strict.tokens:
        key = {"chain": chain, "address": address}
        for word in _words(strict, chain, address):
            found = strict.ask("/v0/tokens/search", [TOKEN], query=word)
            assert key in [one["token_key"] for one in found], word


def _words(strict: Strict, chain: str, address: str) -> list[str]:
    token = strict.store.tokens([(chain, address)])[chain, address]
    return [word for word in (address, token.symbol, token.name[:4]) if len(word) >= 2]


def test_relationships_are_among_the_requested_addresses(strict):
    seen = 0
    for chain, token in strict.tokens:
        holders = strict.of(HOLDERS, (chain, token), [holder(details=False, raw=False)])
        among = [one["address"] for one in holders]
        if len(among) < 2:
            continue
        body = {"addresses": among, "context_token_key": {"chain": chain, "address": token}}
        found = strict.ask("/v0/relationships/subgraph", [transfer(raw=False)], body=body)
        seen += len(found)
        for link in found:
            _link_holds(link, {*among})
    assert seen


def test_addresses_keep_the_requests_order(strict):
    holders = strict.of(HOLDERS, strict.tokens[0], [holder(details=False, raw=False)])
    among = [one["address"] for one in holders][:20]
    found = strict.ask("/v0/addresses/metadata", [ADDRESS], body={"addresses": among})
    assert [one["address"] for one in found] == among
    for one in found[:5]:
        route = "/v0/addresses/metadata/{address}"
        assert strict.ask(route, ADDRESS, route.format(address=one["address"])) == one
        assert one["address_details"]["degree"] <= sum(
            one["address_details"][side] for side in ("inward_relations", "outward_relations")
        )


# ------------------------------------------------------------------------ beyond the contract


def test_evidence_matches_its_description(strict):
    for token in strict.tokens:
        found = strict.of("/v0/x/tokens/evidence/{chain}/{token_address}", token, EVIDENCE, transfers=100)
        assert [one["cluster_id"] for one in found["clusters"]] == list(range(1, len(found["clusters"]) + 1))


def test_labels_and_usage_match_their_description(strict):
    holders = strict.of(HOLDERS, strict.tokens[0], [holder(details=False, raw=False)])
    route = "/v0/x/addresses/labels/{address}"
    found = [strict.ask(route, LABELS, route.format(address=one["address"])) for one in holders[:30]]
    assert any(one["labels"] for one in found)
    usage = strict.ask("/v0/x/usage", USAGE)
    assert usage["allowance"] == usage["spent"] + usage["reserved"] + usage["remaining"]
    strict.ask("/v0/x/rules", RULES)
