"""Kinds of files that people publish: claims, pairs, dumps of explorers and lists of tokens, rebuilt small."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.chains.addresses import parse_address
from holderlake.engine.errors import BadSource
from holderlake.sources.balance_lists import BalanceOptions, balance_map, read_balances
from holderlake.sources.files.mapping import ColumnMap, parse_map, suggestion
from holderlake.sources.files.transfers import FileOptions
from holderlake.sources.notices import rounded_values
from holderlake.sources.raw_rows import read_raw
from holderlake.sources.token_lists import is_token_list, read_tokens
from tests.sources.reading import read_file, written

A, B, C, TOKEN = (f"0x{number:040x}" for number in (0xA1, 0xB2, 0xC3, 0x5E))
HASH, NEXT = (f"0x{number:064x}" for number in (1, 2))
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
TRC, TRC2 = "TPf9z593rAVr1pSAy3Vw2RxKFnFpoPKqL3", "TANcySryLJEjuJRoLzqXRjSJf4aRLG82Rr"


def balances(
    path: Path, *pairs: str, rows: str | None = None, token: str | None = TOKEN, decimals: str | None = None
) -> dict[str, int]:
    column_map = balance_map(list(pairs), [f"decimals={decimals}"] if decimals else [])
    options = BalanceOptions("eth", token, at=1_700_000_000, column_map=column_map, rows_at=rows)
    listed: dict[str, int] = {}
    for row in read_balances(path, options).balances.to_pylist():
        listed[row["address"]] = listed.get(row["address"], 0) + int(row["balance"])
    return listed


def notices(path: Path) -> list[str]:
    return read_balances(path, BalanceOptions("eth", TOKEN, at=1_700_000_000)).notices


# ------------------------------------------------------------------ objects and arrays of holders

HELD = {A: 250, B: 4000}


@pytest.mark.parametrize(
    "document",
    [
        {A: "250", B: "4000"},
        {A: 250, B: "0xfa0"},
        {"balances": {A: "250", B: "4000"}},
        {"data": {"holders": {A: "250", B: "4000"}}},
        {A: {"amount": "0xfa", "index": 0, "proof": []}, B: {"amount": "0x0fa0", "index": 1, "proof": [HASH, NEXT]}},
        {"merkleRoot": HASH, "tokenTotal": "0x", "claims": {A: {"amount": "0xfa"}, B: {"amount": "0xfa0"}}},
        {"root": HASH, "recipients": {A: {"balance": "250"}, B: {"balance": "4000"}}},
        {A: {"wallet": A, "amount": 250}, B: {"wallet": B, "amount": 4000}},
        {"metadata": {"token": TOKEN}, "claims": [{"account": A, "amount": "250"}, {"account": B, "amount": "4000"}]},
        [{"address": [A], "balance": "250"}, {"address": [B], "balance": "4000"}],
        {A: {"amount": {"type": "BigNumber", "hex": "0xfa"}}, B: {"amount": {"type": "BigNumber", "hex": "0xfa0"}}},
        [
            {"address": A, "balance": {"_hex": "0xfa", "_isBigNumber": True}},
            {"address": B, "balance": {"_hex": "0xfa0"}},
        ],
        [{"address": A, "balance": {"$numberLong": "250"}}, {"address": B, "balance": {"$bigint": "4000"}}],
    ],
)
def test_holders_of_objects_are_read(document: object, tmp_path: Path) -> None:
    assert balances(written(tmp_path, document)) == HELD


@pytest.mark.parametrize(
    ("document", "rows", "columns"),
    [
        ([[A, "250"], [B, "4000"]], None, ("column1", "column2")),
        ({"list": [[1, A, "250"], [2, B, "4000"]]}, None, ("column2", "column3")),
        ({"tree": [HASH], "values": [{"value": [A, "250"]}, {"value": [B, "4000"]}]}, "value", ("1", "2")),
        ({"tree": {"tree": [HASH], "values": [{"value": [0, A, 250]}, {"value": [1, B, 4000]}]}}, "value", ("2", "3")),
    ],
)
def test_cells_of_arrays_are_columns(
    document: object, rows: str | None, columns: tuple[str, str], tmp_path: Path
) -> None:
    path, names = written(tmp_path, document), [name if rows is None else f"value.column{name}" for name in columns]
    with pytest.raises(BadSource) as refused:
        balances(path)
    assert (f"--rows {rows}" if rows else f"addresses are in {names[0]}") in str(refused.value)
    assert balances(path, f"address={names[0]}", f"balance={names[1]}", rows=rows) == HELD


def test_items_of_an_owner_are_read_by_the_rows_that_the_refusal_names(tmp_path: Path) -> None:
    items = [[{"tokenId": "0x1", "balance": 1}, {"tokenId": "0x2", "balance": 1}], [{"tokenId": "0x3", "balance": 2}]]
    owners = [{"ownerAddress": owner, "tokenBalances": held} for owner, held in zip((A, B), items, strict=True)]
    path = written(tmp_path, {"ownerAddresses": owners})
    with pytest.raises(BadSource, match="add --rows tokenBalances"):
        balances(path)
    assert balances(path, rows="tokenBalances") == {A: 2, B: 2}


def test_claims_within_the_tokens_of_a_list_are_read_by_the_named_rows(tmp_path: Path) -> None:
    claims = {address: {"index": 0, "amount": str(value), "proof": [HASH]} for address, value in HELD.items()}
    path = written(tmp_path, [{"symbol": "QLL", "address": TOKEN, "merkle": claims}])
    with pytest.raises(BadSource, match="add --rows merkle"):
        balances(path)
    assert balances(path, "address=merkle.key", "balance=merkle.amount", rows="merkle") == HELD


def test_rows_of_one_holder_are_noticed(tmp_path: Path) -> None:
    rows = [{"address": TOKEN, "merkle.key": address, "amount": "250"} for address in (A, B)]
    assert "all 2 rows have the holder" in notices(written(tmp_path, rows))[0]
    assert notices(written(tmp_path, [{"owner": A, "token_id": "1"}, {"owner": A, "token_id": "2"}])) == []


def test_one_token_is_not_given_to_the_rows_of_others(tmp_path: Path) -> None:
    coins = [[{"denom": "rune", "amount": "100"}, {"denom": "tor", "amount": "7"}], [{"denom": "rune", "amount": "3"}]]
    accounts = [{"address": address, "coins": held} for address, held in zip((A, B), coins, strict=True)]
    path = written(tmp_path, {"bank": {"balances": accounts}})
    with pytest.raises(BadSource, match=r"column coins\.denom has 2 \(rune, tor, …\); set none and map"):
        balances(path, rows="bank.balances.coins")
    transfers = written(
        tmp_path, f"contract,from,to,n,t\n{TOKEN},{A},{B},1,1700000000\n{C},{A},{B},2,1700000000\n", "t"
    )
    column_map = parse_map(
        ("from_address=from", "to_address=to", "block_number=n", "block_time=t"), (f"token_address={TOKEN}", "value=1")
    )
    with pytest.raises(BadSource, match=r"column contract has 2 .*--map token_address=contract"):
        read_file(transfers, FileOptions(chain="eth", column_map=column_map))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"sender,value\n{A},5\n", r"--map address=COLUMN \(addresses are in sender\)"),
        (f"address,free,held\n{A},5,6\n", r"--map balance=COLUMN \(numbers are in free, held\)"),
        (f'"address, amount"\n"{A}, 5"\n', "remove the quotation marks"),
        (f'"address;amount"\n"{A};5"\n', "remove the quotation marks"),
        (f"{A},{B},5,x\n", "for example address1,address2,balance,column4"),
        (f"1,0.5,{A}\n", "for example balance1,balance2,address"),
    ],
)
def test_a_refused_list_names_the_remedy(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadSource, match=words):
        balances(written(tmp_path, text, "list.csv"))


# ------------------------------------------------------------------ answers of APIs and exports

ANSWERS = tomllib.loads(Path(__file__).with_name("answers.toml").read_text(encoding="utf-8"))
ANN, BOB = (f"0x{pair * 20}" for pair in ("a1", "b2"))


def title(answer: Mapping[str, Any]) -> str:
    return str(answer["title"])


def holders(answer: Mapping[str, Any]) -> list[str]:
    return [parse_address(answer.get("chain", "eth"), address) for address in answer.get("holders", (ANN, BOB))]


@pytest.mark.parametrize("answer", ANSWERS["balances"], ids=title)
def test_an_answer_with_holders_gives_each_its_balance(answer: Mapping[str, Any], tmp_path: Path) -> None:
    column_map = balance_map(answer.get("map", ()), answer.get("set", ()))
    chain, token = answer.get("chain", "eth"), answer.get("token", TOKEN)
    options = BalanceOptions(chain, token, at=1_717_281_419, column_map=column_map, rows_at=answer.get("rows"))
    read = read_balances(written(tmp_path, answer["answer"]), options)
    listed = [(row["address"], int(row["balance"])) for row in read.balances.to_pylist()]
    assert sorted(listed) == sorted(zip(holders(answer), (600, 400), strict=True))
    assert read.notices == []


@pytest.mark.parametrize("answer", ANSWERS["transfers"], ids=title)
def test_an_answer_with_transfers_is_read_as_its_refusal_suggests(answer: Mapping[str, Any], tmp_path: Path) -> None:
    path, maps, chain = written(tmp_path, answer["answer"]), answer.get("map", ()), answer.get("chain", "eth")
    if maps:
        with pytest.raises(BadSource) as refused:
            read_file(path, FileOptions(chain=chain, rows_at=answer.get("rows")))
        assert [pair for pair in maps if f"--map {pair}" not in str(refused.value)] == []
    options = FileOptions(
        chain=chain, column_map=parse_map(maps, answer.get("set", ())), rows_at=answer.get("rows"), empty_is_zero=True
    )
    balances: Counter[str] = Counter()
    for move in read_file(path, options).transfers.to_pylist():
        balances[move["from_address"]] -= int(move["value"])
        balances[move["to_address"]] += int(move["value"])
    assert balances == {ZERO_ADDRESS: -1000, **dict(zip(holders(answer), (600, 400), strict=True))}


# ------------------------------------------------------------------ digits that floating-point numbers lost

EXACT = [4321291584411440987654321, 1282030810403548123456789, 783494902945916912345678, 636054528001411498765432]


@pytest.mark.parametrize(
    ("numbers", "is_rounded"),
    [
        (EXACT, False),
        ([int(float(number)) for number in EXACT], True),
        ([int(f"{float(number):.15e}".replace(".", "").split("e")[0]) * 10**8 for number in EXACT], True),
        ([int(f"{float(number):.14e}".replace(".", "").split("e")[0]) * 10**9 for number in EXACT], True),
        ([*(int(float(number)) for number in EXACT), EXACT[0]], False),
        ([number * 10**18 for number in (5, 60_000, 123_456, 999)], False),
        ([int(float(number)) for number in EXACT[:2]], False),
    ],
)
def test_amounts_of_lost_digits_are_noticed(numbers: Sequence[int], is_rounded: bool, tmp_path: Path) -> None:
    rows = [{"address": f"0x{place:040x}", "balance": str(number)} for place, number in enumerate(numbers, start=1)]
    assert ["rounded to the digits" in notice for notice in notices(written(tmp_path, rows))] == [True] * is_rounded
    moves = [
        {"chain": "eth", "token_address": TOKEN, "from_address": A, "to_address": B, "value": str(number),
         "block_number": place, "block_time": 1_700_000_000}
        for place, number in enumerate(numbers)
    ]  # fmt: skip
    assert bool(rounded_values(read_file(written(tmp_path, moves), FileOptions()).transfers)) == is_rounded


# ------------------------------------------------------------------ transfers

MAP = ("from_address=From", "to_address=To", "value=Value", "block_number=Block", "block_time=Time", "tx_hash=Hash")


@pytest.mark.parametrize(
    ("column", "fine", "failed"),
    [
        ("Status", "", "Error(0)"),
        ("status", "ok", "failed"),
        ("isError", "0", "1"),
        ("txreceipt_status", "1", "0"),
        ("receipt_status", "0x1", "0x0"),
        ("Success", "TRUE", "FALSE"),
        ("tx_succeeded", "true", "false"),
        ("TransactionStatus_Success", "true", "false"),
        ("Result", "success", "fail"),
        ("reverted", "false", "true"),
        ("successful", "True", " false "),
    ],
)
def test_rows_of_failed_transactions_are_passed_over(column: str, fine: str, failed: str, tmp_path: Path) -> None:
    rows = "".join(
        f"{A},{B},{value},{block},1700000000,{HASH},{status}\n"
        for value, block, status in ((250, 1, fine), (7, 2, failed), (9, 3, fine))
    )
    path = written(tmp_path, f"From,To,Value,Block,Time,Hash,{column}\n{rows}", "t.csv")
    read = read_file(path, FileOptions(chain="eth", column_map=parse_map(MAP, ("token_address=native",))))
    assert (read.transfers["value"].to_pylist(), read.passed_over, read.rejected) == (["250", "9"], 1, None)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("erc20_token,erc20_from,erc20_to,erc20_value,erc20_block_number",
         {"token_address": "erc20_token", "from_address": "erc20_from", "to_address": "erc20_to",
          "value": "erc20_value", "block_number": "erc20_block_number"}),
        ("from.id,to.id,value,blockNumber,token.id,transaction.id",
         {"from_address": "from.id", "to_address": "to.id", "block_number": "blockNumber", "token_address": "token.id",
          "tx_hash": "transaction.id"}),
        ("from,to,value,contract.address,transaction.from,transaction.blockNumber,transaction.timestamp",
         {"from_address": "from", "to_address": "to", "token_address": "contract.address",
          "block_number": "transaction.blockNumber", "block_time": "transaction.timestamp"}),
        ("fromId,toId,amount,tokenId",
         {"from_address": "fromId", "to_address": "toId", "value": "amount", "token_id": "tokenId"}),
        ("from,to,tokenId --set token_standard=erc721 --set value=1",
         {"from_address": "from", "to_address": "to", "token_id": "tokenId"}),
        ("From Address,To Address,Asset Contract Address,Token ID,Value / Amount",
         {"from_address": "'From Address'", "to_address": "'To Address'", "token_id": "'Token ID'",
          "token_address": "'Asset Contract Address'", "value": "'Value / Amount'"}),
        ("currency_from_address,currency_to_address,sender_address,receiver_address",
         {"from_address": "sender_address", "to_address": "receiver_address"}),
        ("from,to,value,transaction_index", {"from_address": "from", "to_address": "to"}),
        ("UnixTimestamp,DateTime", {"block_time": "UnixTimestamp"}),
        ("tokenAddress,Block Time", {"token_address": "tokenAddress", "block_time": "'Block Time'"}),
        ("From,Amount,Value,Decimals", {"from_address": "From", "value": "Amount"}),
        ("block_hash,from,to", {"from_address": "from", "to_address": "to"}),
        ("result.blockHash,result.hash,result.blockNumber",
         {"tx_hash": "result.hash", "block_number": "result.blockNumber"}),
        ("gem,src,dst,amt", {"token_address": "gem", "from_address": "src", "to_address": "dst", "value": "amt"}),
        ("sender_address,receiver_address,gas_fee_amount",
         {"from_address": "sender_address", "to_address": "receiver_address"}),
    ],
)  # fmt: skip
def test_suggested_maps_name_the_columns_of_each_kind(names: str, expected: Mapping[str, str]) -> None:
    columns, _, constants = names.partition(" --set")
    mapped, _, suggested_constants = suggestion(columns.split(",")).partition(" --set")
    options = mapped.split("--map ")[1:]
    assert dict(option.strip().split("=", 1) for option in options) == expected
    assert constants == suggested_constants


def test_a_map_of_the_user_does_not_make_the_file_one_of_ethereum(tmp_path: Path) -> None:
    row = {"tx_hash": HASH[2:], "transfer_from": "1CLAudzPKzt7tnd7XNy6n6UJGtzGYf1jWB", "transfer_to": "bc1qxy",
           "value": "728", "block": 859366, "tx_time": 1725188908, "currency_token_id": "2147484212"}  # fmt: skip
    pairs = ("from_address=transfer_from", "to_address=transfer_to", "token_address=currency_token_id",
             "block_number=block", "block_time=tx_time")  # fmt: skip
    options = FileOptions(chain="bitcoin", column_map=parse_map(pairs, ("decimals=8",)))
    (move,) = read_file(written(tmp_path, row), options).transfers.to_pylist()
    assert (move["token_address"], move["to_address"], move["value"]) == ("2147484212", "bc1qxy", "72800000000")


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        # with these maps, most columns of TronGrid, TronScan, Solscan, Etherscan or TON Center have a column
        ("block_timestamp,block_number,from_address,to_address,contract,amt,hash",
         ("value=amt", "token_address=contract", "tx_hash=hash")),
        ("block_ts,block,from_address,to_address,contract_address,amt,hash",
         ("value=amt", "token_address=contract_address", "tx_hash=hash", "block_number=block", "block_time=block_ts")),
        ("block_time,block_id,from_address,to_address,token_address,raw,hash",
         ("value=raw", "block_number=block_id", "tx_hash=hash")),
        ("UnixTimestamp,Blockno,From,To,Contract,Amt,Txhash",
         ("value=Amt", "token_address=Contract", "from_address=From", "to_address=To", "block_number=Blockno",
          "block_time=UnixTimestamp", "tx_hash=Txhash")),
        ("transaction_now,transaction_lt,source,destination,token,amount,transaction_hash",
         ("from_address=source", "to_address=destination", "token_address=token", "value=amount",
          "block_number=transaction_lt", "block_time=transaction_now", "tx_hash=transaction_hash")),
    ],
)  # fmt: skip
def test_a_map_does_not_move_a_file_to_another_chain(names: str, pairs: Sequence[str], tmp_path: Path) -> None:
    row = (1_700_000_000, 5, A, B, TOKEN, 250, HASH)
    path = written(tmp_path, f"{names}\n{','.join(map(str, row))}\n", "t.csv")
    (move,) = read_file(path, FileOptions(chain="eth", column_map=parse_map(pairs, ()))).transfers.to_pylist()
    assert (move["chain"], move["from_address"], move["to_address"], move["value"]) == ("eth", A, B, "250")
    assert (move["tx_hash"], move["block_number"], move["block_time"]) == (HASH, 5, 1_700_000_000)


@pytest.mark.parametrize("token", ["0x", "-", "0"])
def test_a_mark_of_the_coin_is_refused_with_its_name(token: str, tmp_path: Path) -> None:
    rows = [{"address": A, "balance": "5", "token": token}]
    with pytest.raises(BadSource, match="write native"):
        balances(written(tmp_path, rows), token=None)


@pytest.mark.parametrize(
    "names",
    [
        (
            "sender_address",
            "raw_log_topics",
            "raw_log_data",
            "block_height",
            "log_offset",
            "tx_hash",
            "block_signed_at",
        ),
        ("log_address", "log_topics", "log_data", "log_block_number", "log_index", "log_transaction_hash", "timestamp"),
    ],
)
def test_logs_of_other_names_are_read(names: Sequence[str], tmp_path: Path) -> None:
    topics = [TRANSFER, *(f"0x{'0' * 24}{address[2:]}" for address in (A, B))]
    values = (TOKEN, topics, f"0x{250:064x}", 5, 3, HASH, "2023-06-08T04:10:11Z")
    row = dict(zip(names, values, strict=True))
    (move,) = read_file(written(tmp_path, [row]), FileOptions(chain="eth")).transfers.to_pylist()
    assert (move["from_address"], move["to_address"], move["value"], move["log_index"]) == (A, B, "250", 3)


@pytest.mark.parametrize(
    ("column_map", "extra", "decimals"),
    [
        (ColumnMap(constants={"decimals": "6"}), {}, 6),
        (ColumnMap({"decimals": "places"}), {"places": "6"}, 6),
        (ColumnMap({"decimals": "places"}), {"places": "0x6"}, 6),
        (ColumnMap(), {}, None),
    ],
)
def test_decimals_that_a_file_states_are_known(
    column_map: ColumnMap, extra: Mapping[str, str], decimals: int | None, tmp_path: Path
) -> None:
    row = {"chain": "eth", "token_address": TOKEN, "from_address": A, "to_address": B, "value": "5",
           "block_number": 1, "block_time": 1_700_000_000, **extra}  # fmt: skip
    read = read_file(written(tmp_path, [row]), FileOptions(column_map=column_map))
    assert read.decimals == ({} if decimals is None else {("eth", TOKEN): decimals})


def test_decimals_that_differ_between_rows_are_not_known(tmp_path: Path) -> None:
    row = {"chain": "eth", "token_address": TOKEN, "from_address": A, "to_address": B, "value": "5",
           "block_number": 1, "block_time": 1_700_000_000}  # fmt: skip
    path = written(tmp_path, [{**row, "places": 6}, {**row, "places": 8}])
    assert read_file(path, FileOptions(column_map=ColumnMap({"decimals": "places"}))).decimals == {}


# ------------------------------------------------------------------ tokens

FACTS: dict[str, Any] = {"name": "Quill", "symbol": "QLL", "decimals": 6}


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ({"tokens": [{**FACTS, "chainId": 1, "address": TRC}]}, [("tron", TRC)]),
        ({"tokens": [{**FACTS, "address": TRC}, {**FACTS, "chainId": 1, "address": A}]}, [("tron", TRC), ("eth", A)]),
        ([{**FACTS, "chain_id": "0x38", "address": A}, {**FACTS, "chain_id": 1, "address": B}],
         [("bsc", A), ("eth", B)]),
        ([{**FACTS, "chain": "polygon", "address": A}], [("polygon", A)]),
        ({"tokens": [{**FACTS, "chainId": "ethereum", "address": A}]}, [("eth", A)]),
        ({f"1-{A}": {**FACTS, "chain_id": 1, "contract_address": A},
          f"56-{B}": {**FACTS, "chain_id": 56, "contract_address": B}}, [("eth", A), ("bsc", B)]),
        ({A: FACTS, B: FACTS}, [("eth", A), ("eth", B)]),
        ({**FACTS, "address": TRC2}, [("tron", TRC2)]),
        (f"address,symbol,name,decimals,chain\n{A},QLL,Quill,6,eth\n", [("eth", A)]),
        ({"tokens": [{**FACTS, "chainId": "56", "contractAddress": A}]}, [("bsc", A)]),
        ([{**FACTS, "chainId": 1, "address": A, "logoURI": None}], [("eth", A)]),
    ],
)  # fmt: skip
def test_lists_of_tokens_of_other_forms_are_read(
    content: object, tokens: Sequence[tuple[str, str]], tmp_path: Path
) -> None:
    path = written(tmp_path, content)
    assert is_token_list(read_raw(path))
    assert [(token.chain, token.address) for token in read_tokens(path).tokens] == list(tokens)


@pytest.mark.parametrize("name", ["from", "to_address", "dst", "value", "balance", "owner"])
def test_rows_that_state_symbol_and_decimals_are_no_tokens(name: str, tmp_path: Path) -> None:
    assert not is_token_list(read_raw(written(tmp_path, [{**FACTS, "address": A, name: B}])))
