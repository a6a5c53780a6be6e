"""The sections of the settings: each a plain model, every key with its default and what it is for.

Where values come from, and how faults are told, stands in ``settings``.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import NoDecode

from holderlake.contract.chains import chain_typed
from holderlake.contract.chains.addresses import parse_unplaced_address, typed_token
from holderlake.contract.models import Address, ChainId, HolderLimit, Scores, TokenKey
from holderlake.contract.prices import parse_credits
from holderlake.contract.sizes import memory_bytes
from holderlake.settings.cron import check_cron


def _credits(value: Any) -> Any:
    """Credits as people write them become hundredths, by way of their text: no float is calculated with."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise ValueError("an amount of credits is expected, such as 25 or '25.01'")
    return parse_credits(str(value))


def _distinct(addresses: list[str]) -> list[str]:
    return list(dict.fromkeys(addresses))


def _pair(addresses: list[str]) -> list[str]:
    if len(addresses) < 2:
        raise ValueError("at least two different addresses are expected")
    return addresses


def _offset(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    hours, _, minutes = value.partition(":")
    if not (hours.isdigit() and minutes.isdigit() and int(hours) < 24 and int(minutes) < 60):
        raise ValueError(f"{value!r} is no time of day; write hours and minutes, such as 06:00")
    return timedelta(hours=int(hours), minutes=int(minutes))


def _rising(offsets: list[timedelta]) -> list[timedelta]:
    return sorted(set(offsets))


def _network(text: str) -> str:
    return str(ipaddress.ip_network(text.strip()))


def _score_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", text) or text in Scores.model_fields:
        raise ValueError(f"invalid score name {text!r}: use letters, digits and '_', for example token_score")
    return text


def _postgresql(url: SecretStr) -> SecretStr:
    if not re.match(r"postgres(ql)?(\+psycopg)?://\S+$", url.get_secret_value()):
        raise ValueError("the URL of a PostgreSQL database is expected, such as postgresql://user:password@host/name")
    return url


def _node_url(url: SecretStr) -> SecretStr:
    if not re.match(r"https?://\S+$", url.get_secret_value()):
        raise ValueError("the address of a node is expected, such as http://127.0.0.1:8545")
    return url


def _words(value: Any) -> Any:
    """A list of a variable of the environment: in JSON, or as words."""
    if not isinstance(value, str):
        return value
    return json.loads(value) if value.lstrip().startswith("[") else value.split()


def _long(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value()) < 16:
        raise ValueError("a secret has 16 characters or more; 'openssl rand -hex 32' makes a good one")
    return secret


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d{1,6}) ?([smhdw])", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no length of time; write a number and s, m, h, d or w, such as 30s or 12h")
    return int(found[1]) * _UNITS[found[2]]


def _location(text: str) -> str:
    if not text.startswith("/") and "://" not in text:
        raise ValueError(
            f"{text!r} is no place that every machine finds; write a whole path or an address like s3a://…"
        )
    return text.rstrip("/")


def _memory_limit(text: str) -> str:
    memory_bytes(text)
    return text.strip().upper().replace(" ", "")


def lifetimes_in_seconds(table: Mapping[str, str]) -> tuple[tuple[int | None, int], ...]:
    """The table of lifetimes as (younger than, kept for) in seconds, by rising age; the last one has no age.

    Raises ``ValueError`` with a sentence where the table can't be understood.
    """
    if "older" not in table:
        raise ValueError("how long answers about all older tokens are kept is missing; add a line for 'older'")
    ages = sorted((_seconds(age), _seconds(kept)) for age, kept in table.items() if age != "older")
    return (*ages, (None, _seconds(table["older"])))


def _checked_lifetimes(table: dict[str, str]) -> dict[str, str]:
    lifetimes_in_seconds(table)
    return table


def _typed_tokens(tokens: dict[str, list[str]]) -> dict[str, list[str]]:
    for chain in tokens:
        chain_typed(chain)
    return {chain: _distinct([typed_token(chain, token) for token in some]) for chain, some in tokens.items()}


def _unplaced(addresses: list[str]) -> list[str]:
    return _distinct([parse_unplaced_address(address) for address in addresses])


