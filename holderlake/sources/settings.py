"""The section ``[sources]``: nodes of chains that transfers are read from."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import NoDecode

from holderlake.core.contract.models import ChainId
from holderlake.core.setting_types import Addresses, PathSetting, Section, read_secret, secret_matching


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
    batch: int = Field(default=50, ge=1, description="Maximum calls in one request")
    concurrency: int = Field(default=4, ge=1, description="Maximum requests at the same time")
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

    TABLE: ClassVar = "sources"

    rpc: dict[ChainId, NodeSettings] = Field(default={}, description="Nodes by chain")

    def node(self, chain: str) -> NodeSettings:
        """Return the settings of a chain's nodes."""
        return self.rpc.get(chain, NodeSettings())

    @property
    def node_chains(self) -> list[str]:
        """Return the ids of the chains that have nodes in the settings."""
        return sorted(chain for chain, nodes in self.rpc.items() if nodes.is_named)

    @property
    def followed_chains(self) -> list[str]:
        """Return the ids of the chains with nodes whose head Dagster follows."""
        return [chain for chain in self.node_chains if self.node(chain).follow]

    def node_endpoints(self, chain: str) -> list[SecretStr]:
        """Return the addresses of a chain's nodes. Raises ``SettingsError`` if their file contains no address."""
        nodes = self.node(chain)
        if nodes.endpoints_file is None:
            return nodes.endpoints
        return read_secret(
            nodes.endpoints_file,
            f"addresses of nodes of chain {chain}, one a line",
            lambda text: NodeSettings(endpoints=[SecretStr(line) for line in text.split() or [""]]).endpoints,
        )
