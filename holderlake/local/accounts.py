"""Open the database of API keys from the settings, and parse prefixes of keys."""

from __future__ import annotations

from holderlake.service.billing.keys import KeyStore
from holderlake.settings import Settings


def open_keys(settings: Settings) -> KeyStore:
    """Open the database of API keys and their charges. By default it is a SQLite file in the home folder.

    Raises ``KeysError``, and ``ValueError`` for an invalid URL of the database.
    """
    database, secret = settings.service.database, settings.service.secret
    return KeyStore(
        settings.service_accounts if database is None else database.get_secret_value(),
        None if secret is None else secret.get_secret_value().encode(),
    )


def prefix_of(text: str) -> str:
    """Return the prefix of an API key, given as ``PREFIX``, ``hl_PREFIX`` or the complete key."""
    return text.strip().removeprefix("hl_").split("_")[0]