_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
Credits = Annotated[int, BeforeValidator(_credits)]
"""Hundredths of a credit, from credits."""
Addresses = Annotated[list[Address], AfterValidator(_distinct)]
TypedTokens = Annotated[dict[ChainId, list[str]], AfterValidator(_typed_tokens)]
"""Tokens by chain, checked and spelt as the chain spells addresses."""
Offset = Annotated[timedelta, BeforeValidator(_offset)]
"""A time of day, as its distance from midnight."""
Folder = Annotated[Path, AfterValidator(Path.expanduser)]
MemoryLimit = Annotated[str, AfterValidator(_memory_limit)]
"""An amount of memory as people write it, such as 512MB or 2GB."""
Networks = Annotated[list[Annotated[str, AfterValidator(_network)]], AfterValidator(_distinct)]
ScoreNames = Annotated[list[Annotated[str, AfterValidator(_score_name)]], AfterValidator(_distinct)]
NodeUrl = Annotated[SecretStr, AfterValidator(_node_url)]
PublicUrl = Annotated[str, Field(pattern=r"^https?://[^\s?#]+$"), AfterValidator(lambda url: url.rstrip("/"))]


class Section(BaseModel):
    """Base of the sections: keys that are not known are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ProviderSettings(Section):
    """Whom to ask. Without a url that is the embedded service, over the sample world or your own store."""

    url: str | None = Field(default=None, pattern=r"^https?://\S+$", description="Base address of the API")
    local: Literal["sample", "store"] = Field(
        default="sample", description="Without a url: the built-in sample world, or the engine's store of your imports"
    )
    direct: bool = Field(
        default=True, description="Without a url: take maps and holders from the engine in one pass, without calls"
    )
    timeout_seconds: float = Field(default=90.0, gt=0, description="How long to wait for one answer")
    attempts: int = Field(default=4, ge=1, description="How often to try what is worth a retry, the first included")
    concurrency: int = Field(default=256, ge=1, description="Calls under way at a time at most; latency decides")
    rate_per_minute: int = Field(default=10_000, ge=1, le=10_000, description="Calls a minute of this host")
    rate_window_seconds: float = Field(
        default=60.0, gt=0, description="Rate window of the provider; a call that it limits is repeated for two of them"
    )
    charged_repeats: int = Field(
        default=1, ge=0, description="How often to repeat a call whose answer broke off, which may have been charged"
    )
    answer_megabytes: float = Field(
        default=256.0, gt=0, description="Size of one answer at most, on the wire and after decompression"
    )

    @model_validator(mode="after")
    def _one_provider(self) -> ProviderSettings:
        if self.url is not None and self.local == "store":
            raise ValueError("url is set and local is 'store'; which one is meant can't be known")
        return self


class AddressSet(Section):
    """A named set of addresses whose mutual transfers are followed. Without ``chain`` it belongs to every chain."""

    addresses: Annotated[Addresses, AfterValidator(_unplaced), AfterValidator(_pair)] = Field(
        description="At least two different addresses"
    )
    chain: ChainId | None = Field(default=None, description="Only in this chain's partitions")
    context: TokenKey | None = Field(default=None, description="A token whose transfers count, indexed or not")


class Budget(Section):
    """Ceilings in credits, which are never passed; none where none is set. Kept as hundredths."""

    per_run: Credits | None = Field(default=None, description="Credits that one run may spend")
    per_day: Credits | None = Field(default=None, description="Credits a day (UTC)")
    per_month: Credits | None = Field(default=None, description="Credits from renewal to renewal")
    renewal_day: int = Field(default=1, ge=1, le=28, description="Day of the month on which the allowance renews")


class Schedule(Section):
    """When partitions are fetched, and as of which times of a day."""

    cron: Annotated[str, AfterValidator(check_cron)] = Field(default="5 0 * * *", description="When to run, UTC")
    offsets: Annotated[list[Offset], AfterValidator(_rising)] = Field(
        default=[timedelta(0)], min_length=1, description="As-of times of each day, UTC, as HH:MM"
    )
    live_tolerance_seconds: int = Field(
        default=3_600, ge=0, description="A past instant this near is fetched live, without the history surcharge"
    )
    resume_parked: bool = Field(
        default=False, description="Go on by itself with backfills that ran out of credits, once there are some again"
    )


class MapSettings(Section):
    """What maps are asked for."""

    limit: HolderLimit = Field(default=80, description="Top holders of a map; 250 and 500 carry a surcharge")
    use_magic_nodes: bool = Field(default=True, description="Add nodes that tie shown holders together")
    use_time_nodes: bool = Field(
        default=True, description="Link wallets that used the same exchange in the same time window"
    )


class HolderSettings(Section):
    """What holder lists are asked for."""

    limit: HolderLimit = Field(default=80, description="Holders of a list; 250 and 500 carry a surcharge")
    with_metadata: bool = Field(default=False, description="With address details, at a surcharge")


class AddressSettings(Section):
    """Whose metadata is asked for: address sets, and the top holders of watched tokens. Needs a custom plan."""

    enabled: bool = Field(default=True, description="Ask for address metadata")
    top: int = Field(default=10, ge=0, description="Top holders of each watched token to ask about")


class Thresholds(Section):
    """The engine's rules of classification. A threshold that is not set, or no longer set, has the engine's default;
    each command that opens the store reports a threshold that changed."""

    supernode_degree: int | None = Field(default=None, ge=1, description="Counterparties that make a supernode")
    hypernode_transfers: int | None = Field(default=None, ge=0, description="A hypernode has more transfers than this")
    magic_links: int | None = Field(default=None, ge=1, description="Shown holders that a magic node is linked to")
    magic_limit: int | None = Field(default=None, ge=0, description="Magic nodes of a map at most")
    time_window: int | None = Field(default=None, ge=1, description="Seconds of a time node")
    time_links: int | None = Field(default=None, ge=1, description="Shown holders that share a time node")
    time_wallets: int | None = Field(
        default=None, ge=1, description="A window in which an exchange had more counterparties is no time node"
    )
    time_limit: int | None = Field(default=None, ge=0, description="Time nodes of a map at most")
    fresh_wallet_seconds: int | None = Field(default=None, ge=0, description="Age under which a wallet is fresh")
    time_allowed: Addresses | None = Field(default=None, description="Contracts that make time nodes like exchanges")

    def chosen(self) -> dict[str, Any]:
        """The thresholds that are set, by the engine's names."""
        return self.model_dump(exclude_none=True)


