"""Tokens are found by exact address, symbol or name, then by prefix, then by words."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from contextlib import closing
from random import Random

import pytest

from holderlake.core.contract.chains import SERVED_CHAINS, normalise_address
from holderlake.core.contract.times import from_unix
from holderlake.engine.catalog.catalog import connect
from holderlake.engine.queries.tokens import chains_table, search_tokens, tokens_table
from holderlake.engine.records import TokenInfo
from holderlake.engine.store.store import Store
from tests.engine.world import COIN, a_token, table, transfer, world

Build = Callable[..., Store]

HEX = "0xabcdef0123456789abcdef0123456789abcdef01"
SOL = "So11111111111111111111111111111111111111112"


def named(address: str, symbol: str, name: str = "", **changed: object) -> TokenInfo:
    return a_token(("eth", address), symbol=symbol, name=name or symbol, **changed)


def found(store: Store, text: str, limit: int = 50) -> list[str]:
    return search_tokens(store, text, limit)["token_address"].to_pylist()


RANKINGS = {
    "address, symbol, prefix, words": (
        [
            *(named("t1", "pepecoin"), named("t2", "x", "Pepe the Frog"), named("t3", "PEPE"), named("pepe", "other")),
            *(named("t5", "dope", "my pepe"), named("t6", "a", "Pepe, indexed", is_indexed=True)),
        ],
        "pepe",
        ["pepe", "t3", "t6", "t1", "t2", "t5"],
    ),
    "exact name before prefixes": (
        [
            *(named("t1", "pepecoin"), named("t2", "x", "Pepe"), named("t3", "PEPE")),
            named("t4", "PEPECASH", is_indexed=True),
        ],
        "pepe",
        ["t3", "t2", "t4", "t1"],
    ),
    "symbols before names, then the alphabet": (
        [named("t1", "a", "usd b"), named("t2", "b", "usd a"), named("t3", "usdz"), named("t4", "usdc")],
        "usd",
        ["t4", "t3", "t2", "t1"],
    ),
    "indexed first": ([named("t1", "USD"), named("t2", "USD", is_indexed=True)], "usd", ["t2", "t1"]),
    "words last, indexed first": (
        [
            *(named("t1", "A", "My Dollar"), named("t2", "B", "A Dollar", is_indexed=True), named("t3", "DOLLAR")),
            named("t4", "C", "Dollar Dollar Dollars"),
        ],
        "dollar",
        ["t3", "t4", "t2", "t1"],
    ),
    "once": ([named("usd", "usd", "usd"), named("t2", "usdc", "usd coin")], "usd", ["usd", "t2"]),
    "a word inside a joined name": (
        [named("t1", "MOON", "MoonCats"), named("t2", "SM", "Solar Moths")],
        "cats",
        ["t1"],
    ),
    "all words": ([named("t1", "A", "Solid Dollar"), named("t2", "B", "Gold Coin")], "dollar coin", []),
    "native": ([a_token(("eth", "native"), symbol="ETH", name="Ethereum")], "Native", ["native"]),
    "nothing": ([], "nothing", []),
}


@pytest.mark.parametrize(("tokens", "text", "expected"), RANKINGS.values(), ids=RANKINGS)
def test_tokens_are_ranked(build: Build, tokens: list[TokenInfo], text: str, expected: list[str]) -> None:
    store = build(tokens=tokens)
    assert found(store, text) == expected
    assert found(store, text, limit=2) == expected[:2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("100%", ["t1"]), ("%", []), ("a_", ["t2"]), ("_b", []), ("a\\", ["t3"]), ("\\", [])],
)
def test_wildcards_in_a_query_are_literal(build: Build, text: str, expected: list[str]) -> None:
    store = build(tokens=[named("t1", "100%PURE"), named("t2", "a_b"), named("t3", "a\\b"), named("t4", "axb")])
    assert found(store, text) == expected


@pytest.mark.parametrize("text", ["'; DROP TABLE tokens; --", '"', "a' OR '1'='1"])
def test_a_query_is_never_sql(build: Build, text: str) -> None:
    store = build(tokens=[named("t1", "USDC")])
    assert found(store, text) == []
    assert found(store, "usdc") == ["t1"]


@pytest.mark.parametrize("text", [HEX, HEX.upper(), "0x" + HEX[2:].upper()])
def test_a_hexadecimal_address_is_found_in_any_case(build: Build, text: str) -> None:
    store = build(tokens=[named(HEX, "HEX")])
    assert found(store, text) == [HEX]
    assert [token.address for token in store.search(text, 50)] == [HEX]


def test_a_hexadecimal_address_is_found_on_every_chain(build: Build) -> None:
    store = build(tokens=[a_token(("eth", HEX)), a_token(("bsc", HEX))])
    assert search_tokens(store, HEX)["chain"].to_pylist() == ["bsc", "eth"]


def test_a_solana_address_is_found_exactly_only(build: Build) -> None:
    store = build(tokens=[a_token(("solana", SOL), symbol="WSOL", name="Wrapped SOL")])
    assert found(store, SOL) == [SOL]
    assert found(store, SOL.lower()) == []


@pytest.mark.parametrize(
    ("symbol", "text"),
    [
        ("ÄÖÜ", "äöü"),
        ("Straße", "STRASSE"),
        ("\uff35\uff33\uff24\uff23", "usdc"),
        ("ﬁre", "FIRE"),
        ("e\u0301toile", "\u00c9TOILE"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("🚀moon", "🚀"),
        ("عملة", "عم"),
        ("  padded", "padded"),
        ("a\0b", "A\0"),
        ("x", "X"),
        ("USDC", "uSdC"),
        ("USDC", "  usdc "),
        ("\U0010ffff\U0010ffffz", "\U0010ffff"),
        ("\ud7ff\ud7ffz", "\ud7ff"),
    ],
)
def test_text_of_any_script_is_found_in_any_case_and_form(build: Build, symbol: str, text: str) -> None:
    assert found(build(tokens=[named("t1", symbol, "name")]), text) == ["t1"]


@pytest.mark.parametrize(
    "text", ["", "  ", "\u3000", "\0", "\ud800", "usdc\udfff", "%%%", "\U0001d518" * 1000, "u" * 10**6, "\u202eusdc"]
)
def test_strange_texts_find_nothing(build: Build, text: str) -> None:
    assert build(tokens=[named("t1", "USDC")]).search(text, 50) == []


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_1_finds_nothing(build: Build, limit: int) -> None:
    assert build(tokens=[named("t1", "USDC")]).search("usdc", limit) == []


def test_a_renamed_token_is_found_by_its_new_name_alone(build: Build) -> None:
    store = build(tokens=[named("t1", "OLD", "Old Name")])
    store.add_tokens([named("t1", "NEW", "New Title")])
    assert [found(store, text) for text in ("old", "name", "new", "title")] == [[], [], ["t1"], ["t1"]]


def test_a_token_of_assumed_metadata_is_found(build: Build) -> None:
    store = build()
    store.add_transfers(table([transfer("mint -> a", token=("eth", "Unheard-Of"))]), "file")
    assert found(store, "unheard") == ["Unheard-Of"]


# ---------------------------------------------------------------------- by brute force

ADDRESSES = ("aa", "AA", "0xaa", "0xab", "native", "b")
LETTERS = ("aAb", "aAb", "aAbB\u017fß%_\\ \0é\u0301🚀\U0010ffff\ud7ff\ue000")


def a_text(chance: Random) -> str:
    """A text of up to three letters, mostly of few letters, so that many texts begin alike."""
    return "".join(chance.choices(chance.choice(LETTERS), k=chance.randint(0, 3)))


def by_brute_force(tokens: dict[tuple[str, str], TokenInfo], text: str, limit: int) -> list[TokenInfo]:
    """The ranking of ``search`` over all tokens."""

    def plain(word: str) -> str:
        return unicodedata.normalize("NFKC", word).casefold().strip()

    def place(token: TokenInfo) -> tuple[object, ...] | None:
        symbol, name, key = plain(token.symbol), plain(token.name), (token.chain, token.address)
        if token.address == normalise_address(text):
            return (0, not token.is_indexed, *key)
        if symbol == plain(text):
            return (1, not token.is_indexed, *key)
        if name == plain(text):
            return (2, not token.is_indexed, *key)
        if symbol.startswith(plain(text)):
            return (3, not token.is_indexed, 0, symbol, *key)
        if name.startswith(plain(text)):
            return (3, not token.is_indexed, 1, name, *key)
        return by_words(token, key)

    def by_words(token: TokenInfo, key: tuple[str, str]) -> tuple[object, ...] | None:
        given = sorted(set(plain(text).split()), key=lambda word: (-len(word), word))
        if not all(letter.isalnum() or letter == "_" for word in given for letter in word):
            return None
        words = {word for joined in (token.name, apart(token.name)) for word in split(plain(joined))}
        if not all(any(word.startswith(one) for word in words) for one in given):
            return None
        return (4, not token.is_indexed, min(word for word in words if word.startswith(given[0])), *key)

    def apart(name: str) -> str:
        """Insert a blank before each ASCII capital letter that follows a small letter or a digit."""
        pairs = zip(" " + name, name, strict=False)
        return "".join(
            f" {letter}"
            if before.isascii() and (before.islower() or before.isdigit()) and "A" <= letter <= "Z"
            else letter
            for before, letter in pairs
        )

    def split(name: str) -> list[str]:
        return "".join(letter if letter.isalnum() or letter == "_" else " " for letter in name).split()

    placed = [(place(token), token) for token in tokens.values()]
    ranked = sorted((where, token) for where, token in placed if where is not None)
    return [token for _, token in ranked][:limit] if plain(text) else []


@pytest.mark.later(integration=9)
@pytest.mark.parametrize("seed", range(30))
def test_a_search_finds_what_brute_force_finds(seed: int) -> None:
    chance = Random(seed)
    listed = [
        TokenInfo(
            chance.choice(["eth", "bsc"]),
            chance.choice([*ADDRESSES, *map(str, range(30))]),
            a_text(chance),
            a_text(chance),
            decimals=0,
            is_indexed=chance.random() < 0.4,
        )
        for _ in range(25)
    ]
    tokens = {(token.chain, token.address): token for token in listed}
    with world(tokens=listed) as store:
        for _ in range(15):
            text, limit = (
                chance.choice([a_text(chance), a_text(chance), chance.choice(ADDRESSES)]),
                chance.randint(1, 9),
            )
            assert store.search(text, limit) == by_brute_force(tokens, text, limit)


def test_indexed_tokens_are_read_through_an_index(build: Build) -> None:
    with closing(connect(build().root)) as catalog:
        plan = catalog.execute("EXPLAIN QUERY PLAN SELECT chain, address FROM tokens WHERE is_indexed = 1").fetchall()
    assert "SEARCH tokens USING COVERING INDEX" in str(plan)


# ---------------------------------------------------------------------- metadata and chains as tables


def test_tokens_come_in_the_requested_order_without_unknown_ones(build: Build) -> None:
    store = build(tokens=[named("t1", "ONE"), named("t2", "TWO")])
    rows = tokens_table(store, [("eth", "t2"), ("eth", "nothing"), ("bsc", "t1"), ("eth", "t1")])
    assert rows["symbol"].to_pylist() == ["TWO", "ONE"]


def test_statistics_are_null_unless_requested(build: Build) -> None:
    store = build(transfer("mint -> a", at=3), transfer("a -> b", at=9))
    (plain,) = tokens_table(store, [COIN]).to_pylist()
    (full,) = tokens_table(store, [COIN], stats=True).to_pylist()
    assert (plain["transfers_count"], plain["min_date"], plain["max_date"]) == (None, None, None)
    assert (full["transfers_count"], full["min_date"], full["max_date"]) == (2, from_unix(3), from_unix(9))


def test_a_token_without_transfers_has_none_counted(build: Build) -> None:
    (row,) = tokens_table(build(tokens=[a_token(COIN)]), [COIN], stats=True).to_pylist()
    assert (row["transfers_count"], row["min_date"], row["max_date"]) == (0, None, None)


def test_chains_of_the_store_are_served_after_those_of_the_contract(build: Build) -> None:
    assert chains_table(build())["chain"].to_pylist() == list(SERVED_CHAINS)
    store = build(tokens=[a_token(("eth", "t")), a_token(("gnosis", "t")), a_token(("mychain", "t"))])
    rows = {row["chain"]: row for row in chains_table(store).to_pylist()}
    assert list(rows) == [*SERVED_CHAINS, "gnosis", "mychain"]
    assert (rows["gnosis"]["name"], rows["gnosis"]["coingecko_id"]) == ("Gnosis", "xdai")
    assert (rows["mychain"]["name"], rows["mychain"]["coingecko_id"]) == ("mychain", None)
