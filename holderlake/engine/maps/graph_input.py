"""``GraphInput``: the store, the token, the instants and the options from which a token's graphs are computed."""

from __future__ import annotations

from dataclasses import dataclass

from holderlake.contract.requests import MapOptions
from holderlake.engine.files.manifest import View
from holderlake.engine.numeric.bigint import Array
from holderlake.engine.queries.addresses import kinds_of_addresses, marked_filter, supernodes_from, wallets_until
from holderlake.engine.records import TokenInfo
from holderlake.engine.store.store import Store


@dataclass(frozen=True)
class GraphInput:
    """Input of a token's graphs at several instants.

    ``view`` has the arrays of the ``store``. ``kinds`` has the kinds of every address as bits, by address number.
    ``marked`` is a Bloom filter of the numbers of all exchanges, contracts and hypernodes. ``seconds`` are the
    instants, as ascending unix seconds.
    """

    store: Store
    view: View
    kinds: Array
    marked: Array
    token: TokenInfo
    seconds: Array
    options: MapOptions

    @staticmethod
    def of(store: Store, view: View, token: TokenInfo, seconds: Array, options: MapOptions) -> GraphInput:
        """Return the input of a token's graphs, with the kinds of addresses read from the store."""
        kinds, marked = kinds_of_addresses(store, view), marked_filter(store, view)
        return GraphInput(store, view, kinds, marked, token, seconds, options)

    def wallets_until(self, addresses: Array) -> Array:
        """Return for each address the first index into ``seconds`` at which it is an exchange, contract or hypernode.

        The index is the number of seconds if the address never is one.
        """
        return wallets_until(self.store, self.view, self.kinds, addresses, self.seconds)

    def supernodes_from(self, addresses: Array) -> Array:
        """Return for each address the first index into ``seconds`` at which it is a supernode.

        The index is the number of seconds if the address never is one.
        """
        return supernodes_from(self.store, self.view, addresses, self.seconds)
