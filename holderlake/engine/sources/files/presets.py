"""Column maps of files that providers, explorers and tools write, recognised by their columns (in any case).

A preset names our columns in somebody else's file. Where a layout needs more than names, it is in ``layouts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from holderlake.engine.sources.files.mapping import ColumnMap


@dataclass(frozen=True)
class Preset:
    """A map that is tried by itself. ``columns``: our column to the file's, alternatives separated by ``|``.

    ``optional`` are mapped where they are there; ``known_by`` are further columns of the file, ``lacks`` are columns
    that it never has. ``only``: the values (in lower case) that a column has in rows that are transfers; it may be
    absent.
    """

    format: str
    title: str
    columns: Mapping[str, str]
    optional: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    known_by: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_evm(self) -> bool:
        """Whether only EVM chains have such files; the others name their chain."""
        return "chain" not in self.constants

    def map_of(self, names: Iterable[str], chosen: ColumnMap) -> ColumnMap | None:
        """The map of a file with these columns, None where it is of another layout. What is ``chosen`` wins."""
        found, missing = self._found(names, chosen)
        return None if missing else chosen.over(ColumnMap(found, self.constants))

    def missing(self, names: Iterable[str], chosen: ColumnMap) -> list[str]:
        """Our columns that a user would have to give, empty where the file is not of this layout anyway."""
        found, missing = self._found(names, chosen)
        return missing if set(missing) <= _GIVEN.keys() and len(found) > len(missing) + 2 else []

    def _found(self, names: Iterable[str], chosen: ColumnMap) -> tuple[dict[str, str], list[str]]:
        """The file's columns by ours, and which of ours are neither there nor chosen."""
        spelt = {name.lower(): name for name in names}
        found: dict[str, str] = {}
        given = {*chosen.columns, *chosen.constants}
        missing = [name for name in self.known_by if name.lower() not in spelt]
        missing += [name for name in self.lacks if name.lower() in spelt]
        for own, theirs in {**self.columns, **self.optional}.items():
            column = next((spelt[name.lower()] for name in theirs.split("|") if name.lower() in spelt), None)
            if column is not None:
                found[own] = column
            elif own in self.columns and own not in given:
                missing.append(own)
        return found, missing


def preset_for(names: Iterable[str], chosen: ColumnMap, format: str | None) -> tuple[Preset, ColumnMap] | None:
    """The first preset that the columns fit, with its map; only those of ``format`` where one is given."""
    listed = list(names)
    for preset in PRESETS:
        column_map = preset.map_of(listed, chosen) if format in (None, preset.format) else None
        if column_map is not None:
            return preset, column_map
    return None


def advice(names: Iterable[str], chosen: ColumnMap, format: str | None) -> str:
    """The options that a file lacks which nearly fits a preset, in words; empty for none."""
    listed = list(names)
    for preset in PRESETS:
        missing = preset.missing(listed, chosen) if format in (None, preset.format) else []
        if missing:
            return f"it looks like {preset.title}; {' and '.join(_GIVEN[name] for name in missing)}"
    return ""


_GIVEN: Final = {
    "decimals": "its amounts are in token units, so give the token's decimals (--set decimals=18)",
    "token_address": "it does not name its token, so give it (--set token_address=ADDRESS)",
    "block_number": (
        "it has no block numbers, by which transfers are put in order: join them, or where all files of the token lack "
        "them, take the time (--map block_number=block_timestamp)"
    ),
}
_TIME: Final = "blockTimestamp|block_timestamp|block_time|timeStamp|timestamp|evt_block_time"
_FROM_TO: Final = {"from_address": "from|from_address", "to_address": "to|to_address"}
_ETHERSCAN: Final = {
    "block_number": "blockNumber",
    "block_time": "timeStamp",
    "tx_hash": "hash",
    "from_address": "from",
    "to_address": "to",
    "token_address": "contractAddress",
}

