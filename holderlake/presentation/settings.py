"""The section ``[explorer]``: the page that ``explore`` shows."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from holderlake.core.contract.models import ChainId
from holderlake.core.setting_types import Section, distinct


def _link(text: str) -> str:
    if not re.fullmatch(r"https://[^\s{}]+\{value\}[^\s{}]*", text):
        raise ValueError(f"{text!r} is no address with a place for the value: https://scan.example/address/{{value}}")
    return text


Links = Annotated[dict[ChainId, Annotated[str, AfterValidator(_link)]], Field()]
"""Addresses of pages by chain, each with ``{value}`` in the place of an address or hash."""


def _origin(text: str) -> str:
    if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?", text):
        raise ValueError(f"{text!r} is no origin: write scheme and host only, such as https://wiki.example.com")
    return text.lower()


Origins = Annotated[list[Annotated[str, AfterValidator(_origin)]], AfterValidator(distinct)]


class ExplorerSettings(Section):
    """The page that ``explore`` shows. It makes no request to other hosts; its links are for a person to follow."""

    TABLE: ClassVar = "explorer"

    address_links: Links = Field(
        default={}, description="Another block explorer's page about an address, by chain: https://…/address/{value}"
    )
    transaction_links: Links = Field(
        default={}, description="Another block explorer's page about a transaction, by chain: https://…/tx/{value}"
    )

    embed_in: Origins = Field(
        default=[], description="Sites that may show the page in a frame, such as https://wiki.example.com"
    )

    @property
    def links(self) -> dict[str, Links]:
        """The links by kind: ``address`` and ``transaction``."""
        return {"address": self.address_links, "transaction": self.transaction_links}
