"""Reads a request's JSON body strictly, so that no two parsers can understand it differently."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request


class StrictRequest(Request):
    """A request that refuses JSON with duplicate names, ``NaN``, ``Infinity`` or lone surrogates.

    Raises ``json.JSONDecodeError``, which becomes a 422.
    """

    async def json(self) -> Any:
        """Return the body as parsed JSON. Raises ``json.JSONDecodeError``."""
        body = await self.body()
        try:
            text = body.decode("utf-8")
            value = json.loads(text, object_pairs_hook=_unique_names, parse_constant=_refuse_constant)
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # fails on lone surrogates
        except json.JSONDecodeError:
            raise
        except (ValueError, RecursionError) as error:
            raise json.JSONDecodeError(str(error)[:200] or "The body is nested too deeply", "", 0) from error
        return value


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("An object has the same name twice")
    return fields


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
