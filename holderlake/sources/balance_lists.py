"""Read balance lists: files with the balances of a token as of a block or a time.

The balances are stored as opening balances (``engine.catalog.opening_balances``).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.contract.chains import ZERO_ADDRESS, family_of
from holderlake.core.contract.chains.addresses import from_base58, is_any_address, parse_address
from holderlake.core.units import counted
from holderlake.engine.catalog.opening_balances import NO_BLOCK, OPENING_BALANCES
from holderlake.engine.errors import BadSource
from holderlake.engine.records import Key
from holderlake.sources.files import columns
from holderlake.sources.files.layouts import DECIMALS
from holderlake.sources.files.mapping import ColumnMap, check_columns, mapped, parse_map, refuse_several_tokens
from holderlake.sources.files.values import without_separators
from holderlake.sources.formats import FORMATS_TABLE, STANDARDS
from holderlake.sources.notices import are_rounded
from holderlake.sources.raw_rows import RawTable, listed, nested_column, read_raw, rejected_rows

_NAMES: Final[Mapping[str, Sequence[str]]] = FORMATS_TABLE["names"]["balances"]
_OURS: Final = (*_NAMES, DECIMALS)
"""Our columns. A list with raw balances may state decimals, too, so that only the user names the column of
``decimals``."""
_HOLDERS: Final[Mapping[str, Sequence[str]]] = FORMATS_TABLE["names"]["holders"]

_OUR_STANDARDS: Final = ("erc20", "erc721", "erc1155", "native")
_MOST_NAMED: Final = 8
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


@dataclass(frozen=True)
class BalanceOptions:
    """Values that a balance list lacks, from the command line.

    ``chain``, ``token``, ``standard``, ``block`` and ``at`` (unix seconds) apply to all rows. ``column_map`` assigns
    the file's columns, or constants, to our columns. ``block_times`` has the unix second of each block, by number.
    ``rows_at`` is the dotted path to the rows in a JSON file. ``thousands`` is the separator of thousands in balances.
    """

    chain: str | None = None
    token: str | None = None
    standard: str | None = None
    block: int | None = None
    at: int | None = None
    column_map: ColumnMap = field(default_factory=ColumnMap)
    block_times: Mapping[int, int] = field(default_factory=dict)
    rows_at: str | None = None
    thousands: str | None = None


@dataclass(frozen=True)
class BalanceList:
    """The balances of a file in the schema ``opening_balances.OPENING_BALANCES``, and notices about them.

    ``decimals`` are those that were stated, by chain and token.
    """

    balances: pa.Table
    notices: list[str]
    decimals: Mapping[Key, int]


def read_balances(path: Path, options: BalanceOptions) -> BalanceList:
    """Return the balances of a file, in the file's order.

    If the file has no column ``balance``, each row is one item with its ``token_id``, and the balance is 1. If it has
    token accounts and their owners, the balances of an owner's accounts are added. Raises ``BadSource`` if any value is
    invalid.
    """
    file_rows = read_raw(path, options.rows_at)
    theirs = _columns(file_rows, options)
    raw = _renamed(file_rows, theirs, options)
    rows = raw.table.num_rows
    chains = columns.chains(raw, options.chain)
    blocks, times = _instants(raw, options)
    token_ids = columns.amounts(raw, "token_id", optional=True) if "token_id" in raw.columns else pa.nulls(rows)
    arrays = {
        "chain": chains,
        "token_address": columns.addresses(raw, "token_address", chains, token=True),
        "address": columns.addresses(raw, "address", chains),
        "balance": _balances(raw, token_ids, options.thousands),
        "block_number": blocks,
        "block_time": times,
        "token_id": token_ids,
        "token_standard": _standards(raw, options.standard),
    }
    _refuse_bad_rows(raw)
    balances = pa.table(
        [pa.chunked_array([arrays[name]]).cast(OPENING_BALANCES.field(name).type) for name in OPENING_BALANCES.names],
        OPENING_BALANCES,
    )
    decimals = {}
    stated = raw.first_of(DECIMALS, "token_decimals")
    if stated:
        texts = pa.chunked_array([raw.table[stated].cast(pa.string()).combine_chunks()])
        decimals = columns.decimals_by_token(balances["chain"], balances["token_address"], texts)
    doubts = [
        *file_rows.notices,
        *notices(file_rows, theirs.get("address", "address"), theirs.get("balance"), balances),
    ]
    account = _account_column(file_rows, theirs)
    if account is not None and token_ids.null_count == rows:
        summed = _by_owner(balances, file_rows.table.column(account).to_pylist())
        if summed.num_rows < rows:
            doubts.append(
                f"{path.name}: {counted(rows, 'row')} of token accounts ({account}) of "
                f"{counted(summed.num_rows, 'owner')} ({theirs['address']}); the balances of an owner's accounts "
                "were added."
            )
        balances = summed
    return BalanceList(balances, doubts, decimals)


def balance_map(pairs: Iterable[str], constants: Iterable[str]) -> ColumnMap:
    """Return the column map from texts ``OURS=THEIRS`` (``pairs``) and ``OURS=VALUE`` (``constants``).

    Raises ``BadSource`` for other texts.
    """
    return parse_map(pairs, constants, _OURS)


def _columns(raw: RawTable, options: BalanceOptions) -> dict[str, str]:
    """Return the file's column for each of our columns that the file has."""
    named, constants = options.column_map.columns, options.column_map.constants
    check_columns(raw, options.column_map)
    theirs = dict(named)
    for ours, synonyms in _NAMES.items():
        if ours in theirs or ours in constants:
            continue
        candidates = _candidates(raw, synonyms if ours in synonyms else (ours, *synonyms))
        candidates = [name for name in candidates if name not in named.values()]
        if candidates:
            chain = options.chain
            usable = (name for name in candidates if ours != "address" or _starts_with_address(raw, name, chain))
            theirs[ours] = next(usable, candidates[0])
    return theirs


