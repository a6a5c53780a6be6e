"""``holderlake store negative-balances``: print the addresses below zero in the user's own store.

Imports print a warning about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from holderlake.cli.shared import tokens_of
from holderlake.core.settings import Settings
from holderlake.core.units import counted
from holderlake.engine.queries.balances import largest_balances, share_of
from holderlake.engine.queries.negative_balances import (
    NEGATIVE_BALANCES,
    PASSING_BALANCES,
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
    addresses = tokens_of([chain], [token]) if chain and token else None
    with open_own_store(settings) as store:
        keys = [(history.chain, history.token_address) for history in store.histories()]
        if chain and addresses:
            keys = [(chain, address) for address in addresses]
        balances = of_tokens(store, keys, as_of)
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


def print_summary(
    store: Store, below: Sequence[dict[str, Any]], passing: Sequence[dict[str, Any]], as_of: datetime
) -> None:
    """Print a sentence for each token that has addresses below zero at ``as_of`` (``below``) or had some
    (``passing``), and the times of those whose maps are not usable."""
    unusable = []
    for key in dict.fromkeys((row["chain"], row["token_address"]) for row in (*below, *passing)):
        counts, most = [], 0.0
        supply = largest_balances(store, *key, as_of, 1).supply
        for rows, column, when in ((below, "balance", ""), (passing, "lowest", " for a time")):
            amounts: dict[str, int] = {}
            for row in rows:
                if (row["chain"], row["token_address"]) == key:
                    amounts[row["address"]] = max(amounts.get(row["address"], 0), -int(row[column]))
            if amounts:
                share = share_of(sum(amounts.values()), supply)
                part = f" ({'at most ' * (rows is passing)}{_percent(share)} of the supply)" if supply > 0 else ""
                counts.append(f"{counted(len(amounts), 'address')} below zero{when}{part}")
                most = max(most, share)
        is_usable = supply > 0 and most < _USABLE
        if supply <= 0:
            meaning = "its mints are missing, so it has no supply and no maps; import its whole history, or its "
            meaning += "balances with 'holderlake import balances'"
        else:
            meaning = "transfers are missing, or balances change without transfers, or the source rounds amounts; "
            meaning += "maps are usable" if is_usable else "its maps are wrong until they are imported"
        if not is_usable:
            unusable += [row for row in passing if (row["chain"], row["token_address"]) == key]
        console.err.print(
            f"{key[1]} on {key[0]}: {', '.join(counts)}: {meaning}. 'holderlake store negative-balances' lists them",
            soft_wrap=True,
        )
    print_passing(unusable)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share >= _LEAST_SHARE else f"less than {100 * _LEAST_SHARE:g} %"
