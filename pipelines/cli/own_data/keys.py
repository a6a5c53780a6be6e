"""``holderlake keys`` and ``holderlake usage``: who may ask the service, and what they were charged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holderlake import console
from holderlake.contract.prices import parse_credits
from holderlake.contract.times import parse_when
from holderlake.units import parse_duration
from pipelines.cli import shared
from pipelines.cli.shared import Json

if TYPE_CHECKING:
    from holderlake.service.billing.keys import KeyStore
    from holderlake.settings import Settings

app = typer.Typer(help="API keys of the service.", no_args_is_help=True)

Prefix = Annotated[str, typer.Argument(help="The key's prefix, as 'keys list' shows it.")]


@contextmanager
def _key_store(settings: Settings) -> Iterator[KeyStore]:
    """The service's keys; who names one that is not there is told where they are listed."""
    from holderlake.local.accounts import open_keys
    from holderlake.service.database.errors import UnknownKey

    with open_keys(settings) as keys:
        try:
            yield keys
        except UnknownKey as error:
            raise UnknownKey(f"{error}; 'holderlake keys list' shows them") from error


@app.command("create")
def keys_create(
    name: Annotated[str, typer.Argument(help="Whose key it is.")],
    credits: Annotated[str, typer.Option(help="Monthly allowance in credits.")] = "100000",
    custom: Annotated[bool, typer.Option(help="A custom plan, which may ask for address metadata.")] = True,
    renewal_day: Annotated[
        int, typer.Option(min=1, max=28, help="Day of the month on which the allowance renews.")
    ] = 1,
    json: Json = False,
) -> None:
    """Makes a key of a new account and shows it once; only a hash of it is kept."""
    with _key_store(shared.settings()) as keys:
        secret = keys.create(name, parse_credits(credits), custom, renewal_day)
    if json:
        console.as_json({"name": name, "key": secret})
    else:
        console.err.print("The key, shown this once:")
        console.out.print(secret)


@app.command("list")
def keys_list(json: Json = False) -> None:
    """All keys, with what their accounts spent this month."""
    from pipelines.cli.ingest.credits import keys_report

    with _key_store(shared.settings()) as keys:
        keys_report(keys, json)


@app.command("revoke")
def keys_revoke(prefix: Prefix) -> None:
    """Ends a key at once."""
    from holderlake.local.accounts import prefix_of
    from holderlake.service.database.errors import UnknownKey

    with _key_store(shared.settings()) as keys:
        if not keys.revoke(prefix_of(prefix)):
            raise UnknownKey(f"there is no key in force with prefix {prefix}; 'holderlake keys list' shows them")
    console.out.print(f"Revoked {prefix}.")


@app.command("rotate")
def keys_rotate(
    prefix: Prefix,
    grace: Annotated[str, typer.Option(help="How long the old key stays good: 30m, 24h, 7d.")] = "0",
    json: Json = False,
) -> None:
    """Makes another key of the same account and shows it once; the old one ends after the grace."""
    from holderlake.local.accounts import prefix_of

    span = parse_duration(grace)
    with _key_store(shared.settings()) as keys:
        secret = keys.rotate(prefix_of(prefix), span)
        old = next(key for key in keys.keys() if key.prefix == prefix_of(prefix))  # noqa: SIM118 - ours, no mapping's
    if json:
        console.as_json({"name": old.name, "key": secret, "old_key_ends_at": old.ends_at})
    else:
        console.err.print(f"The old key ends at {old.ends_at:%Y-%m-%d %H:%M} UTC. The new one, shown this once:")
        console.out.print(secret)


@app.command("change")
def keys_change(
    prefix: Prefix,
    credits: Annotated[str | None, typer.Option(help="Monthly allowance in credits.")] = None,
    custom: Annotated[bool | None, typer.Option(help="A custom plan, which may ask for address metadata.")] = None,
    renewal_day: Annotated[
        int | None, typer.Option(min=1, max=28, help="Day of the month on which the allowance renews.")
    ] = None,
    json: Json = False,
) -> None:
    """Changes the plan of a key's account, for all of its keys; what is not given stays."""
    from holderlake.local.accounts import prefix_of
    from pipelines.cli.ingest.credits import plan_of_key_report

    with _key_store(shared.settings()) as keys:
        allowance = None if credits is None else parse_credits(credits)
        plan_of_key_report(keys.change(prefix_of(prefix), allowance, custom, renewal_day), json)


def usage(
    key: Annotated[str | None, typer.Option(help="Only this key, by its prefix.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="First day, UTC.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Last day, included, UTC.")] = None,
    by: Annotated[Literal["key", "endpoint", "day"], typer.Option(help="What a line is.")] = "key",
    json: Json = False,
) -> None:
    """What the service charged its keys: requests and credits."""
    from holderlake.local.accounts import prefix_of
    from pipelines.cli.ingest.credits import usage_report

    since, until = (None if text is None else parse_when(text).date() for text in (start, end))
    with _key_store(shared.settings()) as keys:
        usage_report(keys.usage(None if key is None else prefix_of(key), since, until), by, json)
