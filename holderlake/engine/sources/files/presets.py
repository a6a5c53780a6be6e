"""Presets: column maps for the exports of providers, explorers and tools, recognised by their columns (in any case).

Layouts that need more than a column map are in ``layouts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from holderlake.engine.sources.files.mapping import ColumnMap


@dataclass(frozen=True)
class Preset:
    """The column map of one kind of export, and the columns that identify it.

    ``columns`` and ``optional`` are dictionaries from our column names to those of the file, with alternatives
    separated by ``|``. ``constants`` has constant values. The file must have all of ``columns`` and ``known_by``, and
    none of ``lacks``. ``only`` selects the rows that are transfers: it has, by column, the allowed values in lower
    case.
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
        """True if only EVM chains have files of this kind. A preset of another chain has a constant ``chain``."""
        return "chain" not in self.constants

    def map_of(self, names: Iterable[str], chosen: ColumnMap) -> ColumnMap | None:
        """Return the column map for a file with the columns ``names``; None if a needed column is missing.

        ``chosen`` is the user's column map, which takes precedence over the preset.
        """
        found, missing = self._found(names, chosen)
        return None if missing else chosen.over(ColumnMap(found, self.constants))

    def missing(self, names: Iterable[str], chosen: ColumnMap) -> list[str]:
        """Return the columns of our layout that the user must map or set, so that this preset fits the file.

        ``names`` are the file's columns, ``chosen`` is the user's column map. The result is empty if the file has too
        few of the preset's columns.
        """
        found, missing = self._found(names, chosen)
        return missing if set(missing) <= _REMEDIES.keys() and len(found) > len(missing) + 2 else []

    def _found(self, names: Iterable[str], chosen: ColumnMap) -> tuple[dict[str, str], list[str]]:
        """Return a dictionary from our column names to the file's columns, and a list of missing columns.

        The list has the needed columns that neither the file nor the user's map has.
        """
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
    """Return the first preset that fits the columns, with its column map; None if none fits.

    ``chosen`` is the user's column map. ``format`` selects the presets of one format; None tries all.
    """
    listed = list(names)
    for preset in PRESETS:
        column_map = preset.map_of(listed, chosen) if format in (None, preset.format) else None
        if column_map is not None:
            return preset, column_map
    return None


def missing_options(names: Iterable[str], chosen: ColumnMap, format: str | None) -> str:
    """Return a sentence with the options that the user must add so that a preset fits; empty if no options suffice."""
    listed = list(names)
    for preset in PRESETS:
        missing = preset.missing(listed, chosen) if format in (None, preset.format) else []
        if missing:
            return f"it looks like {preset.title}; {' and '.join(_REMEDIES[name] for name in missing)}"
    return ""


_REMEDIES: Final = {
    "decimals": "its amounts are in token units, so set the token's decimals (--set decimals=18)",
    "token_address": "it has no token column, so set the token (--set token_address=ADDRESS)",
    "block_number": (
        "it has no block numbers, which order transfers: add them, or if all files of the token lack them, use the "
        "time (--map block_number=block_timestamp)"
    ),
}


def _names(text: str) -> dict[str, str]:
    """Return the file's columns by our names, from a text such as ``value=quant, block_number=block|blockno``."""
    return dict(pair.split("=", 1) for pair in text.split(", "))


