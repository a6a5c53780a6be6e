"""Notices about a balance list that can be read but is probably not what the user means."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import pyarrow as pa

from holderlake.contract.chains import ZERO_ADDRESS, family_of
from holderlake.contract.chains.addresses import from_base58
from holderlake.engine.sources.rows.raw import RawTable

_ACCOUNT_NAMES: Final = re.compile(r"(.*token)?[ _]?account([ _]?address)?|ata|pubkey", re.IGNORECASE)
_OF_LARGEST_ACCOUNTS: Final = re.compile(r"ui[ _]?amount([ _]?string)?", re.IGNORECASE)
_LARGEST_ACCOUNTS: Final = 20
_MIN_BALANCES: Final = 3
_SAMPLE: Final = 100
_FRACTION: Final = re.compile(r"[0-9][0-9, ']*\.[0-9]+")
_FLOAT_DIGITS: Final = 15
_MIN_FRACTIONS: Final = 10
_PRIME: Final = 2**255 - 19
_CURVE: Final = -121665 * pow(121666, -1, _PRIME) % _PRIME


def notices(raw: RawTable, address_column: str, balance_column: str | None, balances: pa.Table) -> Iterator[str]:
    """Yield a sentence for each doubt about a list. ``raw`` has all columns of the file.

    ``address_column`` and ``balance_column`` are the file's columns with holders and balances; the latter is None if
    each row is an item. ``balances`` is the list in the schema ``opening_balances.OPENING_BALANCES``.
    """
    chains = balances["chain"].unique().to_pylist()
    if all(family_of(chain) == "solana" for chain in chains) and balances.num_rows:
        yield from _token_accounts(raw, address_column, balances["address"].to_pylist())
    if balance_column is not None:
        yield from _wrong_column(raw, balance_column, balances["balance"].to_pylist())
        yield from _rounded(raw, balance_column, balances["balance"].to_pylist())


def _token_accounts(raw: RawTable, column: str, holders: Sequence[str]) -> Iterator[str]:
    by_name = any(_OF_LARGEST_ACCOUNTS.fullmatch(name) for name in raw.columns) or _ACCOUNT_NAMES.fullmatch(column)
    if "owner" in column.lower() or not (by_name or _are_derived(holders)):
        return
    top = (
        f" A node's getTokenLargestAccounts names at most {_LARGEST_ACCOUNTS} accounts, so the list is not complete."
        if len(holders) <= _LARGEST_ACCOUNTS and any(_OF_LARGEST_ACCOUNTS.fullmatch(name) for name in raw.columns)
        else ""
    )
    yield (
        f"{raw.path.name}: the addresses in {column} are probably token accounts, not their owners; import a list "
        f"with a column owner, or name the column of the owners with --map address=COLUMN.{top}"
    )


def _wrong_column(raw: RawTable, column: str, balances: Sequence[str]) -> Iterator[str]:
    count = len(balances)
    if count < _MIN_BALANCES:
        return
    other_columns = ", ".join(name for name in raw.columns if name != column and _has_numbers(raw, name))
    doubt = ""
    if len(set(balances)) == 1:
        doubt = f"all {count:,} balances are the same number, {balances[0]}"
    elif _is_rank([int(balance) for balance in balances]):
        doubt = f"the balances are {count:,} consecutive numbers, as ranks are"
    if doubt:
        remedy = (
            f"; numbers are also in {other_columns}: --map balance=COLUMN chooses a column" if other_columns else ""
        )
        yield f"{raw.path.name}: {doubt}; check that column {column} has the balances{remedy}"


def _rounded(raw: RawTable, column: str, balances: Sequence[str]) -> Iterator[str]:
    """Yield a sentence if the file has amounts in token units that its source rounded.

    Etherscan exports the 15 digits of a floating-point number, and pages show a fixed number of decimals.
    """
    texts = [str(text) for text in raw.table.column(column).to_pylist() if _FRACTION.fullmatch(str(text))]
    digits = [len(re.sub(r"\D", "", text).lstrip("0")) for text in texts]
    decimals = {len(text.rpartition(".")[2]) for text in texts}
    precision = ""
    if digits.count(_FLOAT_DIGITS) >= _MIN_BALANCES and max(digits) == _FLOAT_DIGITS:
        is_exact = all(len(balance) <= _FLOAT_DIGITS for balance in balances)
        precision = "" if is_exact else f"{_FLOAT_DIGITS} digits"
    elif len(texts) >= _MIN_FRACTIONS and len(decimals) == 1 and all(balance.endswith("0") for balance in balances):
        precision = f"{min(decimals)} decimals"
    if precision:
        yield (
            f"{raw.path.name}: the balances in column {column} are rounded to {precision}, so they are not exact; "
            "export raw balances to have exact ones"
        )


def _is_rank(numbers: Sequence[int]) -> bool:
    return {next_number - number for number, next_number in pairwise(numbers)} in ({1}, {-1})


def _has_numbers(raw: RawTable, name: str) -> bool:
    first_value = next((value for value in raw.table.column(name).to_pylist() if value not in (None, "")), "")
    return bool(re.fullmatch(r"-?[0-9][0-9.,eE+' _-]*", str(first_value)))


def _are_derived(addresses: Sequence[str]) -> bool:
    """Return whether nearly all addresses are derived ones, as associated token accounts are.

    No key has a derived address, because it is not a point of the curve ed25519. Addresses of wallets are points of it.
    """
    candidates = sorted({address for address in addresses if address != ZERO_ADDRESS})
    sample = random.Random(0).sample(candidates, min(_SAMPLE, len(candidates)))  # noqa: S311 - not a secret
    derived = sum(not _is_on_curve(from_base58(address) or b"") for address in sample)
    return len(sample) > _MIN_BALANCES and derived >= 0.9 * len(sample)


def _is_on_curve(key: bytes) -> bool:
    """Return whether 32 bytes are a point of ed25519: whether an x with -x² + y² = 1 + d x² y² exists."""
    y = int.from_bytes(key, "little") & (2**255 - 1)
    square = (y * y - 1) * pow(_CURVE * y * y + 1, -1, _PRIME) % _PRIME
    return square == 0 or pow(square, (_PRIME - 1) // 2, _PRIME) == 1
