"""Fetch the rules of a provider: the thresholds by which it classifies addresses on its maps."""

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
"""Seconds to wait for the rules at most."""
_CHARACTERS: Final = 100_000
"""Most characters of rules that are kept, because each row of ``maps`` has a copy."""


def rules_text(rules: Mapping[str, Any]) -> str:
    """Return rules as JSON with sorted keys and without spaces, so that equal rules give the same text."""
    return json.dumps(rules, sort_keys=True, separators=(",", ":"))


async def fetch_rules(client: ProviderClient) -> str | None:
    """Return the provider's rules as JSON, or None if it publishes none that can be read.

    A provider whose answers do not name its rules gets no request, because the path is not in the contract.
    """
    if not client.publishes_rules:
        return None
    try:
        answer = await asyncio.wait_for(client.exchange(RulesRequest()), _SECONDS)
        rules = MapRules.model_validate_json(answer.raw)  # another provider may answer anything here
    except (ProviderError, TimeoutError, ValueError, RecursionError):
        return None
    text = rules_text(rules.model_dump())
    return text if len(text) <= _CHARACTERS else None
