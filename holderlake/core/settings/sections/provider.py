"""The section ``[provider]``, and the sections of its requests: maps, holders, addresses and address sets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from holderlake.core.contract.chains.addresses import parse_unplaced_address
from holderlake.core.contract.models import ChainId, HolderLimit, TokenKey
from holderlake.core.setting_types import Addresses, HttpAddress, Section, distinct


class ProviderSettings(Section):
    """The API that data is fetched from. Without `url` it is the embedded service, with the sample world or with your
    own store."""

    url: HttpAddress | None = Field(
        default=None, description="Base address of the API", examples=["https://api.example.com"]
    )
    local: Literal["sample", "store"] = Field(
        default="sample", description="Without `url`: `sample` for the built-in sample world, `store` for your imports"
    )
    direct: bool = Field(
        default=True, description="Without `url`: compute maps and holders in one pass of the engine, without requests"
    )
    timeout_seconds: float = Field(default=90.0, gt=0, description="Longest wait for one answer")
    attempts: int = Field(default=4, ge=1, description="Attempts for a failure that may pass, the first one included")
    concurrency: int = Field(
        default=256,
        ge=1,
        description="Maximum calls at the same time; the provider's latency may lower the number",
    )
    rate_per_minute: int = Field(default=10_000, ge=1, le=10_000, description="Maximum calls a minute from this host")
    rate_window_seconds: float = Field(
        default=60.0, gt=0, description="Rate window of the provider; a rate-limited call is repeated for two windows"
    )
    charged_repeats: int = Field(
        default=1, ge=0, description="Repeats of a call whose answer broke off and may have been charged"
    )
    answer_megabytes: float = Field(
        default=256.0, gt=0, description="Largest answer accepted, both compressed and decompressed"
    )

    @property
    def is_own_store(self) -> bool:
        """True if the user's own store answers, which costs nothing."""
        return self.url is None and self.local == "store"

    @model_validator(mode="after")
    def _one_provider(self) -> ProviderSettings:
        if self.url is not None and self.local == "store":
            raise ValueError("url is set and local is 'store': remove one of them")
        return self


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
