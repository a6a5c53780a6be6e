"""Types of the settings' fields: they check and normalise text that people write. The sections are in ``sections``."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, SecretStr

from holderlake.core.contract.chains import chain_typed
from holderlake.core.contract.chains.addresses import typed_token
from holderlake.core.contract.models import Address, ChainId
from holderlake.core.contract.prices import parse_credits
from holderlake.core.units import parse_duration, parse_memory_limit

Value = TypeVar("Value")


class SettingsError(Exception):
    """Invalid settings. The message names the key or the file, and the remedy."""


class Section(BaseModel):
    """Base of all sections. An unknown key is an error. ``TABLE`` is the name of a section that a room registers."""

    TABLE: ClassVar[str]

    model_config = ConfigDict(extra="forbid", frozen=True)


def distinct(texts: list[str]) -> list[str]:
    """Return the texts without duplicates, in order of first appearance."""
    return list(dict.fromkeys(texts))


def secret_matching(pattern: str, expected: str) -> Callable[[SecretStr], SecretStr]:
    """Return a validator of secrets, which must match the regular expression ``pattern``.

    The text of its error is ``expected``, which never contains the secret.
    """

    def check(secret: SecretStr) -> SecretStr:
        if not re.fullmatch(pattern, secret.get_secret_value()):
            raise ValueError(expected)
        return secret

    return check


def read_secret(file: Path, content: str, parse: Callable[[str], Value]) -> Value:
    """Read a file of secrets and return its parsed content.

    ``content`` names the content in errors. Raises ``SettingsError``, which never contains the content.
    """
    try:
        return parse(file.read_text("utf-8").strip())
    except (OSError, ValueError):
        raise SettingsError(
            f"the file {file} must contain {content} and nothing else: create or correct it, or set the value in the "
            "environment"
        ) from None


def _credits(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise ValueError("an amount of credits is expected, such as 25 or '25.01'")
    return parse_credits(str(value))  # by its text, so that the amount is exact


def _duration(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


def _memory_limit(text: str) -> str:
    parse_memory_limit(text)
    return text.strip().upper().replace(" ", "")


def _typed_tokens(tokens: dict[str, list[str]]) -> dict[str, list[str]]:
    for chain in tokens:
        chain_typed(chain)
    return {chain: distinct([typed_token(chain, token) for token in addresses]) for chain, addresses in tokens.items()}


def _http_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = None
    if host and parts.username is not None:
        raise ValueError("the address has a user name or a password: leave them out; the API key has its own variable")
    if not host or parts.scheme not in ("http", "https") or url.split() != [url]:
        raise ValueError("an address with http:// or https:// is expected, such as https://api.example.com")
    return url


HttpAddress = Annotated[str, AfterValidator(_http_address)]
"""The address of an HTTP server, without user name and password."""
Credits = Annotated[int, BeforeValidator(_credits)]
"""An amount of credits as people write it, kept as hundredths of a credit."""
Duration = Annotated[timedelta, BeforeValidator(_duration)]
"""A duration such as 30s, 12h or 7d."""
Texts = Annotated[list[str], AfterValidator(distinct)]
"""Texts, each once: a chain that is given twice is fetched and paid once."""
Addresses = Annotated[list[Address], AfterValidator(distinct)]
TypedTokens = Annotated[dict[ChainId, list[str]], AfterValidator(_typed_tokens)]
"""Tokens by chain, each in its chain's normal spelling."""
PathSetting = Annotated[Path, AfterValidator(Path.expanduser)]
MemoryLimit = Annotated[str, AfterValidator(_memory_limit)]
"""An amount of memory such as 512MB or 2GB."""
DatabaseUrl = Annotated[
    SecretStr,
    AfterValidator(
        secret_matching(
            r"postgres(ql)?(\+psycopg)?://\S+",
            "the URL of a PostgreSQL database is expected, such as postgresql://user:password@host/name",
        )
    ),
]
"""The URL of a PostgreSQL database, which may hold a password."""
SigningSecret = Annotated[
    SecretStr,
    AfterValidator(
        secret_matching(r"(?s).{16,}", "a secret needs 16 characters or more; make one with 'openssl rand -hex 32'")
    ),
]
"""A secret of at least 16 characters."""
