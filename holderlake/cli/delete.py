"""``holderlake delete``: the only commands that delete stored data. Without ``--yes`` they only show the data."""

from __future__ import annotations

from typing import Annotated

import typer

from holderlake.cli import shared
from holderlake.cli.exit_codes import ExitCode
from holderlake.cli.shared import Json, TokenAddress, TokenChain, Yes
from holderlake.core.units import counted
from holderlake.presentation import console

app = typer.Typer(help="Delete data that you no longer need. Without --yes, only show them.", no_args_is_help=True)


@app.command("expired")
def delete_expired_data(
    yes: Yes = False,
    without_rebuild: Annotated[
        bool, typer.Option("--without-rebuild", help="Delete answers too, which 'holderlake home rebuild' needs.")
    ] = False,
    json: Json = False,
) -> None:
    r"""Delete runs, failures and answers that are older than the ages under \[retention] in holderlake.toml.

    In a bucket it also deletes files that no partition uses: replaced ones, and those of killed commits.

    Example: holderlake delete expired

    Example: HOLDERLAKE_RETENTION__ARCHIVE=180d holderlake delete expired --without-rebuild --yes
    """
    from holderlake.cli.home_reports import retention_report
    from holderlake.operations.history.history import expired_runs
    from holderlake.operations.history.instance import dagster_instance, own_dagster_home
    from holderlake.operations.maintenance.retention import delete_expired, expired

    workspace = shared.reading()
    folder, age = workspace.settings.dagster_home, workspace.settings.retention.history
    if age is not None and own_dagster_home(folder):
        console.err.print(
            "Runs stay: DAGSTER_HOME may have other projects; the schedule retention deletes our own.", soft_wrap=True
        )
        age = None
    with dagster_instance(folder) as instance:
        expired_data = expired(workspace)
        expired_data += expired_runs(instance, folder, age)
        if not expired_data or not (yes and json):
            retention_report(expired_data, None, json)
        if not expired_data:
            return
        if not yes:
            shared.say_not_done("deleted")
            return
        result = delete_expired(expired_data, without_rebuild=without_rebuild)
    retention_report(expired_data, result, json)
    if result.kept:
        raise typer.Exit(ExitCode.SOME_FAILED)


@app.command("quarantine")
def delete_quarantined_files(yes: Yes = False, json: Json = False) -> None:
    """Delete the files in the quarantine of the engine's store: damaged ones, and those that it does not list.

    Example: holderlake delete quarantine --yes
    """
    from holderlake.cli.store_care import delete_quarantine

    delete_quarantine(shared.settings(), yes, json)
    if not yes:
        shared.say_not_done("deleted")


@app.command("snapshots")
def delete_snapshots(yes: Yes = False, json: Json = False) -> None:
    """Delete old publications of the lake's Iceberg tables, their metadata, and files that only they list.

    The last lake.iceberg.keep publications stay, by default one. Readers of an older one then fail. The lake's own
    files stay.

    Example: holderlake delete snapshots --yes
    """
    from holderlake.core.settings import SettingsError
    from holderlake.scale.iceberg.tables import tables_of
    from holderlake.scale.settings import iceberg_folder

    workspace = shared.reading()
    folder = iceberg_folder(workspace.settings)
    if not folder.exists():
        raise SettingsError(f"{folder} has no Iceberg tables; 'holderlake lake publish' makes them")
    iceberg = tables_of(workspace)
    files = iceberg.clean_up(dry_run=not yes)
    if json:
        console.as_json({"files": files, "deleted": yes, "place": iceberg.root})
    else:
        console.out.print(f"{counted(files, 'file')} of older publications{' deleted' if yes else ''}.")
    if not yes:
        shared.say_not_done("deleted")


@app.command("balances")
def delete_balances(chain: TokenChain, token: TokenAddress, yes: Yes = False, json: Json = False) -> None:
    """Delete the balances of a token that 'holderlake import balances' imported. Its transfers stay.

    Example: holderlake delete balances eth 0x6ba6f2207e343923ba692e5cae646fb0f566db8d --yes
    """
    from holderlake.cli.opening_balances import delete_opening_balances

    delete_opening_balances(shared.settings(), chain, shared.token_address(chain, token), yes, json)
    if not yes:
        shared.say_not_done("deleted")