def _candidates(raw: RawTable, names: Sequence[str]) -> list[str]:
    """Return the file's columns that are named like one of ``names``, in the order of these."""
    plain = {name: _plain_name(name) for name in raw.columns}
    return [
        theirs
        for name in map(_plain_name, names)
        for theirs, plain_name in plain.items()
        if plain_name == name or ("." in plain_name and plain_name.endswith(f".{name}") and "." in name)
    ]


def _plain_name(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _starts_with_address(raw: RawTable, name: str, chain: str | None) -> bool:
    """Return whether the first value of a column is an address. A column ``owner`` may have names of persons."""
    first_value = next((value for value in raw.table.column(name).to_pylist() if value not in (None, "")), None)
    try:
        return first_value is not None and bool(parse_address(chain, first_value))
    except (ValueError, AttributeError):
        return False


def _renamed(raw: RawTable, theirs: Mapping[str, str], options: BalanceOptions) -> RawTable:
    """Return the file with our column names. Columns that are neither mapped nor recognised are left out."""
    constants = dict(options.column_map.constants)
    if options.token is not None:
        constants["token_address"] = options.token
    for ours, hint in (
        ("token_address", "--token ADDRESS or --map token_address=COLUMN"),
        ("address", "--map address=COLUMN"),
        ("balance", "--map balance=COLUMN"),
    ):
        is_item = ours == "balance" and "token_id" in {*theirs, *constants}
        if ours not in {*theirs, *constants} and not is_item:
            remedy = _remedy(raw, ours, hint, theirs, options)
            raise raw.bad(f"there is no column {ours}; {remedy}. The file has {listed(raw.columns)}")
    if "token_address" in theirs and "token_address" in constants:
        refuse_several_tokens(raw, [theirs["token_address"]])
    named_columns = {ours: name for ours, name in theirs.items() if ours not in constants}
    renamed = mapped(raw, ColumnMap(named_columns, constants))
    return renamed.over(renamed.table.select([*named_columns, *constants]))


def _remedy(raw: RawTable, ours: str, hint: str, theirs: Mapping[str, str], options: BalanceOptions) -> str:
    """Return how to name the column ``ours``, with the columns whose values look like it."""
    nested = nested_column(raw)
    if nested is not None and ours != "token_address":
        rows_at = f"{options.rows_at}.{nested}" if options.rows_at else nested
        return f"column {nested} has lists; if they have the holders or balances, add --rows {rows_at}"
    free = [name for name in raw.columns if name not in theirs.values()]
    if ours == "balance":
        names = [name for name in free if _has_numbers(raw, name)]
    else:
        names = [name for name in free if is_any_address(_first_text(raw, name))]
    kind = "numbers" if ours == "balance" else "addresses"
    return f"set it with {hint}" + (f" ({kind} are in {', '.join(names[:_MOST_NAMED])})" if names else "")


def _account_column(raw: RawTable, theirs: Mapping[str, str]) -> str | None:
    """Return the file's column with token accounts, if another column has their owners; None otherwise."""
    address = theirs.get("address")
    if address not in _candidates(raw, _HOLDERS["owners"]):
        return None
    return next((name for name in _candidates(raw, _HOLDERS["accounts"]) if name not in theirs.values()), None)


def _by_owner(balances: pa.Table, accounts: list[str | None]) -> pa.Table:
    """Return one row for each owner, with the sum of the balances of its token accounts.

    A repeated row counts once. Raises ``BadSource`` if an account has two balances.
    """
    balance_of: dict[tuple[object, ...], str] = {}
    sums: dict[tuple[object, ...], dict[str, Any]] = {}
    for account, row in zip(accounts, balances.to_pylist(), strict=True):
        owner = tuple(value for name, value in row.items() if name != "balance")
        earlier = balance_of.get((account, *owner))
        if earlier is None:
            balance_of[account, *owner] = row["balance"]
            subtotal = int(sums[owner]["balance"]) if owner in sums else 0
            sums[owner] = row | {"balance": str(subtotal + int(row["balance"]))}
        elif earlier != row["balance"]:
            raise BadSource(
                f"token account {account} has two balances, {earlier} and {row['balance']}; remove one of the rows"
            )
    return pa.Table.from_pylist(list(sums.values()), OPENING_BALANCES)


def _refuse_bad_rows(raw: RawTable) -> None:
    """Raise ``BadSource`` with the first invalid value and the number of bad rows, if there are any."""
    rejected = rejected_rows(raw)
    if rejected is not None:
        raise rejected.error("so nothing was imported")


def _balances(raw: RawTable, token_ids: pa.Array, thousands: str | None) -> pa.Array:
    if "balance" in raw.columns:
        plain = without_separators(raw, "balance", thousands) if thousands else raw
        return (
            columns.scaled_amounts(plain, "balance", DECIMALS)
            if DECIMALS in raw.columns
            else columns.amounts(plain, "balance")
        )
    if token_ids.null_count:
        raise raw.bad(
            "a row has no token_id, and the file has no balances; add the token_id, or set the column of the balances "
            "with --map balance=COLUMN",
            row=columns.first_row(pc.is_null(token_ids)),
        )
    return pa.repeat("1", len(token_ids))


def _instants(raw: RawTable, options: BalanceOptions) -> tuple[pa.Array, pa.Array]:
    """Return two columns for the rows: the block (``NO_BLOCK`` if unknown), and the unix second."""
    rows = raw.table.num_rows
    blocks = columns.counts(raw, "block_number") if "block_number" in raw.columns else pa.repeat(NO_BLOCK, rows)
    if options.block is not None:
        blocks = pa.repeat(options.block, rows)
    if options.at is not None:
        return blocks, pa.repeat(options.at, rows)
    if "block_time" in raw.columns:
        return blocks, columns.times(raw, "block_time")
    _refuse_bad_rows(raw)
    seconds = [options.block_times.get(block) for block in blocks.to_pylist()]
    if None in seconds:
        block = blocks[seconds.index(None)].as_py()
        subject = "the balances" if block == NO_BLOCK else f"block {block}"
        raise raw.bad(
            f"the time of {subject} is not known; set it with --at, --map block_time=COLUMN, or --blocks FILE"
        )
    return blocks, pa.array(seconds, pa.int64())


def _standards(raw: RawTable, constant: str | None) -> pa.Array:
    if constant is not None and constant not in _OUR_STANDARDS:
        raise BadSource(f"{constant!r} is not a token standard; write one of {', '.join(_OUR_STANDARDS)}")
    if constant is not None or "token_standard" not in raw.columns:
        return pa.repeat(pa.scalar(constant, pa.string()), raw.table.num_rows)
    return columns.choices(raw, "token_standard", STANDARDS)


def notices(raw: RawTable, address_column: str, balance_column: str | None, balances: pa.Table) -> Iterator[str]:
    """Yield a sentence for each doubt about a list. ``raw`` has all columns of the file.

    ``address_column`` and ``balance_column`` are the file's columns with holders and balances; the latter is None if
    each row is an item. ``balances`` is the list in the schema ``opening_balances.OPENING_BALANCES``.
    """
    chains = balances["chain"].unique().to_pylist()
    if all(family_of(chain) == "solana" for chain in chains) and balances.num_rows:
        yield from _token_accounts(raw, address_column, balances["address"].to_pylist())
    holders, are_items = balances["address"].unique(), balances["token_id"].null_count < balances.num_rows
    if balances.num_rows > len(holders) == 1 and not are_items:
        yield (
            f"{raw.path.name}: all {balances.num_rows:,} rows have the holder {holders[0]}; check that column "
            f"{address_column} has the holders, or name it with --map address=COLUMN"
        )
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
    """Yield a sentence if the file has amounts that its source rounded.

    Etherscan exports the 15 digits of a floating-point number, pages show a fixed number of decimals, and programs
    print raw amounts that went through floating-point numbers.
    """
    texts = [str(text) for text in raw.table.column(column).to_pylist() if _FRACTION.fullmatch(str(text))]
    digits = [len(re.sub(r"\D", "", text).lstrip("0")) for text in texts]
    decimals = {len(text.rpartition(".")[2]) for text in texts}
    precision = "the digits of floating-point numbers" if are_rounded(balances) and not texts else ""
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
    return bool(re.fullmatch(r"-?[0-9][0-9.,eE+' _-]*|0x[0-9a-fA-F]{1,38}", _first_text(raw, name)))


def _first_text(raw: RawTable, name: str) -> str:
    return str(next((value for value in raw.table.column(name).to_pylist() if value not in (None, "")), ""))


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
