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
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Parquet files of raw transfers in our own layout, or folders; default: the store's.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Build the derived tables (balance intervals, daily edges, …) that 'holderlake cluster fill' reads.

    Example: holderlake cluster build

    Example: holderlake cluster build s3a://bucket/transfers
    """
    from holderlake.cli.cluster_jobs import build_on_cluster

    build_on_cluster(shared.settings(), files or [], json)


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

    Example: holderlake cluster fill --from 2026-01-01 --every 1d --chain eth
    """
    from holderlake.backfill.instants import chosen_instants
    from holderlake.cli.cluster_jobs import fill_on_cluster

    workspace = shared.reading()
    fill_instants = chosen_instants(start, end, every, instants)
    watched = workspace.settings.watchlist
    chains = shared.chains_of(workspace, chain, token)
    given_tokens = shared.tokens_of(chains, token)
    tokens = [(chain_name, address) for chain_name in chains for address in given_tokens or watched[chain_name]]
    fill_on_cluster(workspace, tokens, fill_instants, json)
