"""Column maps of files that providers, explorers and tools write, recognised by their columns (in any case).

A preset names our columns in somebody else's file. Where a layout needs more than names, it is in ``layouts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from engine.sources.mapping import ColumnMap


@dataclass(frozen=True)
class Preset:
    """A map that is tried by itself. ``columns``: our column to the file's, alternatives separated by ``|``.

    ``optional`` are mapped where they are there; ``known_by`` are further columns of the file, ``lacks`` are columns
    that it never has.
    """

    format: str
    title: str
    columns: Mapping[str, str]
    optional: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    known_by: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    def map_of(self, names: Iterable[str], chosen: ColumnMap) -> ColumnMap | None:
        """The map of a file with these columns, None where it is of another layout. What is ``chosen`` wins."""
        spelt = {name.lower(): name for name in names}
        if not all(name.lower() in spelt for name in self.known_by) or any(
            name.lower() in spelt for name in self.lacks
        ):
            return None
        found: dict[str, str] = {}
        given = {*chosen.columns, *chosen.constants}
        for own, theirs in {**self.columns, **self.optional}.items():
            column = next((spelt[name.lower()] for name in theirs.split("|") if name.lower() in spelt), None)
            if column is not None:
                found[own] = column
            elif own in self.columns and own not in given:
                return None
        return chosen.over(ColumnMap(found, self.constants))


def preset_for(names: Iterable[str], chosen: ColumnMap, format: str | None) -> tuple[Preset, ColumnMap] | None:
    """The first preset that the columns fit, with its map; only those of ``format`` where one is given."""
    listed = list(names)
    for preset in PRESETS:
        column_map = preset.map_of(listed, chosen) if format in (None, preset.format) else None
        if column_map is not None:
            return preset, column_map
    return None


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
            "log_index": "logIndex|log_index|index",
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
    ),
)
"""In the order in which they are tried; those with more columns come before those that they contain."""
