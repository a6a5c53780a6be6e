"""Rules by which a provider makes its maps, as far as it publishes them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from holderlake.contract.extra_models import MapRules
from holderlake.contract.extra_requests import RulesRequest
from holderlake.provider.client import ProviderClient
from holderlake.provider.errors import ProviderError

_SECONDS: Final = 10.0
"""The longest wait for rules, which most providers do not publish."""
_CHARACTERS: Final = 100_000
"""The longest rules that are kept; each map has a copy."""


def rules_text(rules: Mapping[str, Any]) -> str:
    """Return rules as JSON, the same text for equal rules."""
    return json.dumps(rules, sort_keys=True, separators=(",", ":"))


async def fetch_rules(client: ProviderClient) -> str | None:
    """Return the provider's rules as JSON, or None if it publishes none that can be read."""
    try:
        answer = await asyncio.wait_for(client.exchange(RulesRequest()), _SECONDS)
        rules = MapRules.model_validate_json(answer.raw)  # another provider may answer anything here
    except (ProviderError, TimeoutError, ValueError, RecursionError):
        return None
    text = rules_text(rules.model_dump())
    return text if len(text) <= _CHARACTERS else None
