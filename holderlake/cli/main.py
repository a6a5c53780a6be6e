"""The ``holderlake`` command: its subcommands, and the message and exit code after an error.

Each command is a function of one of the modules here. It parses options and calls the library.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Annotated, Any, Final

import typer

from holderlake.cli import (
    alerts,
    cluster,
    delete,
    fetch,
    home,
    imports,
    init,
    keys,
    lake,
    servers,
    shared,
    store,
    warehouse,
)
from holderlake.cli.exit_codes import EXIT_CODES, ExitCode
from holderlake.cli.shared import Json
from holderlake.core.extras import advice
from holderlake.presentation import console

_HELP = (
    "A time-travelling warehouse of token holders, the transfers between them, their clusters and labels. "
    "Start with 'holderlake demo', then 'holderlake init' for data of your own; 'holderlake COMMAND --help' explains a "
    "command."
)
_EPILOG = "Exit codes: " + " ".join(f"{code} {sentence}" for code, sentence in EXIT_CODES.items())


def doctor(
    quiet: Annotated[bool, typer.Option("--quiet", help="Print problems only.")] = False, json: Json = False
) -> None:
    """Check settings, provider, key, disk, files and versions, and say how to fix each problem.

    Example: holderlake doctor --quiet
    """
    from holderlake.operations.doctor.doctor import examine

    if not examine(quiet, json):
        raise typer.Exit(ExitCode.SOME_FAILED)


_COMMANDS: Final[Mapping[str, Mapping[str, Callable[..., Any] | typer.Typer]]] = {
    "Start": {"demo": fetch.demo, "init": init.init, "doctor": doctor, "ui": servers.ui},
    "Fetch from a provider": {
        "ingest": fetch.ingest,
        "plan": fetch.plan,
        "backfill": fetch.backfill,
        "retry-failures": fetch.retry_failures,
        "credits": fetch.credits,
    },
    "Query the warehouse": {
        "sql": warehouse.sql,
        "tables": warehouse.tables,
        "explore": servers.explore,
        "export": warehouse.export,
        "report": warehouse.report,
        "compare": warehouse.compare,
        "mcp": servers.mcp,
        "alerts": alerts.app,
    },
    "Use your own transfers": {"import": imports.app, "store": store.app, "cluster": cluster.app},
    "Run the API": {"serve": servers.serve, "keys": keys.app},
    "Maintain a home": {"home": home.app, "lake": lake.app, "delete": delete.app},
}
"""The commands by task, as ``--help`` shows them."""


def _print_version(is_asked: bool) -> None:
    if is_asked:
        console.out.print(f"holderlake {version('holderlake')}")
        raise typer.Exit


def _make_app() -> typer.Typer:
    main_app = typer.Typer(
        name="holderlake",
        help=_HELP,
        epilog=_EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for panel, commands in _COMMANDS.items():
        for name, command in commands.items():
            if isinstance(command, typer.Typer):
                main_app.add_typer(command, name=name, rich_help_panel=panel)
            else:
                main_app.command(name, rich_help_panel=panel)(command)

    @main_app.callback(help=_HELP, epilog=_EPILOG)
    def _close_after(
        context: typer.Context,
        _: Annotated[
            bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
        ] = False,
    ) -> None:
        context.call_on_close(shared.close)

    return main_app


app = _make_app()


def main() -> None:
    """Run a command. An expected error is printed as one sentence, without a traceback, and sets the exit code."""
    console.prepare_streams()
    try:
        app(standalone_mode=True)
    except Exception as error:
        if not isinstance(error, _expected_errors()) and not (isinstance(error, ImportError) and advice(error)):
            raise
        console.err.print(f"holderlake: {_sentence(error)}", style="red", soft_wrap=True)
        sys.exit(exit_code(error))


def _sentence(error: Exception) -> str:
    """Return an error as a sentence.

    For an error of the operating system it names the file and the reason, not the error number.
    """
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        from holderlake.core.storage.atomic_files import full_disk

        return full_disk(error.filename or "a file of the home or of the temporary folder")
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return (isinstance(error, ImportError) and advice(error)) or str(error)


def exit_code(error: Exception) -> ExitCode:
    """Return the exit code for an error. A plain ``ValueError`` means a wrong option or argument of the command."""
    from holderlake.core.contract.times import InstantAhead
    from holderlake.errors import SomeFailed

    if isinstance(error, SomeFailed):
        return ExitCode.SOME_FAILED
    return ExitCode.WRONG_USAGE if type(error) in (ValueError, InstantAhead) else ExitCode.NOTHING_DONE


def _expected_errors() -> tuple[type[Exception], ...]:
    """Return the error classes that end a command with a message.

    They are imported here to make ``--help`` start faster.
    """
    from holderlake import errors
    from holderlake.service.billing.tables import KeysError

    error_classes = (errors.DatabaseError, errors.EngineError, errors.LakeError, errors.ProviderError, errors.RunFailed)
    return (*error_classes, errors.SettingsError, errors.WarehouseError, KeysError, OSError, ValueError)


if __name__ == "__main__":
    main()
