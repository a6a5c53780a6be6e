"""Checks of names that become parts of paths: chains, table families, instants, digests.

A name may come from a provider, a bucket, a damaged file or a command line. Each function returns a name
that is safe in a path, and raises ``BadName`` for others.
"""

from __future__ import annotations

import re
from typing import Final

from holderlake.core.contract.chains import CHAIN_ID_FORM, is_chain_id
from holderlake.core.contract.times import parse_partition, partition_text

_FAMILY: Final = re.compile(r"[a-z_]{1,64}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_COMMIT: Final = re.compile(r"[0-9a-f]{32}")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.\-]+")


class BadName(ValueError):
    """The name is unsafe in a path. The message says which names are allowed."""


def chain_name(text: str) -> str:
    """Return the chain id if it is safe in a path, else raise ``BadName``."""
    if not is_chain_id(text):
        raise BadName(f"{text!r} is not a chain id: use {CHAIN_ID_FORM}")
    return text


def family_name(text: str) -> str:
    """Return the name of a table family if it is safe in a path, else raise ``BadName``."""
    return _matching(_FAMILY, text, "family of tables", "at most 64 lower-case letters and underscores")


def timestamp_name(text: str) -> str:
    """Return the text if it is a partition's timestamp such as 20261120T000000Z, else raise ``BadName``."""
    try:
        is_timestamp = partition_text(parse_partition(text)) == text
    except ValueError:
        is_timestamp = False
    if not is_timestamp:
        raise BadName(f"{text!r} is not a partition's timestamp, such as 20261120T000000Z")
    return text


def commit_name(text: str) -> str:
    """Return the text if it is a commit's id (32 hexadecimal digits), else raise ``BadName``."""
    return _matching(_COMMIT, text, "commit id", "32 hexadecimal digits")


def digest_name(text: str) -> str:
    """Return the text if it is a SHA-256 digest (64 hexadecimal digits), else raise ``BadName``."""
    return _matching(_DIGEST, text, "SHA-256 digest", "64 hexadecimal digits")


def relative_name(text: str) -> str:
    """Return the text if it is the name of a file below a folder, with ``/`` between folders, else raise ``BadName``.

    No part of it may be empty, ``.`` or ``..``, so it never leads out of the folder.
    """
    if {"", ".", ".."} & set(text.split("/")) or not text.isprintable():
        raise BadName(f"{text!r} is not the name of a file below a folder: use for example lake/provider.json")
    return text


def file_name_part(text: str) -> str:
    """Return the text with '-' for each run of characters that are unsafe in a file name."""
    return _UNSAFE.sub("-", text)


def _matching(pattern: re.Pattern[str], text: str, kind: str, allowed: str) -> str:
    if not pattern.fullmatch(text):
        raise BadName(f"{text!r} is not a {kind}: use {allowed}")
    return text