PRESETS: Final = (
    Preset(
        "logs",
        "event logs (eth_getLogs, ethers, web3, cryo, ethereum-etl, Dune)",
        _names(
            "address=address|contract_address, topics=topics|topic0|topic_0, data=data, "
            "block_number=blockNumber|block_number|block, log_index=logIndex|log_index|index|event_index, "
            "tx_hash=transactionHash|transaction_hash|tx_hash"
        ),
        optional=_names("block_time=blockTimestamp|block_timestamp|block_time|timeStamp|timestamp|evt_block_time"),
    ),
    Preset(
        "etherscan",
        "Etherscan tokennfttx",
        _names(
            "block_number=blockNumber, block_time=timeStamp, tx_hash=hash, from_address=from, to_address=to, "
            "token_address=contractAddress, token_id=tokenID"
        ),
        optional=_names("log_index=logIndex"),
        constants={"token_standard": "erc721", "value": "1"},
        lacks=("tokenValue",),
    ),
    Preset(
        "etherscan",
        "Etherscan token1155tx",
        _names(
            "block_number=blockNumber, block_time=timeStamp, tx_hash=hash, from_address=from, to_address=to, "
            "token_address=contractAddress, token_id=tokenID, value=tokenValue"
        ),
        optional=_names("log_index=logIndex"),
        constants={"token_standard": "erc1155"},
    ),
    Preset(
        "etherscan",
        "Etherscan tokentx",
        _names(
            "block_number=blockNumber, block_time=timeStamp, tx_hash=hash, from_address=from, to_address=to, "
            "token_address=contractAddress, value=value"
        ),
        optional=_names("log_index=logIndex"),
        known_by=("tokenDecimal",),
        lacks=("tokenID",),
    ),
    Preset(
        "etherscan",
        "Etherscan CSV export of token transfers",
        _names(
            "tx_hash=Transaction Hash|Txhash, block_number=Blockno, block_time=UnixTimestamp, from_address=From, "
            "to_address=To, value=Quantity|TokenValue|Value, token_address=ContractAddress, decimals=decimals"
        ),
        lacks=("Value_IN(ETH)", "TokenId"),
    ),
    Preset(
        "dune",
        "Dune evt_Transfer",
        _names(
            "from_address=from|from_address, to_address=to|to_address, token_address=contract_address, value=value, "
            "block_number=evt_block_number, log_index=evt_index, tx_hash=evt_tx_hash"
        ),
        optional=_names("block_time=evt_block_time"),
    ),
    Preset(
        "dune",
        "Dune tokens.transfers",
        _names(
            "from_address=from|from_address, to_address=to|to_address, token_address=contract_address, "
            "value=amount_raw, block_number=block_number, log_index=evt_index, tx_hash=tx_hash"
        ),
        optional=_names("block_time=block_time, token_standard=token_standard, chain=blockchain"),
    ),
    Preset(
        "flipside",
        "Flipside ez_token_transfers",
        _names(
            "from_address=from|from_address, to_address=to|to_address, token_address=contract_address, "
            "value=raw_amount_precise|raw_amount, block_number=block_number, log_index=event_index, tx_hash=tx_hash"
        ),
        optional=_names("block_time=block_timestamp"),
    ),
    Preset(
        "allium",
        "Allium token transfers",
        _names(
            "from_address=from|from_address, to_address=to|to_address, token_address=token_address, "
            "value=raw_amount_str, block_number=block_number, log_index=log_index, tx_hash=transaction_hash"
        ),
        optional=_names("block_time=block_timestamp"),
    ),
    Preset(
        "bigquery",
        "BigQuery token_transfers",
        _names(
            "from_address=from|from_address, to_address=to|to_address, token_address=address, "
            "token_standard=event_type, value=quantity, block_number=block_number, log_index=event_index, "
            "tx_hash=transaction_hash"
        ),
        optional=_names("block_time=block_timestamp, token_id=token_id"),
    ),
    Preset(
        "moralis",
        "Moralis ERC-20 transfers",
        _names(
            "from_address=from|from_address, to_address=to|to_address, token_address=address, value=value, "
            "block_number=block_number, log_index=log_index, tx_hash=transaction_hash"
        ),
        optional=_names("block_time=block_timestamp"),
        known_by=("token_decimals",),
    ),
    Preset(
        "etl",
        "transfers with contract_address",
        _names(
            "from_address=from|from_address, to_address=to|to_address, token_address=contract_address, value=value, "
            "block_number=block_number, log_index=log_index, tx_hash=transaction_hash|tx_hash"
        ),
        optional=_names("block_time=blockTimestamp|block_timestamp|block_time|timeStamp|timestamp|evt_block_time"),
        lacks=("token_type", "amount"),
    ),
    Preset(
        "alchemy",
        "Alchemy getAssetTransfers",
        _names(
            "from_address=from|from_address, to_address=to|to_address, token_address=rawContract.address, "
            "value=rawContract.value, block_number=blockNum, tx_hash=hash"
        ),
        optional=_names("block_time=metadata.blockTimestamp"),
        known_by=("category",),
        only={"category": ("erc20",)},
    ),
    Preset(
        "ankr",
        "Ankr getTokenTransfers",
        _names(
            "from_address=fromAddress, to_address=toAddress, token_address=contractAddress, value=valueRawInteger, "
            "block_number=blockHeight, tx_hash=transactionHash"
        ),
        optional=_names("block_time=timestamp, chain=blockchain"),
    ),
    Preset(
        "blockscout",
        "Blockscout token transfers",
        _names(
            "from_address=from.hash, to_address=to.hash, token_address=token.address_hash|token.address, "
            "token_standard=token.type, value=total.value, block_number=block_number, log_index=log_index, "
            "tx_hash=transaction_hash|tx_hash"
        ),
        optional=_names("block_time=timestamp, token_id=total.token_id"),
    ),
    Preset(
        "bitquery",
        "Bitquery Transfers",
        _names(
            "from_address=Transfer.Sender, to_address=Transfer.Receiver, "
            "token_address=Transfer.Currency.SmartContract, value=Transfer.Amount, "
            "decimals=Transfer.Currency.Decimals, block_number=Block.Number, tx_hash=Transaction.Hash"
        ),
        optional=_names("block_time=Block.Time, log_index=Log.Index|Transfer.Index"),
        only={"TransactionStatus.Success": ("true",)},
    ),
    Preset(
        "tronscan",
        "TronScan token_transfers",
        _names(
            "from_address=from_address, to_address=to_address, token_address=contract_address, value=quant, "
            "block_number=block, block_time=block_ts, tx_hash=transaction_id"
        ),
        constants={"chain": "tron"},
        only={"finalResult": ("success",), "revert": ("false", "0"), "event_type": ("transfer",)},
    ),
    Preset(
        "trongrid",
        "TronGrid TRC-20 transfers",
        _names(
            "from_address=from|from_address, to_address=to|to_address, token_address=token_info.address, value=value, "
            "block_time=block_timestamp, tx_hash=transaction_id, block_number=block_number"
        ),
        constants={"chain": "tron"},
        only={"type": ("transfer",)},
    ),
    Preset(
        "trongrid",
        "TronGrid Transfer events",
        _names(
            "from_address=result.from, to_address=result.to, token_address=contract_address, value=result.value, "
            "block_number=block_number, block_time=block_timestamp, tx_hash=transaction_id, log_index=event_index"
        ),
        constants={"chain": "tron"},
        only={"event_name": ("transfer",)},
    ),
    Preset(
        "solscan",
        "Solscan token transfers",
        _names(
            "from_address=from_address, to_address=to_address, token_address=token_address, value=amount, "
            "block_number=block_id, block_time=block_time, tx_hash=trans_id"
        ),
        constants={"chain": "solana"},
        only={"activity_type": ("activity_spl_transfer", "activity_spl_mint", "activity_spl_burn")},
    ),
    Preset(
        "helius",
        "Helius tokenTransfers",
        _names(
            "from_address=tokenTransfers.fromUserAccount, to_address=tokenTransfers.toUserAccount, "
            "token_address=tokenTransfers.mint, value=tokenTransfers.tokenAmount, block_number=slot, "
            "block_time=timestamp, tx_hash=signature, decimals=decimals"
        ),
        constants={"chain": "solana"},
    ),
    Preset(
        "toncenter",
        "TON Center jetton_transfers",
        _names(
            "from_address=source, to_address=destination, token_address=jetton_master, value=amount, "
            "block_number=transaction_lt, block_time=transaction_now, tx_hash=transaction_hash"
        ),
        constants={"chain": "ton"},
        only={"transaction_aborted": ("false",)},
    ),
    Preset(
        "tonapi",
        "TonAPI jetton operations",
        _names(
            "from_address=source.address, to_address=destination.address, token_address=jetton.address, value=amount, "
            "block_number=lt, block_time=utime, tx_hash=transaction_hash"
        ),
        constants={"chain": "ton"},
        only={"operation": ("transfer", "mint", "burn")},
    ),
)
"""All presets in the order of trial: a preset comes before another one that needs only some of its columns."""
