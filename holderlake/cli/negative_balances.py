"""``holderlake store negative-balances``: print the addresses below zero in the user's own store.

Imports print a warning about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from holderlake.core.contract.chains.addresses import typed_token
from holderlake.core.settings import Settings
from holderlake.core.units import counted
from holderlake.engine.queries.balances import largest_balances
from holderlake.engine.queries.negative_balances import (
    NEGATIVE_BALANCES,
    PASSING_BALANCES,
    all_negative_balances,
    negative_balances,
    passing_balances,
)
from holderlake.engine.store.store import Store
from holderlake.presentation import console
from holderlake.sources.store import open_own_store

_COLUMNS: Final = ("chain", "token", "address", "balance (raw)", "below zero since")
_PASSING: Final = ("chain", "token", "address", "lowest balance (raw)", "below zero since", "until")
_PASSING_MEANING: Final = (
    "Maps of these times are wrong: the token changes balances without transfers (rebasing, fees), or its history "
    "lacks transfers."
)
_ROWS_SHOWN: Final = 10
_USABLE: Final = 0.01
"""A map is usable if less than this part of the supply is below zero."""
_LEAST_SHARE: Final = 0.00001


def report_negative_balances(
    settings: Settings, chain: str | None, token: str | None, as_of: datetime, as_json: bool
) -> None:
    """Print the addresses with negative balances of all tokens, or of the token ``token`` on ``chain``.

    Raises ``ValueError`` if ``chain`` is given without ``token``.
    """
    if chain and not token:
        raise ValueError(f"no token of chain {chain} is given; add its address, or leave out the chain for all tokens")
    with open_own_store(settings) as store:
        balances = (
            negative_balances(store, chain, typed_token(chain, token), as_of)
            if chain and token
            else all_negative_balances(store, as_of)
        )
        keys = (
            [(chain, typed_token(chain, token))]
            if chain and token
            else [(history.chain, history.token_address) for history in store.histories()]
        )
        passing = passing_of_tokens(store, keys, as_of).to_pylist()
    if as_json:
        console.as_json([*balances.to_pylist(), *passing])
    else:
        console.rows("Addresses below zero", _COLUMNS, (list(row.values()) for row in balances.to_pylist()))
        print_passing(passing)


def of_tokens(store: Store, keys: Sequence[tuple[str, str]], as_of: datetime) -> pa.Table:
    """Return the addresses with negative balances of several tokens (chain, address), in the schema
    ``NEGATIVE_BALANCES``.

    Rows are in the order of ``keys``, then by ascending balance.
    """
    return pa.concat_tables([NEGATIVE_BALANCES.empty_table(), *(negative_balances(store, *key, as_of) for key in keys)])


def passing_of_tokens(store: Store, keys: Sequence[tuple[str, str]], as_of: datetime) -> pa.Table:
    """Return the times below zero that are over of several tokens (chain, address), in the schema
    ``PASSING_BALANCES``."""
    tables = (passing_balances(store, *key, as_of) for key in keys)
    return pa.concat_tables([PASSING_BALANCES.empty_table(), *tables])


def print_passing(rows: Sequence[dict[str, Any]]) -> None:
    """Print the first ten of the times in which addresses were below zero, and an explanation."""
    if not rows:
        return
    console.rows("Addresses below zero for a time", _PASSING, (list(row.values()) for row in rows[:_ROWS_SHOWN]))
    if len(rows) > _ROWS_SHOWN:
        console.out.print(f"and {len(rows) - _ROWS_SHOWN:,} more; --json lists them all", soft_wrap=True)
    console.err.print(_PASSING_MEANING, soft_wrap=True)


def print_summary(store: Store, rows: Sequence[dict[str, Any]], as_of: datetime) -> None:
    """Print a sentence for each token of ``rows``, which are its addresses below zero."""
    for key in dict.fromkeys((row["chain"], row["token_address"]) for row in rows):
        amounts = [-int(row["balance"]) for row in rows if (row["chain"], row["token_address"]) == key]
        share = largest_balances(store, *key, as_of, 1).share(sum(amounts))
        meaning = "maps are usable" if share < _USABLE else "its maps are wrong until they are imported"
        console.err.print(
            f"{key[1]} on {key[0]}: {counted(len(amounts), 'address')} below zero ({_percent(share)} of the supply): "
            f"transfers are missing, or the source rounds amounts; {meaning}. 'holderlake store negative-balances' "
            "lists them",
            soft_wrap=True,
        )


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share >= _LEAST_SHARE else f"less than {100 * _LEAST_SHARE:g} %"
