"""The rules by which maps are computed: thresholds with their defaults and bounds.

The section ``[engine.thresholds]`` of the settings, the answer of ``GET /v0/x/rules`` and the engine follow from this
declaration.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from holderlake.core.contract.models import Address, Model


class Rules(BaseModel, frozen=True):
    """The rules by which addresses are classified. Two maps can be compared if their rules and options are equal."""

    supernode_degree: int = Field(default=10_000, ge=1, description="Distinct counterparties that make a supernode")
    hypernode_transfers: int = Field(default=200_000, ge=0, description="A hypernode has more transfers than this")
    magic_links: int = Field(default=2, ge=1, description="Minimum shown holders that a magic node is linked to")
    magic_limit: int = Field(default=40, ge=0, description="Maximum magic nodes of a map")
    time_window: int = Field(default=300, ge=1, description="Seconds of a time node's window")
    time_links: int = Field(default=2, ge=1, description="Minimum shown holders that share a time node")
    time_wallets: int = Field(
        default=20, ge=1, description="Maximum counterparties of the exchange in the window of a time node"
    )
    time_limit: int = Field(default=40, ge=0, description="Maximum time nodes of a map")
    fresh_wallet_seconds: int = Field(default=10 * 86_400, ge=0, description="Age under which a wallet is fresh")
    time_allowed: Annotated[frozenset[Address], PlainSerializer(sorted, return_type=list[str])] = Field(
        default=frozenset(), description="Contracts that can be time nodes, in addition to exchanges"
    )
    labels: Literal["latest", "as_of"] = Field(
        default="as_of",
        description="Labels with a period count at instants of their period (as_of), or at all instants (latest)",
    )


class MapRules(Rules, Model):
    """The rules by which maps are computed. Two maps can be compared if their rules and options are equal."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    score_version: int = Field(ge=1, description="Version of the service score: its formula and its groups.")
