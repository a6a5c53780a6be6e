"""``holderlake keys``: API keys of the service, and the charges for each key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holderlake.cli import shared
from holderlake.cli.shared import GROUP_BY, From, Json, To
from holderlake.core.contract.prices import credits_text, parse_credits
from holderlake.core.contract.times import parse_when, utc_now
from holderlake.core.units import counted, parse_duration
from holderlake.presentation import console

if TYPE_CHECKING:
    from holderlake.core.settings import Settings
    from holderlake.service.billing.keys import Key, KeyStore, Usage

app = typer.Typer(help="Manage the API keys of the service.", no_args_is_help=True)

_ALLOWANCE = typer.Option("--credits", help="Monthly allowance in credits.")
_CUSTOM = typer.Option("--custom/--no-custom", help="Custom plan, which includes address metadata.")
_RENEWAL_DAY = typer.Option("--renewal-day", min=1, max=28, help="Day of the month on which the allowance renews.")
Prefix = Annotated[str, typer.Argument(help="The key's prefix, as 'keys list' shows it.")]


def _key_store(settings: Settings) -> KeyStore:
    """Open the service's database of keys."""
    from holderlake.service.accounts import open_keys

    return open_keys(settings)


@app.command("create")
def keys_create(
    name: Annotated[str, typer.Argument(help="Name of the key's owner.")],
    credits: Annotated[str, _ALLOWANCE] = "100000",
    custom: Annotated[bool, _CUSTOM] = True,
    renewal_day: Annotated[int, _RENEWAL_DAY] = 1,
    json: Json = False,
) -> None:
    """Create an account with a key, and show the key once. Only its hash is stored.

    Example: holderlake keys create reports --credits 50000
    """
    with _key_store(shared.settings()) as keys:
        secret = keys.create(name, parse_credits(credits), custom, renewal_day)
    if json:
        console.as_json({"name": name, "key": secret})
    else:
        console.err.print("The key, which is not shown again:")
        console.out.print(secret)


@app.command("list")
def keys_list(json: Json = False) -> None:
    """List all keys, with the credits that their accounts spent this month.

    Example: holderlake keys list
    """
    with _key_store(shared.settings()) as keys:
        _report_keys(keys, json)


@app.command("revoke")
def keys_revoke(prefix: Prefix, json: Json = False) -> None:
    """End a key at once.

    Example: holderlake keys revoke 1a2b3c4d
    """
    from holderlake.service.accounts import prefix_of
    from holderlake.service.billing.tables import UnknownKey

    with _key_store(shared.settings()) as keys:
        if not keys.revoke(prefix_of(prefix)):
            raise UnknownKey(f"no active key has the prefix {prefix}; 'holderlake keys list' shows all keys")
    if json:
        console.as_json({"revoked": prefix_of(prefix)})
    else:
        console.out.print(f"Revoked {prefix}.")


@app.command("rotate")
def keys_rotate(
    prefix: Prefix,
    grace: Annotated[str, typer.Option(help="How long the old key remains valid: 30m, 24h, 7d.")] = "0",
    json: Json = False,
) -> None:
    """Create a new key for the same account, and show it once. The old key ends after the grace period.

    Example: holderlake keys rotate 1a2b3c4d --grace 24h
    """
    from holderlake.service.accounts import prefix_of

    span = parse_duration(grace)
    with _key_store(shared.settings()) as keys:
        secret = keys.rotate(prefix_of(prefix), span)
        old_key = next(key for key in keys.keys() if key.prefix == prefix_of(prefix))  # noqa: SIM118 - not a mapping's method
    if json:
        console.as_json({"name": old_key.name, "key": secret, "old_key_ends_at": old_key.ends_at})
    else:
        console.err.print(
            f"The old key ends at {old_key.ends_at:%Y-%m-%d %H:%M} UTC. The new one, which is not shown again:"
        )
        console.out.print(secret)


