"""``holderlake cluster``: compute maps and holders on a Spark cluster, if transfers are too many for one machine."""

from __future__ import annotations

from typing import Annotated

import typer

from holderlake.cli import shared
from holderlake.cli.shared import Chains, Every, From, Instants, Json, To, Tokens

app = typer.Typer(
    help="Compute maps and holders on a Spark cluster, if transfers are too many for one machine.", no_args_is_help=True
)


@app.command("build")
def cluster_build(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Parquet files of transfers in our own layout, folders of them, or addresses such as s3://bucket/folder.",
        ),
    ],
    json: Json = False,
) -> None:
    """Import files of transfers into the engine's store, which has none yet, with all workers of a cluster.

    The store must be on storage that all machines share (engine.store). A killed build continues when you start it
    again.

    Example: holderlake cluster build /mnt/shared/transfers
    """
    from holderlake.cli.cluster_jobs import build_on_cluster

    build_on_cluster(shared.settings(), files, json)


@app.command("fill")
def cluster_fill(
    start: From = None,
    end: To = None,
    every: Every = None,
    instants: Instants = None,
    chain: Chains = None,
    token: Tokens = None,
    json: Json = False,
) -> None:
    """Compute maps and holders at many instants into lake and warehouse. It sends no request and costs nothing.

    Without --token it computes the watched tokens; if there are none, all tokens of the store.

    Example: holderlake cluster fill --from 2026-01-01 --every 1d --chain eth
    """
    from holderlake.cli.cluster_jobs import fill_on_cluster
    from holderlake.operations.backfill.instants import chosen_instants

    workspace = shared.reading()
    fill_instants = chosen_instants(start, end, every, instants)
    if token and not chain:
        raise ValueError("--token needs --chain, because several chains can have a token with the same address")
    fill_on_cluster(workspace, chain, shared.tokens_of(chain or (), token), fill_instants, json)
