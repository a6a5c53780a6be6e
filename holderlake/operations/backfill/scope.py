"""The streams that a plan and a backfill cover: those of the chosen tables that the API key's plan includes."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from contextlib import closing

from holderlake.assets import STREAMS
from holderlake.assets.addresses import ADDRESSES
from holderlake.assets.holders import HOLDERS
from holderlake.core.ingest.stream import LeftOut, Stream, left_out_by_settings
from holderlake.core.lake.lake import SIDE_TABLES
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace


def streams_of(tables: Sequence[str] | None, settings: Settings) -> tuple[Stream, ...]:
    """Return the fewest streams that fill the tables; all streams if ``tables`` is None or empty.

    The stream ``holders`` is added if ``addresses`` needs its top holders. Raises ``ValueError`` for a table that no
    stream fills.
    """
    if not tables:
        return STREAMS
    stream_by_table = {table: stream for stream in STREAMS for table in stream.tables}
    for table in tables:
        if table in SIDE_TABLES:
            raise ValueError(
                f"the table {table} cannot be chosen: every run writes it. Choose the table whose data you want"
            )
        if table not in stream_by_table:
            near = difflib.get_close_matches(table, stream_by_table, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"the tables are {', '.join(stream_by_table)}"
            raise ValueError(f"there is no table {table!r}; {hint}")
    family_names = {stream_by_table[table].name for table in tables}
    if ADDRESSES.name in family_names and settings.addresses.enabled and settings.addresses.top:
        family_names.add(HOLDERS.name)
    return tuple(stream for stream in STREAMS if stream.name in family_names)


def within_plan(workspace: Workspace, streams: Sequence[Stream]) -> tuple[tuple[Stream, ...], tuple[LeftOut, ...]]:
    """Split the streams into those to fetch, and those that the settings or the API key's plan are known to exclude.

    Raises ``SettingsError`` if no provider is configured.
    """
    with closing(workspace.plan_limits()) as plan_limits:
        limits = plan_limits.limits
    fetched_streams, left_out = [], []
    for stream in streams:
        limit = limits.get(stream.endpoint)
        if (reason := left_out_by_settings(workspace.settings, stream.name)) is not None:
            left_out.append(LeftOut(stream.name, stream.tables, reason))
        elif limit is not None:
            left_out.append(LeftOut(stream.name, stream.tables, limit.reason, limit.at, limit.until))
        else:
            fetched_streams.append(stream)
    return tuple(fetched_streams), tuple(left_out)
