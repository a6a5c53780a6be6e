"""Read labels of addresses from files: one ``Label`` for each address, chain and source.

Six public collections and our own CSV are recognised by their content. Our CSV has the columns address and name, and
optionally chain, entity_id, is_cex, is_dex, is_contract, is_paid_label (submitted by the community), precedence,
valid_from and valid_to (dates or times in UTC, both included; a date alone is its first or its last second).
``label_kinds`` derives kinds from names and tags; ``engine.catalog.labels`` merges the labels of several sources.

The name with the highest precedence wins: the user's own labels (100), block explorers (40), eth-labels (30), the
Edinburgh collection (20), GraphSense (10).
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from holderlake.core.contract.chains import CHAIN_BY_EVM_ID, KNOWN_CHAINS, is_chain_id
from holderlake.core.contract.chains.addresses import parse_address, parse_unplaced_address
from holderlake.core.contract.times import parse_end, parse_when, to_unix
from holderlake.engine.errors import BadSource
from holderlake.engine.records import Label
from holderlake.sources.envelopes import error_in
from holderlake.sources.json_rows import TOO_DEEP, RepeatedKey, unambiguous_object
from holderlake.sources.label_kinds import Kinds, entity_of, keeps_custody, kinds_of
from holderlake.sources.problems import bad_source
from holderlake.sources.raw_rows import listed, read_raw, read_text

HAND: Final = 100
EXPLORER: Final = 40
ETH_LABELS: Final = 30
EDINBURGH: Final = 20
GRAPHSENSE: Final = 10

_EXPLORERS: Final = [
    ("snowscan", "avalanche"),
    *sorted(
        ((chain.explorer.split(".")[0], chain.id) for chain in KNOWN_CHAINS.values() if chain.explorer),
        key=lambda explorer: explorer[0] == "etherscan",  # the last one: other hosts end with this name too
    ),
]
"""Pairs of a block explorer's name, which is a part of the names of its files, and its chain."""
_NETWORKS: Final = {
    "ETH": "eth",
    "BEP20": "bsc",
    "MATIC": "polygon",
    "AVAX": "avalanche",
    "TRX": "tron",
    "SOL": "solana",
}
_UNKNOWN: Final = ""
"""The chain of a row whose chain is unknown."""
_FRACTION: Final = re.compile(r"\.\d+")
"""A fraction of a second, which the times of label files may have. Periods of labels are whole seconds."""
_KIND_COLUMNS: Final = ("is_cex", "is_dex", "is_contract", "is_paid_label")
_PERIOD_COLUMNS: Final = ("valid_from", "valid_to")
_OWN_COLUMNS: Final = ("address", "chain", "name", "entity_id", *_KIND_COLUMNS, "precedence", *_PERIOD_COLUMNS)
_YES_NO: Final = {**dict.fromkeys(("true", "1", "yes"), True), **dict.fromkeys(("false", "0", "no", ""), False)}
_PRECEDENCE_FORM: Final = re.compile(r"-?[0-9]{1,9}")
_NO_NAME: Final = re.compile(
    r"^\./|^just a moment|^service unavailable$|^etherscan error page$|invalid address|^urllib3$", re.IGNORECASE
)

_TICKER: Final = re.compile(r"\([^()]{1,12}\)$")
"""Pattern of the ticker at the end of a token contract's name in GraphSense, for example "(AT)" in "ABCC Token
(AT)"."""

_CsvRow = tuple[int, list[str]]
"""A row of a CSV: the number of its first line, and its fields."""


@dataclass(frozen=True)
class LabelFile:
    """The labels of a file.

    ``skipped`` is the number of entries that give no label, because the address is invalid, the chain unknown, or both
    name and kind are missing.
    """

    source: str
    labels: list[Label]
    skipped: int


