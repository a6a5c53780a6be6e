"""Estimate the size of answers from archived answers of the same kind, or from assumed sizes.

A size is in bytes of uncompressed JSON for each unit of the request: a holder, a token, an address.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from holderlake.archive.archive import AnswerArchive
from holderlake.contract.requests import Request

_READ_AT_MOST: Final = 300
_ENOUGH_OF_A_KIND: Final = 30

ASSUMED: Final[Mapping[str, tuple[int, str]]] = MappingProxyType(
    {
        "chains": (3_000, "an answer"),
        "tokens/map": (1_000, "a holder of the limit"),
        "tokens/holders": (180, "a holder of the limit"),
        "tokens/holders, with metadata": (500, "a holder of the limit"),
        "tokens/metadata": (300, "a token"),
        "relationships/subgraph": (400, "an address"),
        "addresses/metadata": (320, "an address"),
    }
)
"""Bytes for each unit, and the unit, by kind of request, for kinds without archived answers. Measured on
answers over the sample world, rounded up; doubled for maps and subgraphs, because real tokens have more transfers
between their holders."""


@dataclass(frozen=True)
class Size:
    """Average size of answers of one kind: bytes of JSON for each ``unit``, a text such as "a token".

    ``answers`` is the number of archived answers that were measured; 0 for an assumed size.
    """

    by_unit: float
    unit: str
    answers: int


def measure(path: str, query: Mapping[str, Any], body: Any) -> tuple[str, int]:
    """Return the kind of a request (such as ``tokens/map``), and its number of units: holders, tokens or addresses.

    ``query`` has the parameters of the request's URL, ``body`` its decoded JSON or None.
    """
    parts = path.strip("/").split("/")[1:]
    kind = "/".join(parts[:2])
    if kind in ("tokens/map", "tokens/holders"):
        suffix = ", with metadata" if "return_metadata" in query else ""
        return kind + suffix, int(query.get("limit", 80))
    return kind, len(body["addresses"] if isinstance(body, Mapping) else body) if body else 1


def measure_request(request: Request) -> tuple[str, int]:
    """Return the kind of a request (a key of ``ASSUMED``), and its number of units: holders, tokens or addresses."""
    return measure(request.path, request.query, request.body)


def sample_sizes(archive: AnswerArchive, provider_id: str, kinds: Collection[str]) -> dict[str, Size]:
    """Return the size of each kind, measured on the provider's answers among the first 300 of the archive.

    Archived answers are sorted by hash, so the first ones are a random sample.
    """
    read = {kind: [0, 0, 0] for kind in kinds}  # answers, bytes, units
    for count, answer in enumerate(archive, start=1):
        if answer.provider_id == provider_id:
            kind, units = measure(answer.request["path"], answer.request["query"], answer.request["body"])
            if kind in read:
                read[kind] = [a + b for a, b in zip(read[kind], (1, len(answer.raw), units), strict=True)]
        if count >= _READ_AT_MOST or all(answers >= _ENOUGH_OF_A_KIND for answers, _, _ in read.values()):
            break
    return {kind: _size(kind, *counts) for kind, counts in read.items()}


def _size(kind: str, answers: int, octets: int, units: int) -> Size:
    assumed, unit = ASSUMED[kind]
    return Size(octets / units, unit, answers) if answers else Size(assumed, unit, 0)