@app.command("change")
def keys_change(
    prefix: Prefix,
    credits: Annotated[str | None, _ALLOWANCE] = None,
    custom: Annotated[bool | None, _CUSTOM] = None,
    renewal_day: Annotated[int | None, _RENEWAL_DAY] = None,
    json: Json = False,
) -> None:
    """Change the plan of a key's account, for all its keys. Options that you omit stay unchanged.

    Example: holderlake keys change 1a2b3c4d --credits 200000
    """
    from holderlake.service.accounts import prefix_of

    with _key_store(shared.settings()) as keys:
        allowance = None if credits is None else parse_credits(credits)
        _report_plan(keys.change(prefix_of(prefix), allowance, custom, renewal_day), json)


@app.command("usage")
def show_usage(
    key: Annotated[str | None, typer.Option(help="Only the key with this prefix.")] = None,
    start: From = None,
    end: To = None,
    by: Annotated[Literal["key", "endpoint", "day"], GROUP_BY] = "key",
    json: Json = False,
) -> None:
    """Show the requests and credits that the service charged to its keys.

    Example: holderlake keys usage --from 2026-05-01 --by day
    """
    from holderlake.service.accounts import prefix_of

    since, until = (None if text is None else parse_when(text).date() for text in (start, end))
    with _key_store(shared.settings()) as keys:
        _report_usage(keys.usage(None if key is None else prefix_of(key), since, until), by, json)


def _report_keys(keys: KeyStore, as_json: bool) -> None:
    """Print all keys with their plans and this month's credits."""
    now = utc_now()
    lines = []
    for key in keys.keys():  # noqa: SIM118 - not a mapping's method
        month = keys.balance(key.id)
        plan = "custom" if key.custom_plan else "standard"
        spent, allowance = credits_text(month.spent), credits_text(month.allowance)
        lines.append((key.prefix, key.name, plan, _state(key, now), spent, allowance, month.renews_on.isoformat()))
    columns = ("prefix", "name", "plan", "state", "spent", "allowance", "renews on")
    if as_json:
        console.as_json([dict(zip(columns, line, strict=True)) for line in lines])
    else:
        console.rows("Keys", columns, lines)


def _state(key: Key, now: datetime) -> str:
    if key.ends_at is None:
        return "in force"
    return f"ends {key.ends_at:%Y-%m-%d %H:%M}" if key.ends_at > now else "ended"


def _report_plan(key: Key, as_json: bool) -> None:
    """Print the plan of a key's account."""
    plan = {
        "name": key.name,
        "plan": "custom" if key.custom_plan else "standard",
        "allowance": credits_text(key.allowance),
        "renewal day": key.renewal_day,
    }
    if as_json:
        console.as_json(plan)
    else:
        console.rows("", tuple(plan), [tuple(plan.values())])


def _report_usage(charged: Sequence[Usage], by: Literal["key", "endpoint", "day"], as_json: bool) -> None:
    """Print requests and credits by key, endpoint or day, and their totals."""
    requests: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    for row in charged:
        group = {"key": row.prefix, "endpoint": row.endpoint, "day": row.day.isoformat()}[by]
        requests[group] += row.requests
        spent[group] += row.credits
    names = {row.prefix: {"name": row.name} for row in charged} if by == "key" else {}
    lines = [{by: group, **names.get(group, {}), "requests": requests[group]} for group in sorted(requests)]
    if as_json:
        totals = {"requests": requests.total(), "credits_hundredths": spent.total()}
        priced = [{**line, "credits_hundredths": spent[str(line[by])]} for line in lines]
        console.as_json({"totals": totals, "by": by, "lines": priced})
        return
    columns = (by, *(("name",) if by == "key" else ()), "requests", "credits")
    console.rows(f"Usage by {by}", columns, ((*line.values(), credits_text(spent[str(line[by])])) for line in lines))
    console.out.print(f"Total: {counted(requests.total(), 'request')}, {credits_text(spent.total())} credits.")
