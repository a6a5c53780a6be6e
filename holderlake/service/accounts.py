"""Open the database of API keys from the settings, and parse prefixes of keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import stamina

from holderlake.core.http import log_retries
from holderlake.core.settings import Settings
from holderlake.core.storage.postgresql import Unreachable
from holderlake.service.billing.keys import KeyStore, postgresql_place
from holderlake.service.settings import ServiceSettings, accounts_file

SETTING: Final = "service.database, HOLDERLAKE_SERVICE__DATABASE"
_WAIT_SECONDS: Final = 60

log_retries()


def open_keys(settings: Settings) -> KeyStore:
    """Open the database of API keys and their charges. By default it is a SQLite file in the home folder.

    Raises ``KeysError`` and ``DatabaseError``.
    """
    database, secret = settings.section(ServiceSettings).database, settings.section(ServiceSettings).secret
    file = accounts_file(settings)
    return KeyStore(
        file if database is None else postgresql_place(database, file),
        None if secret is None else secret.get_secret_value().encode(),
    )


def wait_for_keys(settings: Settings, say: Callable[[str], None]) -> KeyStore:
    """Open the database of API keys, and wait up to a minute for a PostgreSQL that cannot be reached yet.

    ``say`` is called with a message when the wait begins. Raises ``KeysError`` and ``DatabaseError``.
    """
    for attempt in stamina.retry_context(
        on=Unreachable, attempts=None, timeout=_WAIT_SECONDS, wait_initial=1, wait_max=5, wait_jitter=0
    ):
        with attempt:
            if attempt.num == 2:
                say(f"PostgreSQL cannot be reached ({SETTING}); trying again for {_WAIT_SECONDS} s")
            return open_keys(settings)
    raise AssertionError("the wait for PostgreSQL ended without a result; report this as a bug")


def prefix_of(text: str) -> str:
    """Return the prefix of an API key, given as ``PREFIX``, ``hl_PREFIX`` or the complete key."""
    return text.strip().removeprefix("hl_").split("_")[0]
