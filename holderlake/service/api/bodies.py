"""A request's JSON body, read strictly: what two readers could understand in two ways is refused."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request


class StrictRequest(Request):
    """A request whose JSON has no name twice, no ``NaN``, and no text that can't be written again.

    Raises ``json.JSONDecodeError``, which is answered like any other fault of the body.
    """

    async def json(self) -> Any:
        """The body as plain data."""
        body = await self.body()
        try:
            text = body.decode("utf-8")
            plain = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
            json.dumps(plain, ensure_ascii=False).encode("utf-8")  # lone surrogates are no text
        except json.JSONDecodeError:
            raise
        except (ValueError, RecursionError) as error:
            raise json.JSONDecodeError(str(error)[:200] or "The body is nested too deeply", "", 0) from error
        return plain


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("A name stands twice in one object")
    return found


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