class _Found(NamedTuple):
    """What a row of a public collection says. ``chain`` is None for all chains.

    ``kinds`` is None if they follow from the names and tags of all rows of the address.
    """

    address: object
    chain: str | None
    name: str = ""
    tags: Collection[str] = ()
    kinds: Kinds | None = None


def _collected(source: str, precedence: int, rows: Iterable[_Found]) -> LabelFile:
    """Return one label for each address and chain. Rows without a valid address or a usable label are skipped."""
    found: dict[tuple[str, str | None], list[_Found]] = {}
    labels, skipped = [], 0
    for row in rows:
        try:
            address = parse_address(row.chain or "eth", row.address) if isinstance(row.address, str) else ""
        except ValueError:
            address = ""
        if address and row.chain != _UNKNOWN:
            found.setdefault((address, row.chain), []).append(row)
        else:
            skipped += 1
    for (address, chain), of_address in found.items():
        name = next((row.name for row in of_address if row.name), None)
        kinds = [row.kinds for row in of_address if row.kinds]
        kinds = kinds or [kinds_of(name or "", {tag for row in of_address for tag in row.tags})]
        label = Label(
            address=address,
            chain=chain,
            source=source,
            name=name,
            entity_id=next((kind.entity_id for kind in kinds if kind.entity_id), None),
            is_cex=any(kind.is_cex for kind in kinds),
            is_dex=any(kind.is_dex for kind in kinds),
            is_contract=any(kind.is_contract for kind in kinds),
            precedence=precedence,
        )
        if _is_usable(label):
            labels.append(label)
        else:
            skipped += 1
    return LabelFile(source, labels, skipped)


def _is_usable(label: Label) -> bool:
    return bool(label.name or label.entity_id or label.is_cex or label.is_dex or label.is_contract)


def read_labels(path: Path) -> LabelFile:
    """Return the labels of a file, compressed or not. Raises ``BadSource`` for a file of another layout.

    Invalid rows of a public collection are skipped and counted. In our own CSV they are errors, because the user can
    correct them.
    """
    text = read_text(path)
    if text.lstrip()[:1] in ("{", "["):
        return _read_json(path, text)
    rows = _csv_rows(path, text)
    _, first_row = next(rows, (0, []))
    header = [name.strip() for name in first_row]
    for needs, source, precedence, found in _PUBLIC:
        if needs <= set(header):
            # unquoted commas in names cause rows with a wrong number of fields
            whole = (row if len(row) == len(header) else [""] * len(header) for _, row in rows)
            named = (dict(zip(header, map(str.strip, row), strict=True)) for row in whole)
            return _collected(source, precedence, map(found, named))
    if not {"address", "name"} <= set(header):
        raise _unknown(path, f"columns {listed(header)}")
    return _own_labels(path, header, rows)


def _read_json(path: Path, text: str) -> LabelFile:
    try:
        content = json.loads(text, object_pairs_hook=unambiguous_object)
    except RecursionError:
        raise bad_source(path, TOO_DEEP) from None
    except RepeatedKey as error:
        raise bad_source(path, f"{error}; remove the repetition") from None
    except ValueError:
        content = [{}]  # one object on each line
    values = content.values() if isinstance(content, dict) else ()
    if isinstance(content, dict) and (answer_error := error_in(content, is_alone=True)):
        raise bad_source(path, f"an API's error instead of labels: {answer_error}; fetch it again")
    if isinstance(content, list) or {"name", "address"} <= content.keys():
        raw = read_raw(path)
        if raw.columns and "address" in raw.columns:
            return _collected("edinburgh", EDINBURGH, map(_edinburgh, raw.table.to_pylist()))
    if isinstance(content, dict) and all(isinstance(value, str) for value in values):
        names = ((address, name.strip()) for address, name in content.items() if not address.startswith("_"))
        return _collected(_hand_source(path), HAND, (_Found(address, None, name) for address, name in names))
    if isinstance(content, dict) and all(isinstance(value, dict) and "labels" in value for value in values):
        source = path.name.split(".")[0].removesuffix("_accounts")
        chain = next((chain for name, chain in _EXPLORERS if name in source.lower()), None)
        rows = (
            _Found(address, chain, str(value.get("name") or "").strip(), [str(tag) for tag in value["labels"]])
            for address, value in content.items()
        )
        return _collected(source, EXPLORER, rows)
    raise _unknown(path, "JSON of another shape")


