"""The objects in answers of the API as pydantic models (docs/contract.md, "Objects").

Each answer is declared here only: decoder, renderer, API description, tables and the page's types are made from it.
``contract.fields`` has the marks in the types: essential fields, columns with other names.

The models accept what the contract leaves open: unknown fields are kept, any text is a chain, any ``rel_type`` is
allowed. An older map (``decentralization_score``, ``identified_supply``, ``token_ref``) becomes one of the current
shape. Amounts are exact ``Decimal`` numbers; ``contract.exact_json`` reads and writes them without passing through a
float.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    TypeAdapter,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from holderlake.core.contract.chains import (
    ADDRESSES_OF_64_DIGITS,
    BITCOINS,
    CHAIN_ID_PATTERN,
    address_of_token_id,
    normalise_address,
    one_spelling,
)
from holderlake.core.contract.fields import ESSENTIAL, Column, Kind
from holderlake.core.contract.figures import FIGURES
from holderlake.core.contract.times import as_utc

GROUPED_TRANSFER = "GROUPED_TRANSFER"
_LONGEST_FRACTION = 400


def _integer(value: Any) -> Any:
    # A literal compares and does not convert: "250" of a query string would be none of 80, 250 and 500.
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value


def _plain_integer(value: Any) -> Any:
    # Text of a query or a path; pydantic would take "80.0", " 80" and "8_0" too.
    if isinstance(value, str) and re.fullmatch("-?[0-9]+", value) is None:
        raise PydanticCustomError("int_parsing", "Input should be a valid integer")
    return value


def unknown_fields(model: Any, answer: Any) -> set[str]:
    """Return the JSON paths of the fields of a decoded answer that its model does not have.

    ``model`` is the type of the answer, ``answer`` plain JSON, valid or not. Elements of a list have one path:
    ``$.nodes.top_holders[*].balance``.
    """
    schema = TypeAdapter(model).json_schema()

    def shapes(node: dict[str, Any]) -> list[dict[str, Any]]:
        if "$ref" in node:
            return shapes(schema["$defs"][node["$ref"].rpartition("/")[2]])
        choices = [choice for kind in ("anyOf", "oneOf", "allOf") for choice in node.get(kind, ())]
        return [shape for choice in choices for shape in shapes(choice)] or [node]

    def beyond(nodes: list[dict[str, Any]], value: Any, path: str) -> Iterator[str]:
        node_shapes = [shape for node in nodes for shape in shapes(node)]
        if isinstance(value, list):
            items = [shape["items"] for shape in node_shapes if "items" in shape]
            yield from (field for item in value for field in beyond(items, item, f"{path}[*]"))
        elif isinstance(value, dict) and (
            objects := [shape["properties"] for shape in node_shapes if "properties" in shape]
        ):
            for name, inner in value.items():
                fields = [properties[name] for properties in objects if name in properties]
                yield from beyond(fields, inner, f"{path}.{name}") if fields else [f"{path}.{name}"]

    return set(beyond([schema], answer, "$"))


OneOfIntegers = BeforeValidator(_integer)
"""Validator for a ``Literal`` of integers: it converts text such as ``250`` in a query string to an integer."""
PlainInteger = BeforeValidator(_plain_integer)
"""Validator for an integer field. Text is accepted if it has only digits and a minus sign.