class EngineSettings(Section):
    """The engine behind ``import`` and ``serve``."""

    store: Folder | None = Field(default=None, description="Folder of the engine's store; home/engine by default")
    memory_limit: MemoryLimit = Field(
        default="2GB", description="Memory that an import aims at, whatever its size; it spills to the store's folder"
    )
    indexed: TypedTokens = Field(
        default={}, description="Tokens by chain, or native, whose transfers tie holders on every map"
    )
    thresholds: Thresholds = Thresholds()

    @property
    def index_keys(self) -> tuple[tuple[str, str], ...]:
        """The indexed tokens as pairs of chain and address."""
        return tuple((chain, token) for chain, tokens in sorted(self.indexed.items()) for token in tokens)


class BucketSettings(Section):
    """Object storage that the lake is pushed to and pulled from. Keys come from the environment, by the storage's own
    names (AWS_ACCESS_KEY_ID and the like)."""

    url: str | None = Field(
        default=None, pattern=r"^(s3|gs|az)://[^@\s?]+$", description="Bucket and folder, such as s3://bucket/lake"
    )
    endpoint: str | None = Field(
        default=None, pattern=r"^https?://[^@\s]+$", description="Address of an S3 server other than Amazon's"
    )
    region: str | None = Field(default=None, description="The bucket's region")


class ClusterSettings(Section):
    """A cluster of machines, for histories that one machine can't hold. Without ``master`` its statements run on DuckDB
    in this process."""

    master: str | None = Field(
        default=None, pattern=r"^(spark|k8s)://\S+$|^yarn$|^local(\[\S+\])?$", description="Spark's, spark://host:7077"
    )
    folder: Annotated[str, AfterValidator(_location)] | None = Field(
        default=None, description="Where derived tables go, reached by all machines: a folder or s3a://; home/cluster"
    )
    instants: int = Field(default=32, ge=1, description="Instants computed at a time; a killed fill loses no more")
    options: dict[str, str] = Field(default={}, description="Spark's own settings by their names")


