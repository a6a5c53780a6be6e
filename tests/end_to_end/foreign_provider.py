"""A provider of the same API, generated from a description of its own: random documents inside its bounds and beyond.

The description is written from the contract's words, not from this project's models. Documents differ as those of other
implementations do: optional fields are absent or null, keys are in any order, numbers are spelled in several ways, and
fields exist that no one knows. Every document follows from a seed and its request.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from tests.helpers.misbehaving import Received, Step, answer, error, scripted

Schema = Mapping[str, Any]
Beyond = tuple[str, Callable[[Any, random.Random], Any], str | None]
"""What is beyond the bounds, the change that makes it so, and the place that must be named: None where all rows land,
an empty one where the document must be rejected."""

# ------------------------------------------------------------------------------------------------- the description


def _object(optional: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {"properties": properties, "required": [name for name in properties if name not in optional]}


def _or_null(schema: Schema) -> Schema:
    return {**schema, "nullable": True}


def _list(items: Schema, most: int) -> Schema:
    return {"items": items, "most": most}


def _number(least: int, most: int, places: int) -> Schema:
    return {"number": (least, most, places)}


_COUNT: Final = _number(0, 10**6, 0)
_SHARE: Final = _number(0, 1, 12)
_AMOUNT: Final = _number(0, 10**12, 18)
_SECONDS: Final = _number(0, 1_900_000_000, 0)
_FLAG: Final[Schema] = {"values": (True, False)}
_ADDRESS: Final[Schema] = {"address": True}
_TEXT: Final[Schema] = {"values": ("", "Exchange 7", "Ünïcode ✓", 'quoted "text"', "back\\slash", "a/b", "tab\there")}
_DATE: Final[Schema] = {"values": ("2024-05-06T07:08:09Z", "2021-01-01T00:00:00.123456+02:00", "2019-12-31T23:59:59")}
_CHAIN: Final[Schema] = {"values": ("eth", "base", "solana", "a-new_chain.2")}

_KEY: Final = _object(chain=_CHAIN, address=_ADDRESS)
_DETAILS: Final = _object(
    ("label", "entity_id", "first_activity_date", "is_paid_label"),
    degree=_COUNT,
    inward_relations=_COUNT,
    outward_relations=_COUNT,
    is_supernode=_FLAG,
    is_contract=_FLAG,
    is_cex=_FLAG,
    is_dex=_FLAG,
    label=_or_null(_TEXT),
    entity_id=_or_null(_TEXT),
    first_activity_date=_or_null(_DATE),
    is_paid_label=_FLAG,
)
_HELD: Final = _object(amount=_AMOUNT, rank=_number(1, 500, 0), share=_SHARE)
_TRANSFER: Final = _object(
    ("rel_type",),
    from_address=_ADDRESS,
    to_address=_ADDRESS,
    rel_type={"values": ("GROUPED_TRANSFER",)},
    data=_object(
        total_value=_AMOUNT,
        total_transfers=_number(1, 10**6, 0),
        first_date=_SECONDS,
        last_date=_SECONDS,
        token_key=_KEY,
    ),
)
HOLDERS: Final = _list(
    _object(("address_details",), address=_ADDRESS, holder_data=_HELD, address_details=_or_null(_DETAILS)), 12
)
MAP: Final = _object(
    ("nodes", "relationships", "clusters"),
    metadata=_object(dt_update={"values": ("2026-11-20T00:00:00.123456",)}, ts_update=_SECONDS),
    metrics=_object(
        supply_stats=_object(
            cexs=_SHARE, dexs=_SHARE, contracts=_SHARE, fresh_wallets=_SHARE, top_10_adjusted=_SHARE, bundles=_SHARE
        ),
        scores=_object(
            service_score=_or_null(_number(0, 100, 2)),
            gini_index=_SHARE,
            herfindahl_hirschman_index=_SHARE,
            nakamoto_coefficient=_number(1, 80, 0),
        ),
    ),
    nodes=_or_null(
        _object(
            ("magic_nodes", "time_nodes"),
            top_holders=_list(
                _object(address=_ADDRESS, address_details=_DETAILS, holder_data=_HELD, is_shown_on_map=_FLAG), 8
            ),
            magic_nodes=_or_null(_list(_object(address=_ADDRESS, address_details=_DETAILS, is_shown_on_map=_FLAG), 3)),
            time_nodes=_or_null(_list(_object(address=_ADDRESS, relationships=_list(_TRANSFER, 4)), 2)),
        )
    ),
    relationships=_or_null(_list(_TRANSFER, 10)),
    clusters=_or_null(
        _list(
            _object(
                share=_SHARE,
                amount=_AMOUNT,
                holder_count=_COUNT,
                holders=_list(_ADDRESS, 5),
                magic_node_count=_COUNT,
                magic_nodes=_list(_ADDRESS, 2),
            ),
            3,
        )
    ),
)
TOKEN: Final = _object(
    ("stats",),
    token_key=_KEY,
    metadata=_object(("img_url",), name=_TEXT, symbol=_TEXT, is_indexed=_FLAG, img_url=_or_null(_TEXT)),
    stats=_or_null(
        _object(("min_date", "max_date"), transfers_count=_COUNT, min_date=_or_null(_DATE), max_date=_or_null(_DATE))
    ),
)
CHAIN: Final = _object(
    ("dexscreener_id", "coingecko_id"),
    id=_CHAIN,
    name=_TEXT,
    dexscreener_id=_or_null(_TEXT),
    coingecko_id=_or_null(_TEXT),
)
METADATA: Final = _object(address=_ADDRESS, address_details=_DETAILS)
SUBGRAPH: Final = _list(_TRANSFER, 12)

# ------------------------------------------------------------------------------------------------ inside its bounds


def document(schema: Schema, chance: random.Random) -> Any:
    """Return a random value of a schema; numbers are decimals."""
    if schema.get("nullable") and chance.random() < 0.2:
        return None
    if "values" in schema:
        return chance.choice(schema["values"])
    if "number" in schema:
        least, most, places = schema["number"]
        return Decimal(chance.randint(least * 10**places, most * 10**places)).scaleb(-places)
    if "address" in schema:
        return f"0x{chance.getrandbits(160):040x}"
    if "items" in schema:
        return [document(schema["items"], chance) for _ in range(chance.randint(1, schema["most"]))]
    found = {
        name: document(one, chance)
        for name, one in schema["properties"].items()
        if name in schema["required"] or chance.random() < 0.7
    }
    if chance.random() < 0.1:
        found["added_later"] = chance.choice([None, {"deep": [1, {"er": "x"}]}, "text", Decimal("1e-30")])
    names = [*found]
    chance.shuffle(names)
    return {name: found[name] for name in names}


def spelled(plain: Any, chance: random.Random) -> str:
    """Return JSON of plain data, with numbers and white space as other writers write them."""
    if isinstance(plain, Decimal):
        return _spelled_number(plain, chance)
    gap = chance.choice(["", " ", "\n\t"])
    if isinstance(plain, dict):
        items = (f"{json.dumps(name)}:{gap}{spelled(value, chance)}" for name, value in plain.items())
        return "{" + f",{gap}".join(items) + "}"
    if isinstance(plain, list):
        return f"[{f',{gap}'.join(spelled(one, chance) for one in plain)}]"
    return json.dumps(plain, ensure_ascii=chance.random() < 0.5)


def _spelled_number(number: Decimal, chance: random.Random) -> str:
    plain = format(number, "f")
    if chance.random() < 0.97:
        return plain
    zeros = plain + ("0" if "." in plain else ".0")
    return chance.choice([zeros, f"{number:e}", f"{number.scaleb(2):f}e-2", f"{number.scaleb(-3):f}E+3"])


# --------------------------------------------------------------------------------------------------- beyond them


def _set(*path: Any, to: Any) -> Callable[[Any, random.Random], Any]:
    def change(plain: Any, chance: random.Random) -> Any:
        parent = plain
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = to
        return plain

    return change


def _repeat(*path: Any) -> Callable[[Any, random.Random], Any]:
    def change(plain: Any, chance: random.Random) -> Any:
        listed = plain
        for step in path:
            listed = listed[step]
        listed.append(copy.deepcopy(listed[0]))
        return plain

    return change


def _insert(item: Any, *path: Any) -> Callable[[Any, random.Random], Any]:
    def change(plain: Any, chance: random.Random) -> Any:
        listed = plain
        for step in path:
            listed = listed[step]
        listed.insert(0, item)
        return plain

    return change


def _raw(text: bytes) -> Callable[[Any, random.Random], Any]:
    return lambda plain, chance: text


def _cut(plain: Any, chance: random.Random) -> bytes:
    text = spelled(plain, chance).encode()
    return text[: len(text) // 2]


BEYOND_HOLDERS: Final[tuple[Beyond, ...]] = (
    ("a share above 1", _set(0, "holder_data", "share", to=Decimal("1.0000000000000002")), None),
    ("a share below 0", _set(0, "holder_data", "share", to=Decimal("-1e-19")), None),
    ("rank 0", _set(0, "holder_data", "rank", to=Decimal(0)), None),
    ("a holder twice", _repeat(), None),
    ("a rank as text", _set(0, "holder_data", "rank", to="7"), None),
    ("no details, no holding", _insert({"address": "0x" + "f" * 40}), "$[*].holder_data"),
    ("a degree of 1e30", _set(0, "address_details", to={"degree": Decimal("1e30")}), "$[0].address_details.degree"),
    ("an amount in words", _set(0, "holder_data", "amount", to="much"), "$[0].holder_data.amount"),
    ("a share of 1e400", _set(0, "holder_data", "share", to=Decimal("1e400")), "$[0].holder_data.share"),
    ("a holding that is a list", _set(0, "holder_data", to=[]), "$[0].holder_data"),
    ("a holder that is null", _insert(None), "$[0]"),
    ("an address that is a number", _insert({"address": Decimal(5)}), "$[0].address"),
    ("half a surrogate pair", _set(0, "address_details", to={"label": "\ud800"}), "$[0].address_details.label"),
    ("a page", _raw(b"<html><body>Welcome</body></html>"), ""),
    ("an answer cut short", _cut, ""),
    ("an object for a list", _raw(b'{"holders": []}'), ""),
)
BEYOND_MAP: Final[tuple[Beyond, ...]] = (
    ("a second score", _set("metrics", "scores", "other_score", to=Decimal(7)), None),
    ("a relationship twice", _repeat("relationships"), None),
    ("a member twice", _repeat("clusters", 0, "holders"), None),
    ("an unknown relationship", _set("relationships", 0, "rel_type", to="LOAN"), None),
    ("no figures", _set("metrics", "supply_stats", to={}), "$.metrics.supply_stats"),
    ("an unknown chain", _set("relationships", 0, "data", "token_key", "chain", to="a/b c"), None),
    (
        "a date beyond",
        _set("relationships", 0, "data", "first_date", to=Decimal(10**17)),
        "$.relationships[0].data.first_date",
    ),
    ("a token in words", _set("relationships", 0, "data", "token_key", to="ETH"), "$.relationships[0].data.token_key"),
    ("a transfer to no one", _set("relationships", 0, "to_address", to=None), "$.relationships[0].to_address"),
    ("a member that is null", _insert(None, "clusters", 0, "holders"), "$.clusters[0].holders[0]"),
    ("a score in words", _set("metrics", "scores", "service_score", to="high"), "$.metrics.scores.service_score"),
    ("nodes that are text", _set("nodes", to="none"), "$.nodes"),
    ("a node without an address", _insert({}, "nodes", "top_holders"), "$.nodes.top_holders[0].address"),
    ("an error as an answer", _raw(b'{"detail": "no holders"}'), ""),
    ("bytes", _raw(b"\x80\xff\x00{"), ""),
    ("nothing", _raw(b""), ""),
)

# ------------------------------------------------------------------------------------------------------- the server


@dataclass(frozen=True)
class Question:
    """What was requested: an endpoint, and the chain, token and second of it, or the body."""

    endpoint: str
    subject: str
    chain: str = ""
    timestamp: int | None = None


@dataclass
class ForeignProvider:
    """Answers each question with a document inside the bounds, or with the change that was chosen for it."""

    seed: int = 20261122
    beyond: dict[Question, Beyond] = field(default_factory=dict)
    choose: Callable[[Question], Beyond | None] = lambda question: None
    sent: dict[Question, Any] = field(default_factory=dict)
    """The plain data of each document, by its question."""
    raw: dict[Question, bytes] = field(default_factory=dict)
    address: str = ""
    unknown: list[str] = field(default_factory=list)
    """The paths of requests that this provider does not know."""

    @contextmanager
    def serving(self) -> Iterator[ForeignProvider]:
        """Serve on loopback until the block ends."""
        with scripted(choose=self._step) as server:
            self.address = server.address
            yield self

    def _step(self, request: Received) -> Step:
        raw = self.answer(request.target, request.body)
        if raw is None:
            self.unknown.append(request.target)
            return error(404, X_Credits_Cost="1.00")
        # without a charge an answer that cannot be read would be requested again
        is_wrapped = raw.startswith((b'{"detail"', b'{"holders"'))
        is_readable = raw.startswith((b"[", b"{")) and not is_wrapped and _is_json(raw)
        return answer(raw, headers={} if is_readable else {"X-Credits-Cost": "1.00"})

    def answer(self, target: str, body: bytes) -> bytes | None:
        """Return the bytes of the answer to a request; None where there is no such path."""
        split = urlsplit(target)
        parts = split.path.strip("/").split("/")
        stamp = parse_qs(split.query).get("timestamp")
        endpoint = {"map": "map", "holders": "holders"}.get(parts[2] if len(parts) == 5 else "")
        if endpoint:
            question = Question(endpoint, parts[4], parts[3], int(stamp[0]) if stamp else None)
        elif split.path in _PATHS:
            question = Question(_PATHS[split.path], body.decode())
        else:
            return None
        chance = random.Random(f"{self.seed} {question}")
        plain = _plain(question, chance)
        beyond = self.choose(question)
        if beyond is not None:
            self.beyond[question] = beyond
            plain = beyond[1](_full(question, chance), chance)
        raw = plain if isinstance(plain, bytes) else spelled(plain, chance).encode("utf-8", "surrogatepass")
        self.sent[question], self.raw[question] = plain, raw
        return raw


_PATHS: Final = {
    "/v0/chains": "chains",
    "/v0/tokens/metadata": "tokens",
    "/v0/addresses/metadata": "addresses",
    "/v0/relationships/subgraph": "subgraph",
}


def _plain(question: Question, chance: random.Random) -> Any:
    match question.endpoint:
        case "map":
            return document(MAP, chance)
        case "holders":
            return document(HOLDERS, chance)
        case "subgraph":
            return document(SUBGRAPH, chance)
        case "chains":
            names = ("eth", "base", "bsc", "another")
            return [document(CHAIN, chance) | {"id": name} for name in names]
        case "tokens":
            keys = json.loads(question.subject)
            return [document(TOKEN, chance) | {"token_key": key} for key in chance.sample(keys, len(keys))]
        case _:
            addresses = json.loads(question.subject)["addresses"]
            return [document(METADATA, chance) | {"address": address} for address in addresses]


def _full(question: Question, chance: random.Random) -> Any:
    """Return a document that has all its blocks, for a change to find."""
    while True:
        found = document(MAP if question.endpoint == "map" else HOLDERS, chance)
        blocks = (
            [found.get(name) for name in ("nodes", "relationships", "clusters")] if isinstance(found, dict) else [1]
        )
        if all(blocks):
            return found


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content.decode("utf-8", "replace"))
    except ValueError:
        return False
    return True
