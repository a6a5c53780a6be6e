"""Every family, in the order in which a partition is filled."""

from __future__ import annotations

from typing import Final

from assets.addresses import ADDRESSES
from assets.chains import CHAINS
from assets.family import Family
from assets.holders import HOLDERS
from assets.maps import MAPS
from assets.subgraphs import SUBGRAPHS
from assets.tokens import TOKENS

FAMILIES: Final[tuple[Family, ...]] = (CHAINS, TOKENS, HOLDERS, MAPS, SUBGRAPHS, ADDRESSES)
"""Tokens give the names for plots, holders the addresses to ask about."""