class NodeSettings(Section):
    """How a chain's transfers are read from nodes. Addresses of endpoints may hold keys: ``endpoints`` comes from the
    environment only, ``endpoints_file`` names a file with one address a line."""

    endpoints: Annotated[list[NodeUrl], BeforeValidator(_words), NoDecode] = Field(
        default=[], description="Addresses of nodes, the preferred one first; environment only"
    )
    endpoints_file: Folder | None = Field(default=None, description="A file that holds the addresses, one a line")
    tokens: Addresses = Field(default=[], description="Tokens to read (or native); the watchlist's where none is named")
    all_tokens: bool = Field(default=False, description="Read every token of the chain")
    traces: bool = Field(default=True, description="Of native, what contracts move too, where the node tells it")
    first_block: int = Field(default=0, ge=0, description="Where reading begins")
    confirmations: int = Field(default=12, ge=0, description="Blocks that must follow one before it is read")
    blocks: int = Field(default=2_000, ge=1, description="Blocks asked for at a time at first; it adapts")
    batch: int = Field(default=50, ge=1, description="Calls in one request at most")
    concurrency: int = Field(default=4, ge=1, description="Requests under way at a time")
    timeout_seconds: float = Field(default=30.0, gt=0, description="How long to wait for one answer")
    attempts: int = Field(default=4, ge=1, description="How often to try each endpoint, the first time included")
    commit_rows: int = Field(default=200_000, ge=1, description="Rows stored at a time; a killed import loses no more")

    @model_validator(mode="after")
    def _one_place(self) -> NodeSettings:
        if self.endpoints and self.endpoints_file is not None:
            raise ValueError("endpoints and endpoints_file are both set; which one is meant can't be known")
        return self

    @property
    def is_named(self) -> bool:
        """Whether there is a node to read from."""
        return bool(self.endpoints) or self.endpoints_file is not None


class SourceSettings(Section):
    """Where the engine's transfers come from besides files."""

    rpc: dict[ChainId, NodeSettings] = Field(default={}, description="Nodes by chain")


class ServiceSettings(Section):
    """The service that ``serve`` runs. ``database`` and ``secret`` come from the environment only."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on")
    port: int = Field(default=8014, ge=1, le=65_535, description="Port to listen on")
    public_url: PublicUrl | None = Field(default=None, description="Where callers reach it, if not at host and port")
    processes: int = Field(default=1, ge=1, le=1_024, description="Processes that answer, all at the same port")
    workers: int = Field(default=16, ge=1, le=1_024, description="Answers computed at a time in each process")
    log: Literal["json", "text", "off"] | None = Field(
        default=None, description="A line a request as json or text, or off; text on a terminal, else json by default"
    )
    database: Annotated[SecretStr, AfterValidator(_postgresql)] | None = Field(
        default=None, description="URL of a PostgreSQL database for keys and charges, else a file; environment only"
    )
    secret: Annotated[SecretStr, AfterValidator(_long)] | None = Field(
        default=None, description="The service's secret, of 16 characters or more; environment only"
    )
    calls_per_minute: int = Field(default=10_000, ge=1, description="Calls a minute from one address")
    shared_limits: bool = Field(
        default=False, description="Count calls for all hosts on one database; always so for several processes"
    )
    trusted_proxies: Networks = Field(default=[], description="Networks whose X-Forwarded headers are believed")
    metrics_from: Networks = Field(default=["127.0.0.0/8", "::1/128"], description="Networks that may read /metrics")
    connections_per_address: int = Field(
        default=1_000, ge=1, description="Connections that one address may have open in each process"
    )
    header_limit: int = Field(default=32 << 10, ge=1 << 10, description="Bytes of a request's headers at most")
    body_limit: int = Field(default=1 << 20, ge=1 << 10, description="Bytes of a request's body at most")
    header_seconds: float = Field(default=10.0, gt=0, description="How long a request's headers may take to arrive")
    body_seconds: float = Field(default=30.0, gt=0, description="How long a request's body may take to arrive")
    answer_seconds: float = Field(default=60.0, gt=0, description="How long a caller waits for an answer at most")
    shutdown_seconds: int = Field(default=30, ge=0, description="How long requests under way may take at the end")
    cache_megabytes: int = Field(default=256, ge=0, description="Memory for answers kept, of each process")
    lifetimes: Annotated[dict[str, str], AfterValidator(_checked_lifetimes)] = Field(
        default={"1h": "30s", "1d": "5m", "30d": "1h", "older": "6h"},
        description="How long an answer about the present is kept, by the age that its token has at most",
    )
    score_names: ScoreNames = Field(
        default=[], max_length=8, description="Further names of the score in answers, for clients that expect them"
    )

    @model_validator(mode="after")
    def _keyed(self) -> ServiceSettings:
        if self.database is not None and self.secret is None:
            raise ValueError("a database needs the service's secret too; set HOLDERLAKE_SERVICE__SECRET")
        return self
