"""Labels of six public collections and of our own CSV, with conservative kinds."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from holderlake.engine.errors import BadSource
from holderlake.engine.records import Label
from holderlake.sources.label_kinds import Kinds, kinds_of
from holderlake.sources.labels import EDINBURGH, ETH_LABELS, EXPLORER, GRAPHSENSE, HAND, LabelFile, read_labels

A, B, C = ("0x" + letter * 40 for letter in "abc")


def written(tmp_path: Path, text: str, name: str = "labels.csv") -> LabelFile:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return read_labels(path)


def by_address(file: LabelFile) -> dict[str, Label]:
    return {label.address: label for label in file.labels}


def kinds(label: Label) -> tuple[bool, bool, bool]:
    return label.is_cex, label.is_dex, label.is_contract


# ---------------------------------------------------------------- kinds from names and tags

CEX = Kinds(is_cex=True)
DEX = Kinds(is_dex=True, is_contract=True)
CONTRACT = Kinds(is_contract=True)
NOTHING = Kinds()


@pytest.mark.parametrize(
    ("name", "tags", "expected"),
    [
        ("Binance 14", ["binance"], CEX),
        ("Binance: Hot Wallet 10", ["exchange"], CEX),
        ("Coinbase Prime: Deposit Funder 1", ["coinbase"], CEX),
        ("mexc.com 2", ["exchange"], CEX),
        ("HTX:Old Address 4", [], CEX),
        ("FTX US 4", ["ftx"], CEX),
        ("", ["hotbit"], CEX),
        ("Gemini: Contract 1", ["gemini"], Kinds(is_cex=True, is_contract=True)),
        # an exchange's address without customers' coins
        ("Binance: BNB Token", ["binance"], CONTRACT),
        ("Coinbase: Deployer", ["coinbase"], NOTHING),
        ("Binance Charity: Wallet", ["binance-charity"], NOTHING),
        ("Huobi Mining Pool", ["mining", "huobi"], NOTHING),
        ("OKX DEX: Aggregation Router", ["okx"], CONTRACT),
        # the tag of an exchange, the name of another owner
        ("Wintermute: Binance Deposit", ["binance"], NOTHING),
        ("Arbitrum Foundation: Old L1 Security Council 9", ["deribit"], NOTHING),
        ("Upbit Hacker 4.22", [], NOTHING),
        ("", ["binance-deposit"], NOTHING),
        ("Validator: Coinbase", ["coinbase", "validator"], NOTHING),
        ("Uniswap V3", [], DEX),
        ("SushiSwap: USDC-QUARTZ", ["sushiswap"], DEX),
        ("Balancer: ETH/DAI 60/40 #2", ["balancer"], DEX),
        ("Bancor: Converter 288", ["bancor"], DEX),
        ("BSCswap: ELON", ["bscswap"], DEX),
        ("SushiSwap: SUSHI Token", ["sushiswap"], CONTRACT),
        ("Balancer: Shareholder 38", ["balancer", "balancer-vested-shareholders"], NOTHING),
        ("Uniswap: Deployer", ["uniswap"], NOTHING),
        ("Gitcoin Grants: Uniswap", ["gitcoin-grants"], NOTHING),
        ("Radar Relay", ["0x-protocol-ecosystem", "dex"], Kinds(is_dex=True)),
        ("Arbitrum Bridge", [], CONTRACT),
        ("", ["old-contract"], CONTRACT),
        ("QuiDao: Deployer", ["old-contract", "contract-deployer"], NOTHING),
        ("Null: 0x000...dEaD", ["burn"], CONTRACT),
        ("Burn Address", [], CONTRACT),
        ("Token Contract", [], CONTRACT),
        ("Endaoment: Desert X", ["charity", "endaoment"], NOTHING),
        ("", ["friend-tech-users"], NOTHING),
        ("Fund: Paradigm (old)", ["fund"], NOTHING),
    ],
)
def test_kinds_of_names_and_tags(name: str, tags: list[str], expected: Kinds) -> None:
    found = kinds_of(name, tags)
    assert (found.is_cex, found.is_dex, found.is_contract) == (expected.is_cex, expected.is_dex, expected.is_contract)


@pytest.mark.parametrize(
    ("name", "entity"),
    [("OKX 4", "okx"), ("Huobi 3", "htx"), ("Crypto.com: MultiSig 7", "crypto-com"), ("Kyber: KNC", "kyberswap")],
)
def test_an_owner_has_one_spelling(name: str, entity: str) -> None:
    assert kinds_of(name).entity_id == entity


# ---------------------------------------------------------------- layouts made by hand


def test_our_own_csv_is_read(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "address,name,chain,entity_id,is_cex,is_dex,is_contract,is_paid_label\n"
        f"{A.upper().replace('0X', '0x')},Northgate 1,eth,northgate,true,no,0,\n"
        f"{A},Another owner,bsc,,,,,1\n"
        "So11111111111111111111111111111111111111112,Uniswap V3,solana,,false,false,false,false\n",
    )
    assert file.source == "hand:labels"
    assert file.labels[0] == Label(A, "eth", "hand:labels", "Northgate 1", "northgate", is_cex=True, precedence=HAND)
    assert file.labels[1] == Label(A, "bsc", "hand:labels", "Another owner", is_paid_label=True, precedence=HAND)
    assert kinds(file.labels[2]) == (False, False, False)
    assert file.labels[2].address.startswith("So1")


def test_our_own_csv_without_kinds_takes_them_from_names(tmp_path: Path) -> None:
    labels = by_address(written(tmp_path, f"address,name\n{A},Kucoin\n{B},Uniswap V3\n{C},Grandmother\n"))
    assert kinds(labels[A]) == (True, False, False)
    assert kinds(labels[B]) == (False, True, True)
    assert kinds(labels[C]) == (False, False, False)
    assert labels[C].chain is None


def test_our_own_csv_has_precedences_and_paid_labels(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "address,chain,name,entity_id,is_cex,is_dex,is_contract,is_paid_label,precedence\n"
        f"{A},eth,Best Fund,best-fund,,,,true,15\n{B},,Its Pool,,,true,true,,\n{C},,Last Resort,,,,,,-1\n",
        "community.csv",
    )
    assert file.labels == [
        Label(A, "eth", "hand:community", "Best Fund", "best-fund", is_paid_label=True, precedence=15),
        Label(B, None, "hand:community", "Its Pool", is_dex=True, is_contract=True, precedence=HAND),
        Label(C, None, "hand:community", "Last Resort", precedence=-1),
    ]


def test_our_own_csv_has_periods(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "address,name,valid_from,valid_to\n"
        f"{A},Ann,,2023-12-31\n{A},Bob,2024-01-01T06:00:00Z,2024-01-01T10:00:00+02:00\n{B},Cid,2024-01-01,\n",
    )
    new_year = 1_704_067_200
    assert [(label.name, label.valid_from, label.valid_to) for label in file.labels] == [
        ("Ann", None, new_year - 1),
        ("Bob", new_year + 6 * 3_600, new_year + 8 * 3_600),
        ("Cid", new_year, None),
    ]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (f"{A},Ann,soon,", "line 3, column valid_from: 'soon' is not a time"),
        (f"{A},Ann,2024-01-02,2024-01-01", "line 3, column valid_to: the period ends before it begins"),
        (f"{C},Ann,2024-01-01,", "line 3, column address: .* is labelled twice; keep one row, or give each its own"),
    ],
)
def test_an_invalid_period_refuses_the_file(tmp_path: Path, row: str, words: str) -> None:
    with pytest.raises(BadSource, match=f"labels.csv, {words}"):
        written(tmp_path, f"address,name,valid_from,valid_to\n{C},Cid,2024-01-01,\n{row}\n")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (f"{A},eth,Ann,,high", "line 4, column precedence: 'high' is not a whole number"),
        (f"{A},eth,Ann,,1.5", "line 4, column precedence"),
        (f"{A},eth,Ann,,99999999999", "line 4, column precedence"),
        (f"{A},eth,Ann,perhaps,", "line 4, column is_paid_label: 'perhaps' is not true or false"),
        (f"{A[:-1]},eth,Ann,,", "line 4, column address: .* is not an address of chain eth"),
        (f"{A},solana,Ann,,", "line 4, column address: .* is not an address of chain solana"),
        ("two words,,Ann,,", "line 4, column address"),
        (f"{A},my chain,Ann,,", "line 4, column chain: 'my chain' is not a chain id"),
        (f"{A},eth,,true,", "line 4, column name: the row has neither a name nor a kind"),
        (f"{A},eth,Ann", "line 4: the row has 3 fields, the header has 5"),
        (f"{C},eth,Ann,,", "line 4, column address: .* is labelled twice"),
        (f'{A},eth,"Ann,,\n{B},eth,Bob,,\n', "line 4: the row has 3 fields, the header has 5"),
        (f'{A},eth,"Ann\nand Bob",,\n', "line 4, column name: the name has several lines"),
    ],
)
def test_an_invalid_row_of_our_own_csv_refuses_the_file(tmp_path: Path, row: str, words: str) -> None:
    with pytest.raises(BadSource, match=f"labels.csv, {words}"):
        written(tmp_path, f"address,chain,name,is_paid_label,precedence\n{C},eth,Cid,,\n\n{row}\n")


def test_several_rows_of_eth_labels_make_one_label(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "chain_id,address,label,name\n"
        f"1,{A},sushiswap,\n1,{A},defi,SushiSwap: USDC-QUARTZ\n56,{A},exchange,Gate.io\n"
        f"42220,{B},celo,Celo: Something\ngnosis,{C},bridge,Gnosis: Bridge\n1,nonsense,dex,Nowhere\n",
        "accounts.csv.gz",
    )
    assert [(label.chain, label.name) for label in file.labels] == [
        ("eth", "SushiSwap: USDC-QUARTZ"),
        ("bsc", "Gate.io"),
        ("gnosis", "Gnosis: Bridge"),
    ]
    assert [kinds(label) for label in file.labels] == [(False, True, True), (True, False, False), (False, False, True)]
    assert {(label.source, label.precedence) for label in file.labels} == {("eth-labels", ETH_LABELS)}
    assert file.skipped == 2


def test_graphsense_tags_of_known_networks_are_read(tmp_path: Path) -> None:
    solana = "FxteHmLwG9nk1eL4pjNve3Eub2goGkkz6g6TbvdmW46a"
    file = written(
        tmp_path,
        "network,address,label,category,actor,pack\n"
        f"ETH,{A},okx ERC20 reserves,exchange,okex,exchange-wallets-okx.yaml\n"
        f"BEP20,{B} ,uniswap_SwapRouter,defi_dex,uniswap,defi-protocols-csh.yaml\n"
        f"SOL,{solana},deribit reserves,exchange,deribit,x.yaml\n"
        f"ETH,{C},ABCC Token (AT),exchange,abcc,etherscan-wordcloud-exchange.yaml\n"
        "BTC,1NDyJtNTjmwk5xPNhjgAMu4HDHigtobu1s,binance.com,exchange,binance,binance.yaml\n"
        "AVAX,X-avax1ju2khnvkex4u30rt5jm5x8jd3jdfhvawg7ed9x,bitfinex,exchange,bitfinex,x.yaml\n"
        f"ETH,{A},a name, with a comma,exchange,okex,x.yaml\n",
    )
    labels = by_address(file)
    assert [(label.chain, label.entity_id) for label in labels.values()] == [
        ("eth", "okx"),
        ("bsc", "uniswap"),
        ("solana", "deribit"),
        ("eth", "abcc"),
    ]
    assert kinds(labels[A]) == (True, False, False)
    assert kinds(labels[B]) == (False, True, True)
    assert kinds(labels[C]) == (False, False, True)
    assert file.skipped == 3
    assert {label.precedence for label in file.labels} == {GRAPHSENSE}


def test_edinburgh_lines_keep_kinds_and_drop_error_pages(tmp_path: Path) -> None:
    rows = [
        {"name": "Gemini", "extra_info": "Gemini 4", "is_contract": True, "address": A.upper().replace("0X", "0x")},
        {"name": "Just a moment...", "is_contract": True, "address": B},
        {"name": "./etherscan/fee_recipient_1.html", "is_contract": False, "address": C},
        {"name": "Ethereum Account (Invalid Address)", "is_contract": False, "address": "0x"},
    ]
    file = written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "edinburgh.jsonl")
    labels = by_address(file)
    assert (labels[A].name, labels[A].entity_id, kinds(labels[A])) == ("Gemini 4", "gemini", (True, False, True))
    assert (labels[B].name, kinds(labels[B])) == (None, (False, False, True))
    assert set(labels) == {A, B}
    assert file.skipped == 2
    assert labels[A].precedence == EDINBURGH
    assert by_address(written(tmp_path, json.dumps(rows[0]), "one.jsonl"))[A].name == "Gemini 4"


@pytest.mark.parametrize(
    ("name", "chain"),
    [("etherscan_accounts.json", "eth"), ("bscscan_accounts.json.gz", "bsc"), ("polygonscan.json", "polygon")],
)
def test_the_chain_of_an_explorer_is_in_the_file_name(tmp_path: Path, name: str, chain: str) -> None:
    content = {A: {"name": "Binance 7", "labels": ["binance"]}, "": {"name": "", "labels": ["contract-deployer"]}}
    file = written(tmp_path, json.dumps(content), name)
    assert [(label.address, label.chain, label.is_cex) for label in file.labels] == [(A, chain, True)]
    assert file.skipped == 1
    assert file.labels[0].precedence == EXPLORER


def test_names_by_hand_have_no_chain(tmp_path: Path) -> None:
    file = written(tmp_path, json.dumps({"_comment": "mine", A: "Kucoin", "oops": "unknown"}), "mine.json")
    assert file.labels == [Label(A, None, "hand:mine", "Kucoin", entity_id="kucoin", is_cex=True, precedence=HAND)]
    assert file.skipped == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colour,shape\nred,round\n", "columns colour, shape"),
        (f"address,name,name\n{A},One,Two\n", "column name occurs more than once"),
        (f"address,name,is_cex\n{A},Northgate,maybe\n", "line 2, column is_cex: 'maybe' is not true or false"),
        ('{"a": [1]}', "JSON of another shape"),
        ('{"address": "0x1"}\n{"name"', "line 2: not a complete JSON object"),
        ('[1, 2]\n"x"', "not a JSON object"),
        ("", "empty"),
        ("PAR1…", "this is a Parquet file, and text is read here; save it as CSV or JSON"),
        ('{"0x1": "a", "0x1": "b"}', "the key '0x1' is repeated"),
        (
            '{"address": "0x1", "name": "a"}\n{"address": "0x2", "address": "0x3"}',
            "line 2: the key 'address' is repeated",
        ),
    ],
)
def test_labels_of_another_shape_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(BadSource, match=words):
        written(tmp_path, text)
