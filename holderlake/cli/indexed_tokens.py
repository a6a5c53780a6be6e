"""``holderlake store index``: list and change the indexed tokens of the user's own store, whose transfers count on all
maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from holderlake.core.contract.chains.addresses import typed_token
from holderlake.core.settings import Settings, SettingsError
from holderlake.engine.catalog.indexed_tokens import COMMAND, indexed_tokens
from holderlake.engine.settings import EngineSettings
from holderlake.engine.store.store import Store
from holderlake.presentation import console
from holderlake.sources.store import open_own_store


def change_index(settings: Settings, chain: str, tokens: Sequence[str], remove: bool, as_json: bool) -> None:
    """Mark tokens as indexed, or with ``remove`` as not indexed, and print the chain's indexed tokens.

    Raises ``ValueError`` for an invalid address. Raises ``SettingsError`` if a token to remove is marked as indexed by
    the settings.
    """
    keys = [(chain, typed_token(chain, token)) for token in tokens]
    indexed_keys = sorted(set(keys) & set(settings.section(EngineSettings).index_keys)) if remove else []
    if indexed_keys:
        raise SettingsError(
            f"the settings mark {indexed_keys[0][1]} on {chain} as indexed; remove it from their section "
            f"[engine.indexed]"
        )
    with open_own_store(settings) as store:
        store.index_tokens(keys, COMMAND, not remove)
        _list(store, chain, as_json)
    console.err.print(
        "This applies to new maps; maps in the lake keep their relationships until they are fetched again with "
        "--refresh.",
        soft_wrap=True,
    )


def list_index(settings: Settings, chain: str | None, as_json: bool) -> None:
    """Print the indexed tokens of ``chain``, or of all chains if it is None, with their source and number of transfers.

    The source is the one whose mark decides, for example the settings.
    """
    with open_own_store(settings) as store:
        _list(store, chain, as_json)


def _list(store: Store, chain: str | None, as_json: bool) -> None:
    lines = []
    for token in store.read(indexed_tokens):
        if chain in (None, token.chain):
            history = store.history(token.chain, token.address)
            lines.append(asdict(token) | {"transfers": history.transfers if history else 0})
    if as_json:
        console.as_json(lines)
        return
    columns = ("chain", "token", "symbol", "name", "marked by", "transfers")
    names = ("chain", "address", "symbol", "name", "source", "transfers")
    console.rows("Indexed tokens", columns, ([line[name] for name in names] for line in lines))
