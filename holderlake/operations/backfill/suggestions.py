"""Suggestions for a cheaper plan: each with the credits that it saves and the data that it leaves out.

Each suggestion is a setting of ``holderlake.toml`` or an option ``--table``. Its saving is the difference between the
plan's price and the price under the other settings; archived answers cost nothing in either. Amounts are hundredths of
a credit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holderlake.assets.addresses import ADDRESSES
from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.assets.subgraphs import SUBGRAPHS
from holderlake.core.contract.requests import MAX_SUBGRAPH_ADDRESSES
from holderlake.core.ingest.covering import covering_blocks
from holderlake.core.ingest.stream import Stream
from holderlake.core.settings import Settings
from holderlake.core.units import counted
from holderlake.operations.backfill.coverage import changed

_LOWEST_LIMIT: Final = 80

Credits = Callable[[Settings, Sequence[Stream]], int]
"""A function that returns the cost of streams under settings, in hundredths of a credit."""


@dataclass(frozen=True)
class Offer:
    """A plan for which cheaper settings are searched: its settings, streams and chains.

    ``costs`` has the cost of each stream by name, in hundredths of a credit. ``credits`` is a function that returns the
    cost of streams under other settings.
    """

    settings: Settings
    streams: Sequence[Stream]
    chains: Sequence[str]
    costs: Mapping[str, int]
    credits: Credits

    @property
    def total(self) -> int:
        return sum(self.costs.values())

    def pays_for(self, stream: Stream) -> bool:
        """Return True if the stream is in the plan and costs credits."""
        return self.costs.get(stream.name, 0) > 0

    def plans(self, stream: Stream) -> bool:
        """Return True if the stream is in the plan."""
        return stream in self.streams

    def saved(self, settings: Settings, *streams: Stream) -> int:
        """Return the saving of other settings on some streams, in hundredths of a credit.

        Streams that are not in the plan are ignored.
        """
        planned_streams = [stream for stream in self.streams if stream in streams]
        return sum(self.costs[stream.name] for stream in planned_streams) - self.credits(settings, planned_streams)


@dataclass(frozen=True)
class Advice:
    """A suggestion that makes a plan cheaper. ``text`` describes it, ``loses`` the data that it leaves out.

    ``settings`` has the changed settings by name. ``tables`` has one table of each remaining stream, for ``--table``;
    None if all streams remain. ``saves`` is the saving in hundredths of a credit.
    """

    text: str
    settings: Mapping[str, int | bool]
    tables: tuple[str, ...] | None
    saves: int
    loses: str

    def as_json(self) -> dict[str, Any]:
        """Return the suggestion as plain data."""
        return {
            "what": self.text,
            "settings": dict(self.settings),
            "tables": None if self.tables is None else list(self.tables),
            "saves_hundredths": self.saves,
            "loses": self.loses,
        }


def advise(offer: Offer) -> tuple[list[Advice], Advice | None]:
    """Return all suggestions, sorted by saving from the largest, and one that combines all suggested settings.

    With the combined suggestion all tables are still filled. It is None if no setting is suggested.
    """
    if not offer.total:
        return [], None
    settings = [advice for advice in _settings_advice(offer) if advice.saves > 0]
    other_advice = [advice for advice in (*_holders_advice(offer), *_subgraph_advice(offer)) if advice.saves > 0]
    return sorted([*settings, *other_advice], key=lambda advice: -advice.saves), _together(offer, settings)


def _settings_advice(offer: Offer) -> Iterator[Advice]:
    """Yield suggestions to change one setting, with which every table is still filled."""
    yield from _limit_advice(offer, MAPS, offer.settings.maps.limit)
    yield from _limit_advice(offer, HOLDERS, offer.settings.holders.limit)
    if offer.settings.holders.with_metadata:
        have = _where_details_are(offer)
        yield _setting(offer, "holders.with_metadata", False, f"the details of holders stay empty{have}", HOLDERS)
    if offer.settings.addresses.top and _map_has_top(offer) and _address_sets(offer):
        loses = "addresses then has the named address sets only; map_nodes has the same details of top holders"
        yield _setting(offer, "addresses.top", 0, loses, ADDRESSES)


def _limit_advice(offer: Offer, stream: Stream, limit: int) -> Iterator[Advice]:
    if limit > _LOWEST_LIMIT:
        loses = f"holders below rank {_LOWEST_LIMIT} (of {limit})"
        yield _setting(offer, f"{stream.name}.limit", _LOWEST_LIMIT, loses, stream)


def _holders_advice(offer: Offer) -> Iterator[Advice]:
    """Yield the suggestion to leave out ``holders``, if maps contain the same holders.

    ``addresses`` is left out too if it would contain nothing but top holders.
    """
    settings = offer.settings
    if not (offer.pays_for(HOLDERS) and offer.plans(MAPS)) or settings.holders.limit > settings.maps.limit:
        return
    streams_left = [stream for stream in offer.streams if stream is not HOLDERS]
    loses = (
        "views and macros over holders, and tokens that have no map; "
        "map_nodes has rank, amount, share and details of the same holders"
    )
    top: dict[str, int | bool] = {}
    if offer.plans(ADDRESSES) and settings.addresses.enabled and settings.addresses.top:
        if not _map_has_top(offer):
            return
        if _address_sets(offer):
            top = {"addresses.top": 0}
            loses += "; addresses then has the named address sets only"
        else:
            streams_left.remove(ADDRESSES)
            loses += ", and all rows of addresses"
    left_out = [stream.name for stream in offer.streams if stream not in streams_left]
    cheaper = settings if not top else changed(settings, "addresses.top", 0)
    saves = offer.total - offer.credits(cheaper, streams_left)
    tables = tuple(stream.tables[0] for stream in streams_left)
    yield Advice(f"leave out {' and '.join(left_out)}", top, tables, saves, loses)


def _subgraph_advice(offer: Offer) -> Iterator[Advice]:
    """Yield a suggestion for each address set that needs several requests: to cut it to the size of one request."""
    if not offer.pays_for(SUBGRAPHS):
        return
    for name, members in offer.settings.address_sets.items():
        count = len(members.addresses)
        if count <= MAX_SUBGRAPH_ADDRESSES or members.chain not in (None, *offer.chains):
            continue
        smaller = members.model_copy(update={"addresses": members.addresses[:MAX_SUBGRAPH_ADDRESSES]})
        sets = {**offer.settings.address_sets, name: smaller}
        yield Advice(
            f"cut address_sets.{name}.addresses to {MAX_SUBGRAPH_ADDRESSES:,}: its {count:,} addresses need "
            f"{counted(len(covering_blocks(members.addresses)), 'call')}",
            {},
            None,
            offer.saved(offer.settings.model_copy(update={"address_sets": sets}), SUBGRAPHS),
            f"transfers of the {count - MAX_SUBGRAPH_ADDRESSES:,} removed addresses",
        )


def _setting(offer: Offer, name: str, value: int | bool, loses: str, stream: Stream) -> Advice:
    saves = offer.saved(changed(offer.settings, name, value), stream) if offer.pays_for(stream) else 0
    return Advice(f"set {name} = {_toml(value)}", {name: value}, None, saves, loses)


def _together(offer: Offer, advice: Sequence[Advice]) -> Advice | None:
    new_settings = {name: value for suggestion in advice for name, value in suggestion.settings.items()}
    if not new_settings:
        return None
    settings = offer.settings
    for name, value in new_settings.items():
        settings = changed(settings, name, value)
    saves = offer.total - offer.credits(settings, offer.streams)
    listed = ", ".join(f"{name} = {_toml(value)}" for name, value in new_settings.items())
    return Advice(f"set {listed}", new_settings, None, saves, "; ".join(suggestion.loses for suggestion in advice))


def _map_has_top(offer: Offer) -> bool:
    """Return True if maps of any size have the details of all holders that the stream ``addresses`` would fetch."""
    return offer.plans(MAPS) and offer.settings.addresses.top <= _LOWEST_LIMIT


def _where_details_are(offer: Offer) -> str:
    map_has_holders = offer.plans(MAPS) and offer.settings.holders.limit <= offer.settings.maps.limit
    return "; map_nodes has them" if map_has_holders else ""


def _address_sets(offer: Offer) -> bool:
    """Return True if each chain of the plan has an address set."""
    sets = offer.settings.address_sets.values()
    return all(any(members.chain in (None, chain) for members in sets) for chain in offer.chains)


def _toml(value: int | bool) -> str:
    return str(value).lower()
