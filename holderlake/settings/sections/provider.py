"""The section ``[provider]``: the API that data is fetched from, and the limits of its client."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from holderlake.settings.fields import HttpAddress, Section


class ProviderSettings(Section):
    """The API that data is fetched from. Without `url` it is the embedded service, with the sample world or with your
    own store."""

    url: HttpAddress | None = Field(default=None, description="Base address of the API")
    local: Literal["sample", "store"] = Field(
        default="sample", description="Without `url`: `sample` for the built-in sample world, `store` for your imports"
    )
    direct: bool = Field(
        default=True, description="Without `url`: compute maps and holders in one pass of the engine, without requests"
    )
    timeout_seconds: float = Field(default=90.0, gt=0, description="Longest wait for one answer")
    attempts: int = Field(default=4, ge=1, description="Attempts for a failure that may pass, the first one included")
    concurrency: int = Field(
        default=256, ge=1, description="Most calls at the same time; the provider's latency may lower the number"
    )
    rate_per_minute: int = Field(default=10_000, ge=1, le=10_000, description="Most calls a minute from this host")
    rate_window_seconds: float = Field(
        default=60.0, gt=0, description="Rate window of the provider; a rate-limited call is repeated for two windows"
    )
    charged_repeats: int = Field(
        default=1, ge=0, description="Repeats of a call whose answer broke off and may have been charged"
    )
    answer_megabytes: float = Field(
        default=256.0, gt=0, description="Largest answer accepted, both compressed and decompressed"
    )

    @model_validator(mode="after")
    def _one_provider(self) -> ProviderSettings:
        if self.url is not None and self.local == "store":
            raise ValueError("url is set and local is 'store': remove one of them")
        return self
