"""Convert parsed answers in older shapes to the current shape, before they become structs.

The removed map endpoint had ``decentralization_score`` and ``metadata.identified_supply`` instead of ``metrics``, and
``token_ref`` instead of ``token_key``. The ``token_ref`` of a native token had ``chain`` and ``id``.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from holderlake.contract.chains import address_of_token_id
from holderlake.contract.models import GroupedTransfer, Map, Token, current_map_shape


def current(plain: Any, model: type[BaseModel], chain: str | None) -> Any:
    """Return the parsed JSON of an object in the current shape; unchanged if it has that shape already.

    ``model`` is the model of the object. ``chain`` is the chain of a native token whose key has none.
    """
    if not isinstance(plain, dict):
        return plain
    if model is Map:
        return _map(plain)
    if model is Token:
        return plain | {"token_key": _key(plain.get("token_key"), None)}
    if model is GroupedTransfer and isinstance(plain.get("data"), dict):
        data = plain["data"]
        name = "token_ref" if data.get("token_key") is None else "token_key"
        return plain | {"data": data | {"token_key": _key(data.get(name), chain)}}
    return plain


def is_older_map(raw: bytes) -> bool:
    """Return whether an answer's bytes are a map of the older shape, which never had all figures of today's maps."""
    return b'"decentralization_score"' in raw and b'"metrics"' not in raw


def _map(plain: dict[str, Any]) -> dict[str, Any]:
    metadata = plain.get("metadata")
    if "metrics" in plain or not isinstance(metadata, dict):
        return plain
    if not {"decentralization_score", "relationships", "clusters", "nodes"} & plain.keys():
        return plain
    if not isinstance(metadata.get("identified_supply"), dict):
        plain = plain | {"metadata": {name: item for name, item in metadata.items() if name != "identified_supply"}}
    return current_map_shape(plain)


def _key(key: Any, chain: str | None) -> Any:
    if not isinstance(key, dict) or key.get("address") is not None or not isinstance(key.get("id"), str):
        return key
    return {"chain": key.get("chain", chain), "address": address_of_token_id(key["id"])}