PRESETS: Final = (
    Preset(
        "logs",
        "event logs (eth_getLogs, ethers, web3, cryo, ethereum-etl, Dune)",
        {
            "address": "address|contract_address",
            "topics": "topics|topic0|topic_0",
            "data": "data",
            "block_number": "blockNumber|block_number|block",
            "log_index": "logIndex|log_index|index|event_index",
            "tx_hash": "transactionHash|transaction_hash|tx_hash",
        },
        {"block_time": _TIME},
    ),
    Preset(
        "etherscan",
        "Etherscan tokennfttx",
        {**_ETHERSCAN, "token_id": "tokenID"},
        {"log_index": "logIndex"},
        {"token_standard": "erc721", "value": "1"},
        lacks=("tokenValue",),
    ),
    Preset(
        "etherscan",
        "Etherscan token1155tx",
        {**_ETHERSCAN, "token_id": "tokenID", "value": "tokenValue"},
        {"log_index": "logIndex"},
        {"token_standard": "erc1155"},
    ),
    Preset(
        "etherscan",
        "Etherscan tokentx",
        {**_ETHERSCAN, "value": "value"},
        {"log_index": "logIndex"},
        known_by=("tokenDecimal",),
        lacks=("tokenID",),
    ),
    Preset(
        "etherscan",
        "Etherscan CSV export of token transfers",
        {
            "tx_hash": "Transaction Hash|Txhash",
            "block_number": "Blockno",
            "block_time": "UnixTimestamp",
            "from_address": "From",
            "to_address": "To",
            "value": "Quantity|TokenValue|Value",
            "token_address": "ContractAddress",
            "decimals": "decimals",
        },
        lacks=("Value_IN(ETH)", "TokenId"),
    ),
    Preset(
        "dune",
        "Dune evt_Transfer",
        {
            **_FROM_TO,
            "token_address": "contract_address",
            "value": "value",
            "block_number": "evt_block_number",
            "log_index": "evt_index",
            "tx_hash": "evt_tx_hash",
        },
        {"block_time": "evt_block_time"},
    ),
    Preset(
        "dune",
        "Dune tokens.transfers",
        {
            **_FROM_TO,
            "token_address": "contract_address",
            "value": "amount_raw",
            "block_number": "block_number",
            "log_index": "evt_index",
            "tx_hash": "tx_hash",
        },
        {"block_time": "block_time", "token_standard": "token_standard", "chain": "blockchain"},
    ),
    Preset(
        "flipside",
        "Flipside ez_token_transfers",
        {
            **_FROM_TO,
            "token_address": "contract_address",
            "value": "raw_amount_precise|raw_amount",
            "block_number": "block_number",
            "log_index": "event_index",
            "tx_hash": "tx_hash",
        },
        {"block_time": "block_timestamp"},
    ),
    Preset(
        "allium",
        "Allium token transfers",
        {
            **_FROM_TO,
            "token_address": "token_address",
            "value": "raw_amount_str",
            "block_number": "block_number",
            "log_index": "log_index",
            "tx_hash": "transaction_hash",
        },
        {"block_time": "block_timestamp"},
    ),
    Preset(
        "bigquery",
        "BigQuery token_transfers",
        {
            **_FROM_TO,
            "token_address": "address",
            "token_standard": "event_type",
            "value": "quantity",
            "block_number": "block_number",
            "log_index": "event_index",
            "tx_hash": "transaction_hash",
        },
        {"block_time": "block_timestamp", "token_id": "token_id"},
    ),
    Preset(
        "moralis",
        "Moralis ERC-20 transfers",
        {
            **_FROM_TO,
            "token_address": "address",
            "value": "value",
            "block_number": "block_number",
            "log_index": "log_index",
            "tx_hash": "transaction_hash",
        },
        {"block_time": "block_timestamp"},
        known_by=("token_decimals",),
    ),
    Preset(
        "etl",
        "transfers with contract_address",
        {
            **_FROM_TO,
            "token_address": "contract_address",
            "value": "value",
            "block_number": "block_number",
            "log_index": "log_index",
            "tx_hash": "transaction_hash|tx_hash",
        },
        {"block_time": _TIME},
        lacks=("token_type", "amount"),
    ),
    Preset(
        "alchemy",
        "Alchemy getAssetTransfers",
        {
            **_FROM_TO,
            "token_address": "rawContract.address",
            "value": "rawContract.value",
            "block_number": "blockNum",
            "tx_hash": "hash",
        },
        {"block_time": "metadata.blockTimestamp"},
        known_by=("category",),
        only={"category": ("erc20",)},
    ),
    Preset(
        "ankr",
        "Ankr getTokenTransfers",
        {
            "from_address": "fromAddress",
            "to_address": "toAddress",
            "token_address": "contractAddress",
            "value": "valueRawInteger",
            "block_number": "blockHeight",
            "tx_hash": "transactionHash",
        },
        {"block_time": "timestamp", "chain": "blockchain"},
    ),
    Preset(
        "blockscout",
        "Blockscout token transfers",
        {
            "from_address": "from.hash",
            "to_address": "to.hash",
            "token_address": "token.address_hash|token.address",
            "token_standard": "token.type",
            "value": "total.value",
            "block_number": "block_number",
            "log_index": "log_index",
            "tx_hash": "transaction_hash|tx_hash",
        },
        {"block_time": "timestamp", "token_id": "total.token_id"},
    ),
    Preset(
        "bitquery",
        "Bitquery Transfers",
        {
            "from_address": "Transfer.Sender",
            "to_address": "Transfer.Receiver",
            "token_address": "Transfer.Currency.SmartContract",
            "value": "Transfer.Amount",
            "decimals": "Transfer.Currency.Decimals",
            "block_number": "Block.Number",
            "tx_hash": "Transaction.Hash",
        },
        {"block_time": "Block.Time", "log_index": "Log.Index|Transfer.Index"},
        only={"TransactionStatus.Success": ("true",)},
    ),
    Preset(
        "tronscan",
        "TronScan token_transfers",
        {
            "from_address": "from_address",
            "to_address": "to_address",
            "token_address": "contract_address",
            "value": "quant",
            "block_number": "block",
            "block_time": "block_ts",
            "tx_hash": "transaction_id",
        },
        constants={"chain": "tron"},
        only={"finalResult": ("success",), "revert": ("false", "0"), "event_type": ("transfer",)},
    ),
    Preset(
        "trongrid",
        "TronGrid TRC-20 transfers",
        {
            **_FROM_TO,
            "token_address": "token_info.address",
            "value": "value",
            "block_time": "block_timestamp",
            "tx_hash": "transaction_id",
            "block_number": "block_number",
        },
        constants={"chain": "tron"},
        only={"type": ("transfer",)},
    ),
    Preset(
        "trongrid",
        "TronGrid Transfer events",
        {
            "from_address": "result.from",
            "to_address": "result.to",
            "token_address": "contract_address",
            "value": "result.value",
            "block_number": "block_number",
            "block_time": "block_timestamp",
            "tx_hash": "transaction_id",
            "log_index": "event_index",
        },
        constants={"chain": "tron"},
        only={"event_name": ("transfer",)},
    ),
    Preset(
        "solscan",
        "Solscan token transfers",
        {
            "from_address": "from_address",
            "to_address": "to_address",
            "token_address": "token_address",
            "value": "amount",
            "block_number": "block_id",
            "block_time": "block_time",
            "tx_hash": "trans_id",
        },
        constants={"chain": "solana"},
        only={"activity_type": ("activity_spl_transfer", "activity_spl_mint", "activity_spl_burn")},
    ),
    Preset(
        "helius",
        "Helius tokenTransfers",
        {
            "from_address": "tokenTransfers.fromUserAccount",
            "to_address": "tokenTransfers.toUserAccount",
            "token_address": "tokenTransfers.mint",
            "value": "tokenTransfers.tokenAmount",
            "block_number": "slot",
            "block_time": "timestamp",
            "tx_hash": "signature",
            "decimals": "decimals",
        },
        constants={"chain": "solana"},
    ),
    Preset(
        "toncenter",
        "TON Center jetton_transfers",
        {
            "from_address": "source",
            "to_address": "destination",
            "token_address": "jetton_master",
            "value": "amount",
            "block_number": "transaction_lt",
            "block_time": "transaction_now",
            "tx_hash": "transaction_hash",
        },
        constants={"chain": "ton"},
        only={"transaction_aborted": ("false",)},
    ),
    Preset(
        "tonapi",
        "TonAPI jetton operations",
        {
            "from_address": "source.address",
            "to_address": "destination.address",
            "token_address": "jetton.address",
            "value": "amount",
            "block_number": "lt",
            "block_time": "utime",
            "tx_hash": "transaction_hash",
        },
        constants={"chain": "ton"},
        only={"operation": ("transfer", "mint", "burn")},
    ),
)
"""In the order in which they are tried; those with more columns come before those that they contain."""
