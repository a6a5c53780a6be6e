"""The engine in this process: maps and holders of many tokens at many instants as Arrow tables, without HTTP and JSON.

The rows equal those of the embedded service. Heavy modules are imported at their first use, because most commands do
not need them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.contract.requests import HoldersOptions, HoldersRequest, MapOptions, MapRequest
from holderlake.core.contract.tables import MAP_TABLES, TABLES
from holderlake.core.contract.times import utc_now
from holderlake.core.ingest.engine import BulkResult, MissingAnswer
from holderlake.core.provider.errors import NoAnswer, NoHolders, UnknownToken, UnsupportedToken
from holderlake.engine.errors import EngineError
from holderlake.engine.errors import UnknownToken as NotKnown
from holderlake.engine.errors import UnsupportedToken as NotSupported

if TYPE_CHECKING:
    from holderlake.engine.records import TokenInfo
    from holderlake.engine.store.store import Store

_ERRORS: Final[Mapping[str, type[NoAnswer]]] = {
    error.code: error for error in (NoHolders, UnknownToken, UnsupportedToken)
}


class StoreEngine:
    """The engine over a store. It implements ``holderlake.core.ingest.engine.DirectEngine``.

    ``store`` and ``provider_id`` are functions that return the value. They are called at its first use.
    """

    def __init__(self, store: Callable[[], Store], provider_id: Callable[[], str]) -> None:
        self._store = store
        self._provider_id = provider_id

    @property
    def provider_id(self) -> str:
        """The id of the provider whose store the engine reads."""
        return self._provider_id()

    @property
    def rules(self) -> Mapping[str, Any]:
        """The store's rules as plain data."""
        from holderlake.engine.catalog.rules import rules_in_force

        return rules_in_force(self._store().rules)

    def maps(self, chain: str, tokens: Sequence[str], instants: Sequence[datetime], options: MapOptions) -> BulkResult:
        """Return the map tables of tokens at instants (UTC), and the tokens and instants that have no map. Raises
        ``EngineError`` if the store can't be read."""
        from holderlake.engine.maps.batch import map_batches

        token_infos, refused = self._supported_tokens(chain, tokens, instants)
        at = utc_now()
        batches = list(map_batches(self._store(), [(chain, address) for address in token_infos], instants, options, at))
        tables = {name: _concat_pieces(name, (batch[name] for batch in batches)) for name in MAP_TABLES}
        missing = _without_holders(tables["maps"], token_infos, instants)
        return BulkResult(MapRequest.endpoint, tables, [*refused, *missing], at)

    def holders(
        self, chain: str, tokens: Sequence[str], instants: Sequence[datetime], options: HoldersOptions
    ) -> BulkResult:
        """Return the ``holders`` rows of tokens at instants (UTC), and the tokens and instants without holders. Raises
        ``EngineError`` if the store can't be read."""
        from holderlake.engine.maps.batch import holder_batches

        token_infos, refused = self._supported_tokens(chain, tokens, instants)
        at = utc_now()
        keys = [(chain, address) for address in token_infos]
        batches = holder_batches(self._store(), keys, instants, options.limit, options.return_metadata)
        rows = _concat_pieces("holders", batches)
        missing = _without_holders(rows.filter(pc.equal(rows["rank"], 1)), token_infos, instants)
        return BulkResult(HoldersRequest.endpoint, {"holders": rows}, [*refused, *missing], at)

    def _supported_tokens(
        self, chain: str, tokens: Sequence[str], instants: Sequence[datetime]
    ) -> tuple[dict[str, TokenInfo], list[MissingAnswer]]:
        """Return the supported tokens by address, and a ``MissingAnswer`` with the reason for each instant of each
        other token."""
        from holderlake.engine.queries.balances import supported_token

        token_infos, refused = {}, []
        store = self._store().cached_snapshot()
        for address in tokens:
            try:
                token_infos[address] = supported_token(store, chain, address)
            except (NotKnown, NotSupported) as error:
                refused += [MissingAnswer(address, as_of, _provider_error(error)) for as_of in instants]
        return token_infos, refused


def _concat_pieces(name: str, pieces: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([TABLES[name].engine_schema.empty_table(), *pieces])


def _without_holders(
    answered_rows: pa.Table, token_infos: Mapping[str, TokenInfo], instants: Sequence[datetime]
) -> list[MissingAnswer]:
    """Return a ``MissingAnswer`` for each token and instant without a row in ``answered_rows``: the token then has no
    holders."""
    from holderlake.engine.queries.balances import no_holders

    keys = set(zip(answered_rows["token_address"].to_pylist(), answered_rows["as_of"].to_pylist(), strict=True))
    return [
        MissingAnswer(address, as_of, _provider_error(no_holders(token, as_of)))
        for address, token in token_infos.items()
        for as_of in instants
        if (token.address, as_of) not in keys
    ]


def _provider_error(error: EngineError) -> NoAnswer:
    return _ERRORS[error.code](str(error))
