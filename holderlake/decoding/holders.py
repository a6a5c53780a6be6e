"""Lists of holders, addresses, tokens and chains as their tables, and the columns that maps share with them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from holderlake.contract.chains import normalise_address
from holderlake.contract.tables import DETAIL_COLUMNS, TABLES, assemble
from holderlake.decoding.columns import amounts_of, date_times_of, figure_of, integers_of, texts_of, written
from holderlake.decoding.structs import AddressDetails, HolderData

Columns = dict[str, Any]
"""By name: an Arrow array or a sequence of values."""
Common = dict[str, pa.Scalar]
"""The values that all rows of a table share."""

_NO_DETAILS: Final = AddressDetails(is_paid_label=None)
_NO_HOLDING: Final = HolderData()
_details: Final = attrgetter(*DETAIL_COLUMNS)


class Owners:
    """The tokens whose answers are read together, in the order of the answers."""

    def __init__(self, token_addresses: Sequence[str]) -> None:
        self._tokens = pa.array([normalise_address(address) for address in token_addresses], pa.string())

    def of(self, counts: Sequence[int]) -> pa.Array:
        """Return the column ``token_address`` for so many rows of each answer."""
        if len(counts) == 1:
            return pa.repeat(self._tokens[0], counts[0])
        return self._tokens.take(pa.array(np.repeat(np.arange(len(counts)), counts)))


def holders_table(answers: Sequence[Sequence[Any]], owners: Owners, common: Common) -> pa.Table:
    """Return the table ``holders``, by rank."""
    listed = [holder for answer in answers for holder in ranked(answer)]
    columns = {
        "token_address": owners.of([len(answer) for answer in answers]),
        "address": written([holder.address for holder in listed]),
        **holding_columns([holder.holder_data for holder in listed]),
        **details_columns([holder.address_details for holder in listed]),
    }
    return assemble(TABLES["holders"], len(listed), common, columns)


def addresses_table(answer: Sequence[Any], common: Common) -> pa.Table:
    """Return the table ``addresses``, in the answer's order."""
    columns = {
        "address": written([item.address for item in answer]),
        **details_columns([item.address_details for item in answer]),
    }
    return assemble(TABLES["addresses"], len(answer), common, columns)


def tokens_table(answer: Sequence[Any], common: Common) -> pa.Table:
    """Return the table ``tokens``. Statistics are null where they were not asked for."""
    stats = [token.stats or token.token_stats for token in answer]
    columns = {
        "chain": [token.token_key.chain for token in answer],
        "token_address": written([token.token_key.address for token in answer]),
        "name": [token.metadata.name for token in answer],
        "symbol": [token.metadata.symbol for token in answer],
        "is_indexed": [token.metadata.is_indexed for token in answer],
        "img_url": [token.metadata.img_url for token in answer],
        "transfers_count": integers_of([one and one.transfers_count for one in stats]),
        "min_date": date_times_of([one and one.min_date for one in stats]),
        "max_date": date_times_of([one and one.max_date for one in stats]),
    }
    return assemble(TABLES["tokens"], len(answer), common, columns)


def chains_table(answer: Sequence[Any], common: Common) -> pa.Table:
    """Return the table ``chains``, each chain under its own id."""
    columns = {
        "chain": [chain.id for chain in answer],
        "name": [chain.name for chain in answer],
        "dexscreener_id": [chain.dexscreener_id for chain in answer],
        "coingecko_id": [chain.coingecko_id for chain in answer],
    }
    return assemble(TABLES["chains"], len(answer), common, columns)


def ranked(holders: Sequence[Any]) -> list[Any]:
    """Return holders by rank; those without a rank last."""
    try:
        return sorted(holders, key=lambda holder: holder.holder_data.rank)
    except (AttributeError, TypeError):
        return sorted(holders, key=_rank)


def _rank(holder: Any) -> float:
    rank = holder.holder_data and holder.holder_data.rank
    return float("inf") if rank is None else rank


def holding_columns(held: Sequence[Any], others: int = 0) -> Columns:
    """Return the columns of what is held, with nulls for so many ``others`` after them."""
    held = [each or _NO_HOLDING for each in held]
    nulls = [None] * others
    amounts = amounts_of("amount", texts_of([each.amount for each in held]))
    return {
        "rank": [each.rank for each in held] + nulls,
        "share": [figure_of(each.share) for each in held] + nulls,
        **{name: pa.concat_arrays([array, pa.nulls(others, array.type)]) for name, array in amounts.items()},
    }


def details_columns(details: Sequence[Any]) -> Columns:
    """Return the columns of address details."""
    columns: Columns = dict.fromkeys(DETAIL_COLUMNS, ())
    if details:
        rows = [_details(each or _NO_DETAILS) for each in details]
        columns.update(zip(DETAIL_COLUMNS, zip(*rows, strict=True), strict=True))
    return columns | {"first_activity_date": date_times_of(columns["first_activity_date"])}
