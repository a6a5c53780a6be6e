"""Publish the lake's committed partitions as snapshots of Iceberg tables.

A publication has an id. Each table that changed gets one snapshot, with the id in its summary, and every table gets a
tag of that name. When all tables have it, the namespace's property ``PUBLICATION`` gets the id: readers of several
tables take the snapshots of one tag. A publication that was killed does not change the property, and the next one
completes it.

The tables list the lake's own files. In a bucket a file never changes. In a folder the lake replaces its files, so the
tables list hard links, with the names that the files have in a bucket. Small files of past months may be merged into
new files next to a table's metadata.
"""

from __future__ import annotations

from collections.abc import Callable

from holderlake.core.units import counted
from holderlake.core.workspace import Workspace


def publish_if_chosen(workspace: Workspace, say: Callable[[str], None]) -> None:
    """Publish the lake as Iceberg tables if the settings say so. ``say`` gets a sentence about it."""
    if workspace.settings.lake.iceberg.publish:
        from holderlake.scale.iceberg.tables import tables_of  # noqa: PLC0415 - an extra

        publication = tables_of(workspace).publish()
        added, removed = sum(publication.added.values()), sum(publication.removed.values())
        say(f"iceberg: {counted(added, 'file')} added, {removed:,} removed")
