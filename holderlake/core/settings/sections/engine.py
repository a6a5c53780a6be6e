"""The sections ``[engine]``, ``[cluster]`` and ``[sources]``: the user's own store, Spark, and nodes of chains."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import NoDecode

from holderlake.core.contract.models import ChainId
from holderlake.core.contract.rules import Rules
from holderlake.core.settings.fields import Addresses, MemoryLimit, PathSetting, Section, TypedTokens, secret_matching


class Thresholds(Section, Rules):
    """Rules of the engine's classification. Each command that opens the store reports rules that changed."""


class EngineSettings(Section):
    """The engine behind `holderlake import` and `serve`."""

    store: PathSetting | None = Field(
        default=None, description="Folder of the engine's store; by default `engine` in home"
    )
    memory_limit: MemoryLimit = Field(
        default="2GB", description="Memory that an import aims at; more data is spilled to the store's folder"
    )
    indexed: TypedTokens = Field(
        default={}, description="Tokens by chain, or `native`, whose transfers connect holders on every map"
    )
    thresholds: Thresholds = Thresholds()

    @property
    def index_keys(self) -> tuple[tuple[str, str], ...]:
        """The indexed tokens as pairs of chain and address."""
        return tuple((chain, token) for chain, tokens in sorted(self.indexed.items()) for token in tokens)


def _location(text: str) -> str:
    if not text.startswith("/") and "://" not in text:
        raise ValueError(
            f"invalid location {text!r}: every machine must reach it; use an absolute path or an address like s3a://…"
        )
    return text.rstrip("/")


class ClusterSettings(Section):
    """A cluster of machines, for histories that are too large for one machine. Without `master` the same tasks run in
    this process."""

    master: str | None = Field(
        default=None,
        pattern=r"^(spark|k8s|sc)://\S+$|^yarn$|^local(\[\S+\])?$",
        description="Address of Spark's master, such as spark://host:7077, or of Spark Connect, such as sc://host:15002",
    )
    folder: Annotated[str, AfterValidator(_location)] | None = Field(
        default=None,
        description="Folder for results of tasks, on storage that all machines share; by default `cluster` in home",
    )
    instants: int = Field(
        default=32, ge=1, description="Instants computed together; their partitions are written when all are computed"
    )
    options: dict[str, str] = Field(default={}, description="Spark's own settings, by their names")


def _list(value: Any) -> Any:
    """Return the list in a setting's text: a JSON array, or words separated by white space.

    A value that is no text is returned unchanged.
    """
    if not isinstance(value, str):
        return value
    return json.loads(value) if value.lstrip().startswith("[") else value.split()


NodeUrl = Annotated[
    SecretStr,
    AfterValidator(
        secret_matching(r"https?://\S+", "the address of a node is expected, such as http://127.0.0.1:8545")
    ),
]


class NodeSettings(Section):
    """Nodes of a chain that transfers are read from. Their addresses may contain keys: `endpoints` comes from the
    environment only, `endpoints_file` names a file with one address a line."""

    endpoints: Annotated[list[NodeUrl], BeforeValidator(_list), NoDecode] = Field(
        default=[], description="Addresses of nodes, the preferred one first; environment only"
    )
    endpoints_file: PathSetting | None = Field(
        default=None, description="A file that contains the addresses, one a line"
    )
    tokens: Addresses = Field(default=[], description="Tokens to read (or `native`); by default those of the watchlist")
    all_tokens: bool = Field(default=False, description="Read every token of the chain")
    traces: bool = Field(
        default=True, description="For `native`, read transfers inside contract calls too, if the node supports traces"
    )
    follow: bool = Field(
        default=False, description="Keep a run of Dagster that stores each new block at once, reorganisations included"
    )
    first_block: int = Field(default=0, ge=0, description="First block to read")
    confirmations: int = Field(default=12, ge=0, description="Blocks that must follow a block before it is read")
    blocks: int = Field(default=2_000, ge=1, description="Blocks of the first request; later requests adapt")
    batch: int = Field(default=50, ge=1, description="Most calls in one request")
    concurrency: int = Field(default=4, ge=1, description="Most requests at the same time")
    timeout_seconds: float = Field(default=30.0, gt=0, description="Longest wait for one answer")
    attempts: int = Field(default=4, ge=1, description="Attempts at each endpoint, the first one included")
    commit_rows: int = Field(
        default=200_000, ge=1, description="Rows stored in one commit; a killed import loses at most these"
    )

    @model_validator(mode="after")
    def _one_place(self) -> NodeSettings:
        if self.endpoints and self.endpoints_file is not None:
            raise ValueError("endpoints and endpoints_file are both set: remove one of them")
        return self

    @property
    def is_named(self) -> bool:
        """Return whether the settings name a node to read from."""
        return bool(self.endpoints) or self.endpoints_file is not None


class SourceSettings(Section):
    """Sources of the engine's transfers other than files."""

    rpc: dict[ChainId, NodeSettings] = Field(default={}, description="Nodes by chain")