def _csv_rows(path: Path, text: str) -> Iterator[_CsvRow]:
    rows = csv.reader(io.StringIO(text, newline=""))
    line = 1
    try:
        for row in rows:
            if row:
                yield line, row
            line = rows.line_num + 1
    except csv.Error as error:
        raise bad_source(path, f"not a complete CSV ({error}); fetch the file again", line=line) from error


def _eth_labels(row: Mapping[str, str]) -> _Found:
    text = row["chain_id"]
    chain = CHAIN_BY_EVM_ID.get(int(text)) if text.isdecimal() else text if text in KNOWN_CHAINS else None
    return _Found(row["address"], chain or _UNKNOWN, row["name"], [row["label"]])


def _graphsense(row: Mapping[str, str]) -> _Found:
    """Return a tag of GraphSense. ``actor`` is the owner of the address, ``category`` the kind of owner, and ``pack``
    the file of tags. If the name is that of an exchange's token or deployer, the address is no exchange."""
    name, category, actor = row["label"], row["category"], row["actor"]
    kinds, is_token = kinds_of(name), bool(_TICKER.search(name))
    is_venue = category == "defi_dex"
    is_dex = not is_token and (kinds.is_dex or is_venue)
    is_exchange = kinds.is_cex or (category == "exchange" and keeps_custody(name))
    is_contract = kinds.is_contract or is_token or is_venue or row.get("pack") == "defi-protocols-csh.yaml"
    entity_id = entity_of(actor) if actor else kinds.entity_id
    kinds = Kinds(is_exchange and not (is_dex or is_token), is_dex, is_contract, entity_id)
    return _Found(row["address"], _NETWORKS.get(row["network"], _UNKNOWN), name, (), kinds)


def _edinburgh(row: Mapping[str, str | None]) -> _Found:
    # some names are a file name or an error page, which the collector read instead of a name
    name = "" if _NO_NAME.search(row.get("name") or "") else row.get("extra_info") or row.get("name") or ""
    kinds = kinds_of(name)
    is_contract = {None: kinds.is_contract, "True": True}.get(row.get("is_contract"), False)
    return _Found(row["address"], "eth", name, (), replace(kinds, is_contract=is_contract))


_PUBLIC: Final[tuple[tuple[frozenset[str], str, int, Callable[[Mapping[str, str]], _Found]], ...]] = (
    (frozenset({"chain_id", "address", "label", "name"}), "eth-labels", ETH_LABELS, _eth_labels),
    (frozenset({"network", "address", "label", "category", "actor"}), "graphsense", GRAPHSENSE, _graphsense),
)
"""The public collections in CSV: the columns by which they are recognised, source, precedence and reader of a row."""


def _own_labels(path: Path, header: list[str], rows: Iterable[_CsvRow]) -> LabelFile:
    """Return the labels of our own CSV. Kinds are derived from the names only if the file has no column of kinds."""
    repeated = [name for name in _OWN_COLUMNS if header.count(name) > 1]
    if repeated:
        raise bad_source(path, f"column {repeated[0]} occurs more than once; remove the repetitions")
    source = _hand_source(path)
    labels: dict[tuple[str, str | None, int | None], Label] = {}
    for line, row in rows:
        if len(row) != len(header):
            raise bad_source(
                path,
                f"the row has {len(row)} fields, the header has {len(header)}; put a name that contains a comma in "
                "quotation marks",
                line=line,
            )
        try:
            label = _own_label({name: value.strip() for name, value in zip(header, row, strict=True)}, source)
        except _BadField as error:
            raise bad_source(path, str(error), column=error.column, line=line) from error
        key = (label.address, label.chain, label.valid_from)
        if key in labels:
            reason = f"{key[0]} is labelled twice; keep one row, or give each its own valid_from"
            raise bad_source(path, reason, column="address", line=line)
        labels[key] = label
    return LabelFile(source, list(labels.values()), 0)


