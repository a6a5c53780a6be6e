"""Samples of transfer files of other tools, explorers and APIs, all with the same two transfers.

A mint gives Ann 1,000, and she sends 400 to Bob. So Ann has 600 and Bob 400 in every layout.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from holderlake.core.contract.chains.addresses import parse_address
from holderlake.sources.rpc.events import TRANSFER, TRANSFER_BATCH, TRANSFER_SINGLE

TOKEN = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"
CHECKSUMMED_TOKEN = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
ZERO = "0x" + "0" * 40
ANN, BOB = "0x" + "a1" * 20, "0x" + "b2" * 20
HASHES = ("0x" + "c1" * 32, "0x" + "c2" * 32)
BLOCKS, TIMES = (20_000_000, 20_000_001), (1_717_281_407, 1_717_281_419)
ISO = ("2024-06-01T22:36:47.000Z", "2024-06-01T22:36:59.000Z")

SOL_MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
SOL_ANN, SOL_BOB = parse_address("solana", b"\xa1" * 32), parse_address("solana", b"\xb2" * 32)
TRON_TOKEN = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"
TRON_ANN, TRON_BOB = parse_address("tron", ANN), parse_address("tron", BOB)
TRON_ZERO = "T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb"
TON_TOKEN = "EQCxE6mUtQJKFnGfaROTKOt1lZbDiiX1kCixRv7Nw2Id_sDs"
TON_RAW_TOKEN = "0:B113A994B5024A16719F69139328EB759596C38A25F59028B146FECDC3621DFE"
TON_ANN_RAW, TON_BOB_RAW = "0:" + "a1" * 32, "0:" + "B2" * 32
TON_ANN, TON_BOB = parse_address("ton", TON_ANN_RAW), parse_address("ton", TON_BOB_RAW)


@dataclass(frozen=True)
class Sample:
    """A foreign file: its name and bytes, the options that it needs, and the addresses of the two holders."""

    title: str
    name: str
    content: bytes
    options: Mapping[str, Any] = field(default_factory=dict)
    holders: tuple[str, str] = (ANN, BOB)
    token: str = TOKEN


def word(digits: str | int) -> str:
    """Return 32 bytes in hexadecimal without a prefix."""
    return f"{digits:064x}" if isinstance(digits, int) else digits.removeprefix("0x").rjust(64, "0")


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def as_lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(as_json(row) + b"\n" for row in rows)


def csv_text(rows: Sequence[Mapping[str, Any]], delimiter: str = ",", newline: str = "\n") -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator=newline)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_csv(rows: Sequence[Mapping[str, Any]], delimiter: str = ",", newline: str = "\n") -> bytes:
    return csv_text(rows, delimiter, newline).encode()


def as_parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), file)
    return file.getvalue()


def zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, "zstd", asbytes=True)) if not content else _zstd_stream(content)


def _zstd_stream(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


MOVES = ((ZERO, ANN, 1000), (ANN, BOB, 400))
TOPICS = [[TRANSFER, "0x" + word(sender), "0x" + word(receiver)] for sender, receiver, _ in MOVES]
FORMATS = tomllib.loads((Path(__file__).parent / "foreign.toml").read_text(encoding="utf-8"))
CONSTANTS = {
    "token": TOKEN, "checksummed": CHECKSUMMED_TOKEN, "block_hash": "0x" + "ee" * 32, "topic": TRANSFER,
    "sol_mint": SOL_MINT, "tron_token": TRON_TOKEN, "ton_token": TON_RAW_TOKEN,
}  # fmt: skip
TON_HASHES = ("wcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcE=", "wsLCwsLCwsLCwsLCwsLCwsLCwsLCwsLCwsLCwsLCwsI=")


def values(n: int) -> dict[str, Any]:
    """Return the values of a transfer by the names in ``foreign.toml``."""
    (sender, receiver, amount), block, time, tx = MOVES[n], BLOCKS[n], TIMES[n], HASHES[n]
    return CONSTANTS | {
        "block": block, "block_text": str(block), "block_hex": hex(block), "iso": ISO[n],
        "unix": time, "unix_text": str(time), "unix_hex": hex(time), "unix_ms": time * 1000,
        "sql": ISO[n].replace("T", " ").replace("Z", " UTC"), "hash": tx, "bare_hash": tx[2:], "id": f"{tx}-{n}",
        "uid": f"{tx}:log:{n + 3}", "number": n, "index": n + 3, "index_hex": hex(n + 3), "from": sender,
        "to": receiver, "from_digits": sender[2:], "from_word": "0x" + word(sender), "to_word": "0x" + word(receiver),
        "topics": TOPICS[n], "topic_text": ",".join(TOPICS[n]), "amount": amount, "amount_text": str(amount),
        "amount_hex": hex(amount), "amount_word": "0x" + word(amount), "amount_float": float(amount),
        "amount_fraction": f"{amount}.000", "units": amount / 100, "units_text": f"{amount / 100}",
        "units_csv": f"{amount / 100:,.2f}", "units_18": f"{amount / 100:.18f}", "sol_hash": "5" * 87 + str(n + 1),
        "sol_from": (None, SOL_ANN)[n], "sol_to": (SOL_ANN, SOL_BOB)[n], "tron_from": (TRON_ZERO, TRON_ANN)[n],
        "sol_kind": ("ACTIVITY_SPL_MINT", "ACTIVITY_SPL_TRANSFER")[n], "tron_to": (TRON_ANN, TRON_BOB)[n],
        "ton_from": (None, TON_ANN_RAW)[n], "ton_to": (TON_ANN_RAW, TON_BOB_RAW)[n], "ton_hash": TON_HASHES[n],
    }  # fmt: skip


def both(name: str) -> list[dict[str, Any]]:
    """Return the rows of both transfers in a format of ``foreign.toml``."""
    rows: list[dict[str, Any]] = [{}, {}]
    for n, row in enumerate(rows):
        for column in re.split(r"  |\n", FORMATS[name].strip()):
            path, sign, value = re.split(r"([:=])", column, maxsplit=1)
            *above, key = path.split("/")
            part = row
            for step in above:
                part = part.setdefault(step, {})
            part[key] = json.loads(value) if sign == "=" else values(n)[value]
    return rows


# ---------------------------------------------------------------- event logs

RPC_LOGS = both("RPC_LOGS")
APPROVAL = {**RPC_LOGS[0], "topics": ["0x" + "8c" * 32, "0x" + word(ANN), "0x" + word(BOB)], "logIndex": "0x9"}
REMOVED = {**RPC_LOGS[1], "removed": True, "logIndex": "0xa"}
ETHERS_V5 = [
    {
        **{name: RPC_LOGS[n][name] for name in ("address", "topics", "data", "transactionHash", "blockHash")},
        **{"blockNumber": BLOCKS[n], "transactionIndex": 1, "logIndex": n + 3, "removed": False},
        **{"event": "Transfer", "args": [sender, receiver, {"type": "BigNumber", "hex": hex(amount)}]},
    }
    for n, (sender, receiver, amount) in enumerate(MOVES)
]
ETHERS_V6 = [
    {"_type": "log", "index": row["logIndex"], **{name: row[name] for name in row if name not in {"logIndex", "args"}}}
    for row in ETHERS_V5
]
ETHERSCAN_LOGS = [
    {**{name: row[name] for name in row if name not in {"blockTimestamp", "removed"}}, "timeStamp": hex(TIMES[n])}
    for n, row in enumerate(RPC_LOGS)
]
DUNE_LOGS = both("DUNE_LOGS")
CRYO_LOGS = [
    {
        "block_number": BLOCKS[n],
        "transaction_index": 1,
        "log_index": n + 3,
        "transaction_hash": bytes.fromhex(HASHES[n][2:]),
        "address": bytes.fromhex(TOKEN[2:]),
        "topic0": bytes.fromhex(TRANSFER[2:]),
        "topic1": bytes.fromhex(word(sender)),
        "topic2": bytes.fromhex(word(receiver)),
        "topic3": None,
        "data": bytes.fromhex(word(amount)),
        "n_data_bytes": 32,
        "chain_id": 1,
        "timestamp": TIMES[n],
    }
    for n, (sender, receiver, amount) in enumerate(MOVES)
]
ETL_LOGS = both("ETL_LOGS")
WEB3_CSV = [
    {
        **row,
        "topics": "[" + ", ".join(f"HexBytes('{topic}')" for topic in RPC_LOGS[n]["topics"]) + "]",
        "timestamp": TIMES[n],
    }
    for n, row in enumerate(ETL_LOGS)
]
POSTGRES_LOGS = [
    {
        **row,
        "address": rf"\x{TOKEN[2:]}",
        "transaction_hash": rf"\x{HASHES[n][2:]}",
        "data": rf"\x{word(MOVES[n][2])}",
        "topics": "{" + ",".join(rf'"\\x{topic[2:]}"' for topic in RPC_LOGS[n]["topics"]) + "}",
    }
    for n, row in enumerate(ETL_LOGS)
]
SUBSQUID = [
    {
        "header": {"number": BLOCKS[n], "timestamp": TIMES[n] * 1000},
        "logs": [{name: row[name] for name in ("address", "topics", "data", "transactionHash")} | {"logIndex": n + 3}],
    }
    for n, row in enumerate(RPC_LOGS)
]
SINGLES = [
    {
        **RPC_LOGS[n],
        "topics": [TRANSFER_SINGLE, "0x" + word(ANN), "0x" + word(sender), "0x" + word(receiver)],
        "data": "0x" + word(7) + word(amount),
    }
    for n, (sender, receiver, amount) in enumerate(MOVES)
]
BATCHES = [
    {
        **RPC_LOGS[n],
        "topics": [TRANSFER_BATCH, "0x" + word(ANN), "0x" + word(sender), "0x" + word(receiver)],
        "data": "0x" + "".join(word(one) for one in (64, 160, 2, 7, 8, 2, amount - 100, 100)),
    }
    for n, (sender, receiver, amount) in enumerate(MOVES)
]
MAPPED_LOGS = {
    "column_map": (
        "address=logs.address",
        "topics=logs.topics",
        "data=logs.data",
        "block_number=header.number",
        "block_time=header.timestamp",
        "log_index=logs.logIndex",
        "tx_hash=logs.transactionHash",
    )
}

# ---------------------------------------------------------------- EVM exports

ETL = both("ETL")
TIMELESS = [{name: value for name, value in row.items() if name != "block_timestamp"} for row in ETL]
ETHERSCAN = both("ETHERSCAN")
ETHERSCAN_CSV = both("ETHERSCAN_CSV")
DUNE = both("DUNE")
DUNE_TRANSFERS = both("DUNE_TRANSFERS")
ALCHEMY = both("ALCHEMY")
ALCHEMY_COIN = {
    **ALCHEMY[0],
    "category": "external",
    "rawContract": {"value": "0x1", "address": None, "decimal": "0x12"},
}
ANKR = both("ANKR")
BLOCKSCOUT = both("BLOCKSCOUT")
BITQUERY = both("BITQUERY")
COVALENT = [
    {
        "block_height": BLOCKS[n],
        "block_signed_at": ISO[n],
        "tx_hash": HASHES[n],
        "transfers": [
            {"from_address": sender, "to_address": receiver, "contract_address": TOKEN, "delta": str(amount)}
        ],
    }
    for n, (sender, receiver, amount) in enumerate(MOVES)
]
COVALENT_MAP = (
    "from_address=transfers.from_address",
    "to_address=transfers.to_address",
    "token_address=transfers.contract_address",
    "value=transfers.delta",
    "block_number=block_height",
    "block_time=block_signed_at",
)
THE_GRAPH = both("THE_GRAPH")
THE_GRAPH_MAP = ("from_address=from.id", "to_address=to.id", "block_number=blockNumber", "tx_hash=transactionHash")
CLICKHOUSE = both("CLICKHOUSE")
CLICKHOUSE_MAP = (
    "from_address=sender",
    "to_address=recipient",
    "token_address=contract",
    "value=amount",
    "block_number=block_num",
    "block_time=datetime",
    "tx_hash=trx",
    "log_index=ordinal",
)

# ---------------------------------------------------------------- Solana, TRON, TON

SOLSCAN = both("SOLSCAN")
SOLSCAN_NO_TRANSFER = {**SOLSCAN[1], "activity_type": "ACTIVITY_SPL_CREATE_ACCOUNT", "amount": 0}
HELIUS = [
    {
        "signature": "5" * 87 + str(n + 1),
        "slot": BLOCKS[n],
        "timestamp": TIMES[n],
        "type": "TRANSFER",
        "tokenTransfers": [
            {
                "fromUserAccount": ("", SOL_ANN)[n],
                "toUserAccount": (SOL_ANN, SOL_BOB)[n],
                "tokenAmount": (10, 4.0)[n],
                "mint": SOL_MINT,
            }
        ],
    }
    for n in range(2)
]
TRONSCAN = both("TRONSCAN")
TRONSCAN_FAILED = {**TRONSCAN[1], "finalResult": "REVERT", "revert": True}
TRONGRID = both("TRONGRID")
TRONGRID_EVENTS = both("TRONGRID_EVENTS")
TONCENTER = both("TONCENTER")
TONCENTER_ABORTED = {**TONCENTER[1], "transaction_aborted": True}
TONAPI = [
    {
        "operation": ("mint", "transfer")[n],
        "utime": TIMES[n],
        "lt": BLOCKS[n],
        "transaction_hash": HASHES[n][2:],
        "source": (None, {"address": TON_ANN_RAW, "is_wallet": True})[n],
        "destination": {"address": (TON_ANN, TON_BOB)[n], "is_wallet": True},
        "amount": str((1000, 400)[n]),
        "jetton": {"address": TON_RAW_TOKEN, "decimals": 9},
    }
    for n in range(2)
]

ETH = {"chain": "eth"}
SOL, TRON, TON = (SOL_ANN, SOL_BOB), (TRON_ANN, TRON_BOB), (TON_ANN, TON_BOB)

SAMPLES: Sequence[Sample] = (
    Sample("eth_getLogs answer", "logs.json", as_json({"jsonrpc": "2.0", "id": 1, "result": RPC_LOGS}), ETH),
    Sample("eth_getLogs, array", "logs.json", as_json([*RPC_LOGS, APPROVAL, REMOVED]), ETH),
    Sample("eth_getLogs, lines", "logs.jsonl", as_lines(RPC_LOGS), ETH),
    Sample(
        "eth_getLogs, an answer a line",
        "logs.jsonl.gz",
        gzip.compress(as_lines([{"jsonrpc": "2.0", "id": n, "result": [row]} for n, row in enumerate(RPC_LOGS)])),
        ETH,
    ),
    Sample("eth_getLogs, Parquet", "logs.parquet", as_parquet(RPC_LOGS), ETH),
    Sample("eth_getLogs, indented and zstd", "logs.json.zst", zstd(json.dumps(RPC_LOGS, indent=2).encode()), ETH),
    Sample("ethers v5 logs", "logs.json", as_json(ETHERS_V5), {**ETH, "blocks": True}),
    Sample("ethers v6 logs", "logs.json", as_json(ETHERS_V6), {**ETH, "blocks": True}),
    Sample("Etherscan getLogs", "logs.json", as_json({"status": "1", "message": "OK", "result": ETHERSCAN_LOGS}), ETH),
    Sample("Dune ethereum.logs", "logs.csv", as_csv(DUNE_LOGS), ETH),
    Sample("cryo logs", "logs.parquet", as_parquet(CRYO_LOGS)),
    Sample("ethereum-etl logs", "logs.csv", as_csv(ETL_LOGS), ETH),
    Sample("web3.py logs by pandas", "logs.csv", as_csv(WEB3_CSV), ETH),
    Sample("logs in bytea of PostgreSQL", "logs.csv", as_csv(POSTGRES_LOGS), ETH),
    Sample("Subsquid blocks", "blocks.jsonl", as_lines(SUBSQUID), {**ETH, "rows_at": "logs", **MAPPED_LOGS}),
    Sample("ERC-1155 singles", "logs.json", as_json(SINGLES), ETH),
    Sample("ERC-1155 batches", "logs.json", as_json(BATCHES), ETH),
    Sample("ethereum-etl CSV", "transfers.csv", as_csv(ETL), ETH),
    Sample("ethereum-etl JSON lines", "transfers.json", as_lines(ETL), ETH),
    Sample("ethereum-etl without times", "transfers.csv", as_csv(TIMELESS), {**ETH, "blocks": True}),
    Sample("semicolons, BOM, CRLF", "excel.csv", b"\xef\xbb\xbf" + as_csv(ETL, ";", "\r\n"), ETH),
    Sample("tabs", "transfers.tsv", as_csv(ETL, "\t"), ETH),
    Sample("BigQuery crypto_ethereum", "export.csv.gz", gzip.compress(as_csv(ETL)), ETH),
    Sample("Etherscan tokentx", "tokentx.json", as_json({"status": "1", "message": "OK", "result": ETHERSCAN}), ETH),
    Sample(
        "Etherscan CSV export",
        "export-token.csv",
        as_csv(ETHERSCAN_CSV),
        {**ETH, "constants": (f"token_address={TOKEN}", "decimals=2")},
    ),
    Sample("Dune results API", "dune.json", as_json({"result": {"rows": DUNE, "metadata": {"column_names": []}}}), ETH),
    Sample(
        "Alchemy getAssetTransfers",
        "alchemy.json",
        as_json({"jsonrpc": "2.0", "id": 1, "result": {"transfers": [*ALCHEMY, ALCHEMY_COIN], "pageKey": "x"}}),
        ETH,
    ),
    Sample("Ankr", "ankr.json", as_json({"jsonrpc": "2.0", "id": 1, "result": {"transfers": ANKR}})),
    Sample("Blockscout", "blockscout.json", as_json({"items": BLOCKSCOUT, "next_page_params": None}), ETH),
    Sample("Bitquery", "bitquery.json", as_json({"data": {"EVM": {"Transfers": BITQUERY}}}), ETH),
    Sample(
        "Covalent",
        "covalent.json",
        as_json({"data": {"items": COVALENT, "pagination": None}, "error": False}),
        {**ETH, "rows_at": "data.items.transfers", "column_map": COVALENT_MAP},
    ),
    Sample(
        "The Graph",
        "graph.json",
        as_json({"data": {"transfers": THE_GRAPH}}),
        {**ETH, "column_map": THE_GRAPH_MAP, "constants": (f"token_address={TOKEN}",)},
    ),
    Sample("Substreams sink", "sink.csv", as_csv(CLICKHOUSE), {**ETH, "column_map": CLICKHOUSE_MAP}),
    Sample(
        "Solscan",
        "solscan.json",
        as_json({"success": True, "data": [*SOLSCAN, SOLSCAN_NO_TRANSFER]}),
        {"empty_is_zero": True},
        SOL,
        SOL_MINT,
    ),
    Sample(
        "Helius",
        "helius.json",
        as_json(HELIUS),
        {"rows_at": "tokenTransfers", "constants": ("decimals=2",), "empty_is_zero": True},
        SOL,
        SOL_MINT,
    ),
    Sample(
        "TronScan",
        "tronscan.json",
        as_json({"total": 2, "token_transfers": [*TRONSCAN, TRONSCAN_FAILED], "contractInfo": {}}),
        {},
        TRON,
        TRON_TOKEN,
    ),
    Sample(
        "TronGrid TRC-20",
        "trongrid.json",
        as_json({"data": TRONGRID, "success": True, "meta": {"links": {}}}),
        {"column_map": ("block_number=block_timestamp",)},
        TRON,
        TRON_TOKEN,
    ),
    Sample("TronGrid events", "events.json", as_json({"data": TRONGRID_EVENTS, "meta": {}}), {}, TRON, TRON_TOKEN),
    Sample(
        "TON Center",
        "toncenter.json",
        as_json({"jetton_transfers": [*TONCENTER, TONCENTER_ABORTED], "metadata": {"x": {"token_info": [{"a": 1}]}}}),
        {"empty_is_zero": True},
        TON,
        TON_TOKEN,
    ),
    Sample("TonAPI", "tonapi.json", as_json({"operations": TONAPI}), {"empty_is_zero": True}, TON, TON_TOKEN),
)

REFUSED: Sequence[tuple[str, str, bytes, Mapping[str, Any], str]] = (
    ("logs without times", "l.json", as_json(ETHERS_V5), ETH, r"add a file of blocks with their times \(--blocks"),
    ("logs without a chain", "l.json", as_json(RPC_LOGS), {}, "--chain eth"),
    ("Etherscan's error", "t.json", as_json({"status": "0", "result": "Max rate limit reached"}), ETH, "rate limit"),
    ("a node's error", "l.json", as_json({"jsonrpc": "2.0", "id": 1, "error": {"code": -32005}}), ETH, "API's error"),
    ("Etherscan CSV", "e.csv", as_csv(ETHERSCAN_CSV), ETH, r"--set token_address=ADDRESS.*--set decimals=18"),
    ("TronGrid TRC-20", "t.json", as_json({"data": TRONGRID}), {}, "--map block_number=block_timestamp"),
    ("Helius", "h.json", as_json(HELIUS), {}, "--rows tokenTransfers"),
    ("Helius, rows named", "h.json", as_json(HELIUS), {"rows_at": "tokenTransfers"}, "--set decimals=18"),
    ("Solscan's mints", "s.json", as_json({"data": SOLSCAN}), {}, "row 1, column from_address: .* --empty-is-zero"),
    (
        "two lists",
        "two.json",
        as_json({"data": {"sent": ETL, "received": ETL}}),
        ETH,
        "--rows data.sent or --rows data",
    ),
    ("The Graph", "g.json", as_json({"data": {"transfers": THE_GRAPH}}), ETH, "--map block_number=blockNumber"),
    ("thousands", "e.csv", as_csv([{**ETL[0], "value": "1,000"}]), ETH, "row 1, column value: .*--thousands"),
    ("Excel", "e.csv", as_csv([{**ETL[0], "value": "1.23E+21"}]), ETH, "has lost digits"),
    ("float amounts", "p.parquet", as_parquet([{**ETL[0], "value": 1e21}]), ETH, "floating-point number is not exact"),
    (
        "rounded units",
        "u.csv",
        as_csv([{**ETL[0], "value": "1234.567890123457"}]),
        {**ETH, "constants": ("decimals=18",)},
        "may be rounded, because floating-point numbers have 16 digits",
    ),
    ("ENS names", "e.csv", as_csv([{**ETL[0], "to_address": "vitalik.eth"}]), ETH, "row 1, column to_address: .*name"),
    ("exchange names", "e.csv", as_csv([ETL[0], {**ETL[1], "to_address": "OKEx"}]), ETH, "row 2, column to_address"),
    ("null", "e.csv", as_csv([{**ETL[0], "from_address": "null"}]), ETH, "an address is missing"),
    ("short bytea", "e.csv", as_csv([{**ETL[0], "from_address": r"\x00e7"}]), ETH, "it has 4 digits"),
    ("zip", "e.xlsx", b"PK\x03\x04 and more", ETH, "Excel workbook; unpack it, or save the sheet as CSV"),
    ("UTF-16", "e.csv", "a,b\n1,2\n".encode("utf-16"), ETH, "UTF-16; save it in UTF-8"),
    ("cut gzip", "e.csv.gz", gzip.compress(as_csv(ETL * 500))[:-20], ETH, "it may be damaged: fetch the file again"),
    ("cut zstd", "e.csv.zst", zstd(as_csv(ETL * 500))[:-9], ETH, "it may be damaged: fetch the file again"),
    ("cut JSON", "e.json", as_json(ETL)[:-9], ETH, "not complete JSON"),
    ("empty", "e.csv", b"", ETH, "the file is empty"),
    ("repeated column", "e.csv", b"value,value\n1,2\n", ETH, "column value occurs more than once"),
    ("another chain's name", "e.csv", as_csv([{**DUNE_TRANSFERS[0], "blockchain": "bnb"}]), ETH, "row is of chain bsc"),
)
"""Title, name, bytes, options, and what the refusal says."""

BLOCKS_FILE = as_csv([{"number": block, "timestamp": time} for block, time in zip(BLOCKS, TIMES, strict=True)])
