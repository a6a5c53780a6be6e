"""Reads a request's JSON body strictly, so that no two parsers can understand it differently."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import partial
from typing import Any

from fastapi import Request


class StrictRequest(Request):
    """A request that refuses JSON with duplicate names, ``NaN``, ``Infinity`` or lone surrogates.

    It raises ``json.JSONDecodeError``, which becomes an answer with status 422.
    """

    async def json(self) -> Any:
        """Return the body as parsed JSON. Raises ``json.JSONDecodeError``."""
        body = await self.body()
        try:
            text = body.decode("utf-8")
            value = json.loads(text, object_pairs_hook=_unique_names, parse_constant=partial(_refuse_constant, text))
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # fails on lone surrogates
        except json.JSONDecodeError:
            raise
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
            raise json.JSONDecodeError(reason, "", 0) from error
        return value


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"an object has the name {twice!a} twice: send each name once")
    return fields


def _refuse_constant(text: str, name: str) -> Any:
    without_strings = re.sub(r'"(?:[^"\\]|\\.)*"', lambda string: " " * len(string[0]), text)
    raise ValueError(f"{name} at character {without_strings.index(name) + 1} is not JSON: give a number or null")
