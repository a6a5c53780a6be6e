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
    """A store and its view, the kinds of all addresses with a filter of the ``MARKED`` ones, a token, ascending
    seconds and options."""

    store: Store
    view: View
    kinds: Array
    marked: Array
    token: TokenInfo
    seconds: Array
    options: MapOptions

    @staticmethod
    def of(store: Store, view: View, token: TokenInfo, seconds: Array, options: MapOptions) -> GraphInput:
        """Return the input with the kinds of addresses that the store has."""
        kinds, marked = kinds_of_addresses(store, view), marked_filter(store, view)
        return GraphInput(store, view, kinds, marked, token, seconds, options)

    def wallets_until(self, addresses: Array) -> Array:
        """Return the position of the second from which each address is an exchange, contract or hypernode."""
        return wallets_until(self.store, self.view, self.kinds, addresses, self.seconds)

    def supernodes_from(self, addresses: Array) -> Array:
        """Return the position of the second from which each address is a supernode."""
        return supernodes_from(self.store, self.view, addresses, self.seconds)
