"""Publish the lake as Iceberg tables, and report it."""

from __future__ import annotations

from dataclasses import asdict

from holderlake import console
from holderlake.contract.tables import TABLES
from holderlake.units import counted
from holderlake.workspace import Workspace


def publish_lake(workspace: Workspace, clean: bool, as_json: bool) -> bool:
    """Publish all committed partitions, and print a report. Return whether all files could be read.

    ``clean`` also drops earlier snapshots.
    """
    from holderlake.iceberg import clean_up, publish

    iceberg, folder = workspace.settings.lake.iceberg, workspace.settings.iceberg_folder
    with console.progress("publishing", len(TABLES)) as bar:
        publication = publish(workspace.lake, folder, iceberg.catalog, lambda _: bar.advance(bar.task_ids[0]))
    dropped = clean_up(folder, iceberg.catalog) if clean else 0
    if as_json:
        console.as_json(
            asdict(publication) | {"is_current": publication.is_current, "dropped": dropped, "folder": str(folder)}
        )
    else:
        changed = [name for name in TABLES if publication.added[name] or publication.removed[name]]
        lines = [(name, publication.added[name], publication.removed[name]) for name in changed]
        if lines:
            console.rows("Published", ("table", "files added", "files removed"), lines)
        console.out.print(f"The Iceberg tables in {folder} have commit {publication.commit}.", soft_wrap=True)
        if dropped:
            console.out.print(f"{counted(dropped, 'link')} to replaced files dropped.")
        for path in publication.unreadable:
            text = f"{path} does not match its manifest; 'holderlake rebuild --damaged' repairs it"
            console.err.print(text, soft_wrap=True)
    return not publication.unreadable
