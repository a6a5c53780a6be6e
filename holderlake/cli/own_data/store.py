"""``holderlake store``: check and repair the engine's store on disk."""

from __future__ import annotations

from typing import Annotated

import typer

from holderlake.cli import shared
from holderlake.cli.shared import Json

app = typer.Typer(help="Check and repair the engine's store on disk.", no_args_is_help=True)


@app.command("verify")
def store_verify(json: Json = False) -> None:
    """Compare every file of the store with its checksum, and list damaged files with the remedy."""
    from holderlake.local.store_care import verify_store

    verify_store(shared.settings(), json)


@app.command("rebuild")
def store_rebuild(json: Json = False) -> None:
    """Repair the store: restore the catalogue from its copy or the files, and derived files from the transfers."""
    from holderlake.local.store_care import rebuild_store

    rebuild_store(shared.settings(), json)


@app.command("clean")
def store_clean(
    yes: Annotated[bool, typer.Option("--yes", help="Delete the files; they cannot be restored.")] = False,
    json: Json = False,
) -> None:
    """Delete the files in the store's quarantine for good. Without --yes, only count them."""
    from holderlake.local.store_care import clean_store

    clean_store(shared.settings(), yes, json)
