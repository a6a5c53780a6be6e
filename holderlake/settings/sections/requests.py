"""The sections ``[maps]``, ``[holders]``, ``[addresses]`` and ``[address_sets]``: what requests ask for."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from holderlake.contract.chains.addresses import parse_unplaced_address
from holderlake.contract.models import ChainId, HolderLimit, TokenKey
from holderlake.settings.fields import Addresses, Section, distinct


def _two_or_more(addresses: list[str]) -> list[str]:
    addresses = distinct([parse_unplaced_address(address) for address in addresses])
    if len(addresses) < 2:
        raise ValueError("at least two different addresses are expected")
    return addresses


class AddressSet(Section):
    """A named set of addresses whose transfers with each other are fetched. Without `chain` it belongs to every
    chain."""

    addresses: Annotated[Addresses, AfterValidator(_two_or_more)] = Field(
        description="At least two different addresses"
    )
    chain: ChainId | None = Field(default=None, description="Only in this chain's partitions")
    context: TokenKey | None = Field(
        default=None, description="A token whose transfers count too, also where it is not indexed"
    )


class MapSettings(Section):
    """Options of the maps that are fetched."""

    limit: HolderLimit = Field(default=80, description="Top holders of a map; 250 and 500 carry a surcharge")
    use_magic_nodes: bool = Field(default=True, description="Add addresses that connect shown holders")
    use_time_nodes: bool = Field(
        default=True, description="Link wallets that used the same exchange in the same time window"
    )


class HolderSettings(Section):
    """Options of the holder lists that are fetched."""

    limit: HolderLimit = Field(default=80, description="Holders of a list; 250 and 500 carry a surcharge")
    with_metadata: bool = Field(
        default=False,
        description="Add address details, at a surcharge; default with provider.local 'store': true, at no cost",
    )


class AddressSettings(Section):
    """Address metadata, for the addresses of address sets and the top holders of watched tokens. The provider may
    offer it in a custom plan only."""

    enabled: bool = Field(default=True, description="Fetch address metadata")
    top: int = Field(default=10, ge=0, description="Top holders of each watched token to fetch metadata of")
