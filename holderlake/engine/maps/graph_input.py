"""Input of a token's graphs: the store, the token, the instants and the options."""

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
    """Input of a token's graphs: a store and its view, the kinds of all addresses, a Bloom filter of the ``MARKED``
    addresses, the token, ascending unix seconds and the options."""

    store: Store
    view: View
    kinds: Array
    marked: Array
    token: TokenInfo
    seconds: Array
    options: MapOptions

    @staticmethod
    def of(store: Store, view: View, token: TokenInfo, seconds: Array, options: MapOptions) -> GraphInput:
        """Return the input, with the kinds of addresses from the store."""
        kinds, marked = kinds_of_addresses(store, view), marked_filter(store, view)
        return GraphInput(store, view, kinds, marked, token, seconds, options)

    def wallets_until(self, addresses: Array) -> Array:
        """Return for each address the position of the first of the ``seconds`` at which it is an exchange, contract or
        hypernode; the number of seconds if there is none."""
        return wallets_until(self.store, self.view, self.kinds, addresses, self.seconds)

    def supernodes_from(self, addresses: Array) -> Array:
        """Return for each address the position of the first of the ``seconds`` at which it is a supernode; the number
        of seconds if there is none."""
        return supernodes_from(self.store, self.view, addresses, self.seconds)
