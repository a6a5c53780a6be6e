"""The service's accounts as the commands and ``serve`` open them, and what people write about them."""

from __future__ import annotations

from holderlake.service.billing.keys import KeyStore
from holderlake.settings import Settings


def open_keys(settings: Settings) -> KeyStore:
    """The keys and charges in the settings' database, by default a SQLite file under home.

    Raises ``service.failures.KeysError``, and ``ValueError`` on a URL that is none.
    """
    database, secret = settings.service.database, settings.service.secret
    return KeyStore(
        settings.service_accounts if database is None else database.get_secret_value(),
        None if secret is None else secret.get_secret_value().encode(),
    )


def prefix_of(text: str) -> str:
    """The prefix in what a person names a key by: the prefix itself, ``hl_`` and the prefix, or a whole key."""
    return text.strip().removeprefix("hl_").split("_")[0]