class _BadField(ValueError):
    """An invalid field of our own CSV."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(reason)
        self.column = column


def _own_label(fields: dict[str, str], source: str) -> Label:
    name, chain = fields["name"], fields.get("chain") or None
    if "\n" in name:
        raise _BadField("name", "the name has several lines; close its quotation mark")
    if chain is not None and not is_chain_id(chain):
        raise _BadField(
            "chain", f"{chain!r} is not a chain id; write for example eth, or leave it empty for all chains"
        )
    kinds = kinds_of(name)
    guessed = fields.keys().isdisjoint(_KIND_COLUMNS)
    label = Label(
        address=_own_address(fields["address"], chain),
        chain=chain,
        source=source,
        name=name or None,
        entity_id=fields.get("entity_id") or kinds.entity_id,
        is_cex=kinds.is_cex if guessed else _yes_or_no(fields, "is_cex"),
        is_dex=kinds.is_dex if guessed else _yes_or_no(fields, "is_dex"),
        is_contract=kinds.is_contract if guessed else _yes_or_no(fields, "is_contract"),
        is_paid_label=_yes_or_no(fields, "is_paid_label"),
        precedence=_precedence(fields.get("precedence", "")),
        valid_from=_second(fields, "valid_from", parse_when),
        valid_to=_second(fields, "valid_to", parse_end),
    )
    if label.valid_to is not None and label.valid_to < (label.valid_from or 0):
        raise _BadField("valid_to", "the period ends before it begins; correct valid_from or valid_to")
    if not _is_usable(label):
        raise _BadField("name", "the row has neither a name nor a kind; add a name or remove the row")
    return label


def _own_address(text: str, chain: str | None) -> str:
    """Return the address in the standard spelling of its chain.

    Raises ``_BadField`` for an invalid address, because its label would have no effect.
    """
    try:
        return parse_address(chain, text) if chain else parse_unplaced_address(text)
    except ValueError as error:
        raise _BadField("address", str(error)) from error


def _precedence(text: str) -> int:
    if text and not _PRECEDENCE_FORM.fullmatch(text):
        raise _BadField("precedence", f"{text!r} is not a whole number; correct it, or leave it empty for {HAND}")
    return int(text) if text else HAND


def _second(fields: dict[str, str], column: str, parse: Callable[[str], datetime]) -> int | None:
    """Return the unix second of a field; None if it is empty or missing."""
    text = fields.get(column, "")
    try:
        return to_unix(parse(_FRACTION.sub("", text))) if text else None
    except ValueError as error:
        raise _BadField(column, str(error)) from error


def _yes_or_no(fields: dict[str, str], column: str) -> bool:
    flag = _YES_NO.get(fields.get(column, "").lower())
    if flag is None:
        raise _BadField(column, f"{fields[column]!r} is not true or false; write one of these, or leave it empty")
    return flag


def _hand_source(path: Path) -> str:
    """Return the name of the source for a user's label file.

    It contains the file's name, so that a new import of the same file replaces only its own labels.
    """
    return f"hand:{path.name.split('.')[0]}"


def _unknown(path: Path, layout: str) -> BadSource:
    return bad_source(
        path,
        f"unknown layout of labels ({layout}); use one of these: CSV with address and name, and any of "
        f"{', '.join(sorted(set(_OWN_COLUMNS) - {'address', 'name'}))}; eth-labels CSV; GraphSense tags "
        "CSV; explorer JSON (address to name and labels); JSON of address to name; JSON lines with address, name, "
        "is_contract",
    )
