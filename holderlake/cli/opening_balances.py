"""``holderlake import balances``: import opening balances from files into the user's own store, or delete them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from holderlake.core.contract.chains.addresses import typed_token
from holderlake.core.settings import Settings
from holderlake.core.units import counted
from holderlake.engine.catalog.opening_balances import OPENING_BALANCES
from holderlake.engine.files.listing import OPENING
from holderlake.engine.records import Key
from holderlake.presentation import console
from holderlake.sources.balance_lists import BalanceOptions, read_balances
from holderlake.sources.files.mapping import read_block_times
from holderlake.sources.notices import other_decimals
from holderlake.sources.store import open_own_store


def import_balances(
    settings: Settings, paths: Sequence[Path], options: BalanceOptions, blocks: Sequence[Path], as_json: bool
) -> list[Key]:
    """Import opening balances from files, all files or none, and print a report. Return the tokens (chain, address).

    ``blocks`` are files with the times of blocks. Raises ``BadSource`` for invalid files, and for balances that
    contradict each other or the store.
    """
    read = replace(options, block_times=read_block_times(blocks))
    lists = [read_balances(path, read) for path in paths]
    balances = pa.concat_tables([OPENING_BALANCES.empty_table(), *(part.balances for part in lists)])
    with open_own_store(settings) as store:
        report = store.add_opening_balances(balances)
        decimals = {key: places for part in lists for key, places in part.decimals.items()}
        store.add_decimals(decimals)
        doubts = other_decimals(decimals, store.tokens(report.keys).values())
    line: dict[str, Any] = {
        "tokens": list(report.tokens),
        "rows": report.rows,
        "added": report.added,
        "duplicates": report.duplicates,
        "notices": [*(notice for part in lists for notice in part.notices), *doubts],
    }
    if as_json:
        console.as_json(line)
    else:
        console.rows(
            "Imported",
            ("tokens", "rows", "added", "duplicates"),
            [[len(report.tokens), report.rows, report.added, report.duplicates]],
        )
        for notice in line["notices"]:
            console.err.print(notice, soft_wrap=True, markup=False)
    return sorted(report.keys)


def delete_opening_balances(settings: Settings, chain: str, token: str, yes: bool, as_json: bool) -> None:
    """Delete the opening balances of a token if ``yes`` is true, else only count them, and print their number.

    Raises ``ValueError`` for an address that is invalid on the chain.
    """
    address = typed_token(chain, token)
    with open_own_store(settings) as store:
        if yes:
            count = store.remove_opening_balances(chain, address)
        else:
            parts = store.view().listing.parts_of((chain, address))
            count = sum(part.transfers for part in parts if part.kind == OPENING)
    if as_json:
        console.as_json({"chain": chain, "token_address": address, "balances": count, "deleted": yes})
    else:
        console.out.print(f"{'Deleted ' if yes else ''}{counted(count, 'opening balance')} of {address} on {chain}.")