In ``Annotated``, list it after the bounds: pydantic runs such validators from right to left.
"""
HolderLimit = Annotated[Literal[80, 250, 500], OneOfIntegers]
ChainId = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=f"^{CHAIN_ID_PATTERN}$")]
ADDRESS_PATTERN = r"^[!-$&-.0-~]+$"
LONGEST_ADDRESS = 128
Address = Annotated[
    # Visible ASCII, because programs differ in what else is white space. No slash and no percent sign, because some
    # programs decode a path once more than others.
    str,
    StringConstraints(min_length=1, max_length=LONGEST_ADDRESS, pattern=ADDRESS_PATTERN),
    AfterValidator(normalise_address),
]
ADDRESS_RULE = (
    f"an address in a request has 1 to {LONGEST_ADDRESS} visible ASCII characters, without a slash or percent sign"
)


def is_address(text: str) -> bool:
    """Return whether a request can name this address."""
    return len(text) <= LONGEST_ADDRESS and re.fullmatch(ADDRESS_PATTERN, text) is not None


def _finite(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"expected a JSON number, not {str(value).lower()}")
    if isinstance(value, str):
        raise ValueError(f"expected a JSON number, not the text {value[:40]!r}; leave out the quotation marks")
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        raise ValueError(f"expected a finite number, not {value}")
    if isinstance(value, Decimal) and value.adjusted() < -_LONGEST_FRACTION:
        # its digits would fill the memory
        raise ValueError(f"{value:.3e} has too many decimals: at most {_LONGEST_FRACTION} are allowed")
    return value


def _utc(value: datetime | None) -> datetime | None:
    """Return a date-time in UTC without a zone; None stays None. A date-time without a zone is in UTC already."""
    return None if value is None else as_utc(value)


Amount = Annotated[Decimal, BeforeValidator(_finite), WithJsonSchema({"type": "number"})]
"""An exact amount in units of the token, adjusted for decimals."""
RawAmount = Annotated[str, StringConstraints(pattern=r"^-?[0-9]+$"), Kind("raw amount")]
"""A raw integer amount as text, because many clients read JSON numbers only up to 53 bits."""
UnixSeconds = Annotated[int, Kind("unix seconds")]
"""A time in seconds since 1970. Its column is an instant."""
NodeAddress = Annotated[str, Kind("address"), ESSENTIAL]
LinkEnd = Annotated[str, Kind("link end"), ESSENTIAL]
"""An address at an end of a relationship. The decoder reads each distinct one once, because most repeat."""
Number = Annotated[float, BeforeValidator(_finite)]
Measured = Annotated[Number | None, WithJsonSchema({"type": "number"})]
"""A number of a map, for example a share. It is null only if the provider sent the older shape of maps."""
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(_finite)]
"""A part of the total supply, 0 to 1."""
Instant = Annotated[datetime, AfterValidator(_utc)]


class Model(BaseModel):
    """Base of all models in answers. Unknown fields are kept."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)


