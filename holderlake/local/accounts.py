"""The service's accounts as the commands and ``serve`` open them, and what people write about them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from holderlake.service.billing.keys import KeyStore
from holderlake.settings import Settings

_UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def open_keys(settings: Settings) -> KeyStore:
    """The keys and charges in the settings' database, by default a SQLite file under home.

    Raises ``service.failures.KeysError``, and ``ValueError`` on a URL that is none.
    """
    database, secret = settings.service.database, settings.service.secret
    return KeyStore(
        settings.service_accounts if database is None else database.get_secret_value(),
        None if secret is None else secret.get_secret_value().encode(),
    )


def parse_grace(text: str) -> timedelta:
    """A length of time as people write it: ``30m``, ``24h``, ``7d``, ``0``. Raises ``ValueError`` on any other text."""
    found = re.fullmatch(r"(\d{1,4})([mhd])", text.strip())
    if found is None and text.strip() != "0":
        raise ValueError(f"{text!r} is no length of time; write a number and m, h or d: 30m, 24h, 7d")
    return int(found[1]) * _UNITS[found[2]] if found else timedelta(0)


def prefix_of(text: str) -> str:
    """The prefix in what a person names a key by: the prefix itself, ``hl_`` and the prefix, or a whole key."""
    return text.strip().removeprefix("hl_").split("_")[0]
