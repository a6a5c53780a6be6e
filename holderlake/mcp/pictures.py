"""Pictures of maps, from the rows of the warehouse."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from holderlake.contract.text import printable
from holderlake.mcp.questions import token_condition
from holderlake.mcp.sandbox import Refused
from holderlake.service.pictures.drawing.draw import Theme, TokenTitle, draw_map
from holderlake.units import counted
from holderlake.warehouse.schema import quoted
from holderlake.warehouse.token_history import Period, token_history
from holderlake.warehouse.warehouse import Warehouse, WarehouseError

_WIDTH: Final = 900


def map_picture(warehouse: Warehouse, token: str, at: str, chain: str | None) -> tuple[bytes, str]:
    """Return the bubble map of a token as of an instant as PNG, and a sentence about it.

    Raises ``Refused`` if there is no map, or if it is unclear which one.
    """
    try:
        condition = token_condition(token, chain)
        sql = f"SELECT chain, token_address, timestamp FROM maps_as_of({quoted(at)}) WHERE {condition}"
        maps = warehouse.query(sql).to_pylist()
    except WarehouseError as error:
        raise Refused(str(error)) from error
    if not maps:
        raise Refused(f"there is no map of {token} at or before {at}")
    if len(maps) > 1:
        raise Refused(f"{token} is on {', '.join(sorted(row['chain'] for row in maps))}: name the chain")
    chain, address, timestamp = maps[0].values()
    with token_history(warehouse, Period(chain, address, timestamp, timestamp)) as history:
        tables, names = history.map_at(timestamp), history.ask("token").to_pylist()[0]
    title = TokenTitle(printable(names["name"] or ""), printable(names["symbol"] or ""), chain, timestamp)
    picture = draw_map(tables, title, width=_WIDTH, theme=Theme.LIGHT, form="png")
    return picture, _sentence(address, chain, timestamp, tables["clusters"].num_rows)


def _sentence(address: str, chain: str, timestamp: datetime, clusters: int) -> str:
    return f"Map of {address} on {chain} as of {timestamp:%Y-%m-%d %H:%M} UTC: {counted(clusters, 'cluster')}."