class TokenKey(Model):
    """A token: its chain, and its contract's address or ``native``."""

    chain: Annotated[ChainId, ESSENTIAL] = Field(description="The token's chain")
    address: Annotated[Address, Kind("address"), Column("token_address"), ESSENTIAL] = Field(
        description="The token's contract address, or native"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_older_shape(cls, value: Any) -> Any:
        key = current_token_key(value)
        if not isinstance(key, dict) or not all(isinstance(key.get(name), str) for name in ("chain", "address")):
            return key
        has_forms = key["chain"] in ADDRESSES_OF_64_DIGITS | BITCOINS
        return key | {"address": one_spelling(key["chain"], key["address"])} if has_forms else key


def current_token_key(key: Any, chain: str | None = None) -> Any:
    """Convert the plain key of a token from the older shape, which has an ``id``; any other value is unchanged.

    ``chain`` is the chain of a native token whose key has none.
    """
    if not isinstance(key, dict) or key.get("address") is not None or not isinstance(key.get("id"), str):
        return key
    return {"chain": chain} | key | {"address": address_of_token_id(key["id"])}


class AddressDetails(Model):
    """Details of an address: number of counterparties, kind of address, label and entity.

    ``degree`` counts distinct counterparties, ``inward_relations`` senders and ``outward_relations`` receivers.
    """

    degree: int = Field(ge=0, description="Distinct counterparties")
    inward_relations: int = Field(ge=0, description="Distinct addresses it received from")
    outward_relations: int = Field(ge=0, description="Distinct addresses it sent to")
    is_supernode: bool = Field(description="Has very many counterparties")
    is_contract: bool = Field(description="Is a contract")
    is_cex: bool = Field(description="Belongs to a centralised exchange")
    is_dex: bool = Field(description="Belongs to a decentralised exchange")
    label: str | None = Field(default=None, description="Name of the address, where one is known")
    entity_id: str | None = Field(default=None, description="Entity that the address belongs to, where one is known")
    first_activity_date: Instant | None = Field(default=None, description="First transfer of the address, UTC")
    is_paid_label: bool = Field(default=False, description="The label was submitted by the community")


class AddressMetadata(Model):
    """An address with its details."""

    address: NodeAddress = Field(description="The address")
    address_details: AddressDetails


class HolderData(Model):
    """Balance of a holder: amount, rank (1 is the largest), and share of the total supply."""

    amount: Amount = Field(description="Balance of the holder")
    rank: int = Field(ge=1, description="1 holds the most")
    share: Share = Field(description="Part of the total supply, 0 to 1")
    amount_raw: RawAmount | None = None


class Holder(Model):
    """A holder of a token. ``address_details`` is null unless requested."""

    address: NodeAddress = Field(description="The holder")
    holder_data: HolderData
    address_details: AddressDetails | None = None


class Node(Model):
    """A magic node: an address that connects shown holders."""

    address: NodeAddress = Field(description="The node's address")
    address_details: AddressDetails
    is_shown_on_map: bool = Field(description="False for exchanges, contracts and hypernodes")


class HolderNode(Node):
    """A top holder on a map."""

    holder_data: HolderData


class GroupedTransferData(Model):
    """All transfers of one token from one address to another: exact sum, number, first and last date (unix seconds)."""

    total_value: Amount = Field(description="Sum of the transfers")
    total_value_raw: RawAmount | None = None
    total_transfers: int = Field(ge=0, description="Number of transfers")
    first_date: UnixSeconds = Field(description="First of the transfers, UTC")
    last_date: UnixSeconds = Field(description="Last of the transfers, UTC")
    token_key: Annotated[TokenKey, Kind("link token"), ESSENTIAL] = Field(
        validation_alias=AliasChoices("token_key", "token_ref")
    )


class GroupedTransfer(Model):
    """A relationship between two addresses: all transfers of one token from the first to the second."""

    from_address: LinkEnd = Field(description="Sender")
    to_address: LinkEnd = Field(description="Receiver")
    rel_type: Literal["GROUPED_TRANSFER"] = Field(
        default="GROUPED_TRANSFER",
        description="Kind of relationship; GROUPED_TRANSFER unless the provider added others",
    )
    data: Annotated[GroupedTransferData, ESSENTIAL]


class UnknownRelationship(Model):
    """A relationship of a type that this version does not know. Its data is kept unchanged."""

    from_address: str
    to_address: str
    rel_type: str
    data: Any = None


def _relationship_tag(value: Any) -> str:
    rel_type = value.get("rel_type") if isinstance(value, dict) else getattr(value, "rel_type", None)
    return "grouped" if rel_type in (None, GROUPED_TRANSFER) else "unknown"


Relationship = Annotated[
    Annotated[GroupedTransfer, Tag("grouped")] | Annotated[UnknownRelationship, Tag("unknown")],
    Discriminator(_relationship_tag),
]


class TimeNode(Model):
    """An exchange or allow-listed contract in one time window, with the transfers of the wallets that used it then.

    A time node links these wallets in the map's clusters and score. Its transfers are listed only here, not in the
    map's ``relationships``.
    """

    address: NodeAddress = Field(description="The exchange or contract")
    relationships: list[Relationship]


class Nodes(Model):
    """The nodes of a map. Magic and time nodes are null unless requested."""

    top_holders: list[HolderNode]
    magic_nodes: list[Node] | None = None
    time_nodes: list[TimeNode] | None = None


class Cluster(Model):
    """Two or more shown holders that relationships connect, directly or through magic nodes or time nodes.

    ``magic_nodes`` lists the magic nodes between them.
    """

    share: Share = Field(description="Part of the total supply")
    amount: Amount = Field(description="Sum of its holders' balances")
    amount_raw: RawAmount | None = None
    holder_count: int = Field(ge=0, description="Number of holders")
    holders: list[str]
    magic_node_count: int = Field(default=0, ge=0, description="Number of magic nodes")
    magic_nodes: list[str] = Field(default_factory=list)


class SupplyStats(Model):
    """Shares of the total supply by kind of holder. docs/contract.md, "Objects", defines each of them."""

    cexs: Measured = Field(description=FIGURES["cexs"].explanation)
    dexs: Measured = Field(description=FIGURES["dexs"].explanation)
    contracts: Measured = Field(description="Share of supply held by contracts, those of exchanges and pools too")
    fresh_wallets: Measured = Field(description=FIGURES["fresh_wallets"].explanation)
    top_10_adjusted: Measured = Field(description=FIGURES["top_10_adjusted"].explanation)
    bundles: Measured = Field(description=FIGURES["bundles"].explanation)


def score_name(names: Mapping[str, Any]) -> str | None:
    """Return the name of the service score in a map's scores, or None if no name ends in ``_score``.

    ``names`` has the scores by name. ``service_score`` is preferred, then ``decentralization_score``, then the first
    name in alphabetical order.
    """
    score_names = sorted(name for name in names if name.endswith("_score"))
    preferred = [name for name in ("service_score", "decentralization_score") if name in score_names]
    return next(iter(preferred + score_names), None)


class Scores(Model):
    """Figures of concentration. The field ``service_score`` may have another name in the answer, see ``score_name``."""

    service_score: Number | None = Field(default=None, description=FIGURES["service_score"].explanation)
    gini_index: Measured = Field(description=FIGURES["gini_index"].explanation)
    herfindahl_hirschman_index: Measured = Field(description=FIGURES["herfindahl_hirschman_index"].explanation)
    nakamoto_coefficient: Annotated[int | None, WithJsonSchema({"type": "integer"})] = Field(
        description=FIGURES["nakamoto_coefficient"].explanation
    )

    @model_validator(mode="before")
    @classmethod
    def _any_score_key(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "service_score" in value:
            return value
        name = score_name(value)
        return {**value, "service_score": value[name]} if name else value


class Metrics(Model):
    """Supply statistics and scores of a map."""

    supply_stats: Annotated[SupplyStats, ESSENTIAL]
    scores: Annotated[Scores, Kind("scores"), ESSENTIAL]


class MapMetadata(Model):
    """Time at which the map was made: ``dt_update`` in ISO 8601 (UTC without zone), ``ts_update`` in unix seconds."""

    dt_update: str = Field(description="Time at which the provider made the map: ISO 8601, UTC, without zone")
    ts_update: Annotated[UnixSeconds, Column("")]


class Map(Model):
    """A token's map. ``nodes``, ``relationships`` and ``clusters`` are null unless requested."""

    metadata: Annotated[MapMetadata, ESSENTIAL]
    metrics: Annotated[Metrics, ESSENTIAL]
    nodes: Nodes | None = None
    relationships: list[Relationship] | None = None
    clusters: list[Cluster] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_older_shape(cls, value: Any) -> Any:
        older = isinstance(value, dict) and "metrics" not in value
        return current_map_shape(value) if older and isinstance(value.get("metadata"), dict) else value


def current_map_shape(older: dict[str, Any]) -> dict[str, Any]:
    """Convert an answer of the removed map endpoint into the current shape.

    ``contracts`` now counts all contracts, so it is the sum of the three older shares. Numbers that the older map lacks
    are null.
    """
    metadata = dict(older["metadata"])
    supply = metadata.pop("identified_supply", None) or {}
    cexs, dexs, other_contracts = (supply.get(f"share_in_{kind}") for kind in ("cexs", "dexs", "other_contracts"))
    shares = [share for share in (cexs, dexs, other_contracts) if isinstance(share, int | float | Decimal)]
    other_fields = {key: item for key, item in older.items() if key not in ("metadata", "decentralization_score")}
    return other_fields | {
        "metadata": metadata,
        "metrics": {
            "supply_stats": {
                "cexs": cexs,
                "dexs": dexs,
                "contracts": sum(shares) if shares else None,
                "fresh_wallets": None,
                "top_10_adjusted": None,
                "bundles": None,
            },
            "scores": {
                "service_score": older.get("decentralization_score"),
                "gini_index": None,
                "herfindahl_hirschman_index": None,
                "nakamoto_coefficient": None,
            },
        },
    }


class TokenMetadata(Model):
    """Name and symbol of a token, and whether its transfers count on other tokens' maps."""

    name: str = Field(description="Name")
    symbol: str = Field(description="Ticker")
    is_indexed: bool = Field(description="Its transfers count on other tokens' maps")
    img_url: str | None = Field(default=None, description="Address of its picture")


class TokenStats(Model):
    """Number of a token's transfers, and times of the first and the last."""

    transfers_count: int = Field(ge=0, description="Number of its transfers")
    min_date: Instant | None = Field(default=None, description="First transfer, UTC")
    max_date: Instant | None = Field(default=None, description="Last transfer, UTC")


class Token(Model):
    """A token. ``stats`` (``token_stats`` before 0.3.0) is null unless requested."""

    token_key: Annotated[TokenKey, ESSENTIAL]
    metadata: Annotated[TokenMetadata, ESSENTIAL]
    stats: TokenStats | None = Field(default=None, validation_alias=AliasChoices("stats", "token_stats"))


class Chain(Model):
    """A supported chain, with its ids at two price-data platforms."""

    id: Annotated[ChainId, Column("chain"), ESSENTIAL]
    name: str = Field(description="Name of the chain")
    dexscreener_id: str | None = Field(default=None, description="Id at DEX Screener")
    coingecko_id: str | None = Field(default=None, description="Id at CoinGecko")


class Screenshot(Model):
    """URL of a map's picture, and the time at which the picture was drawn."""

    image_url: str
    updated_at: Instant


class ValidationItem(Model):
    """One error of an invalid request: the location of the wrong value, a message, and the type of error."""

    loc: list[str | int]
    msg: str
    type: str


class ErrorBody(Model):
    """The body of an error with a status other than 422."""

    detail: str
    code: str
