"""The input of a token's graphs: the store, the token, the instants and the options."""

from __future__ import annotations

from dataclasses import dataclass

from holderlake.contract.requests import MapOptions
from holderlake.engine.files.manifest import View
from holderlake.engine.numeric.bigint import Array
from holderlake.engine.queries.addresses import kinds_of_addresses, sieve_of_kinds, supernodes_from, wallets_until
from holderlake.engine.records import TokenInfo
from holderlake.engine.store.store import Store


@dataclass(frozen=True)
class Scene:
    """The store and its arrays, kinds of all addresses and their sieve, the token, the rising seconds, the options."""

    store: Store
    view: View
    kinds: Array
    sieve: Array
    token: TokenInfo
    seconds: Array
    options: MapOptions

    @staticmethod
    def of(store: Store, view: View, token: TokenInfo, seconds: Array, options: MapOptions) -> Scene:
        """The scene, with the kinds that the store knows."""
        kinds, sieve = kinds_of_addresses(store, view), sieve_of_kinds(store, view)
        return Scene(store, view, kinds, sieve, token, seconds, options)

    def wallets_until(self, addresses: Array) -> Array:
        """The instant from which each address belongs on no map: as exchange, contract or hypernode."""
        return wallets_until(self.store, self.view, self.kinds, addresses, self.seconds)

    def supernodes_from(self, addresses: Array) -> Array:
        """The instant from which each address is a supernode."""
        return supernodes_from(self.store, self.view, addresses, self.seconds)
