"""The explorer's server: answers, access control, and versions of the warehouse."""

from __future__ import annotations

import re
import shutil
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.engine.catalog.catalog import CATALOG
from holderlake.engine.records import Label
from holderlake.engine.store.store import Store
from holderlake.presentation.explorer.app import PageOptions, config_of, create_app
from holderlake.presentation.protocol import FirstRequestInTime
from tests.helpers.commands import holderlake
from tests.helpers.lakes import DAYS, failures, holders, rows, write, write_holders, write_maps
from tests.helpers.processes import PATIENCE
from tests.presentation.explorer.serving import exploring

TOKEN, ONE, TWO, THREE = ("0x" + digit * 40 for digit in "a123")
HUGE = 2**255 + 1


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("explored")
    lake = Lake(home / "lake")
    write_maps(lake, "eth", DAYS[0], {TOKEN: [[ONE, TWO]]}, 10.0)
    write_maps(lake, "eth", DAYS[2], {TOKEN: [[ONE, TWO, THREE]]}, 30.0)
    write_holders(lake, "eth", DAYS[0], {TOKEN: {ONE: "0.000000000000000003", TWO: 5}})
    write_holders(lake, "eth", DAYS[2], {TOKEN: {ONE: "0.000000000000000004", THREE: HUGE}})
    write(lake, "others", "eth", DAYS[2], {}, set(), failures("eth", DAYS[2], ("maps", "0xnone")))
    named = {"token_address": TOKEN, "name": "Tide Pool", "symbol": "TIDE", "is_indexed": True}
    write(lake, "tokens", "eth", DAYS[0], {"tokens": rows("tokens", "eth", DAYS[0], [named])}, {TOKEN})
    Warehouse(home / "warehouse.duckdb").load(lake)
    return home


@pytest.fixture(scope="module")
def http(home: Path) -> Iterator[httpx.Client]:
    with exploring(home) as address, httpx.Client(base_url=address, timeout=None, verify=False) as client:
        yield client


def fetch(http: httpx.Client, path: str, **query: Any) -> Any:
    answer = http.get(f"/api/{path}", params={"chain": "eth", "token": TOKEN} | query)
    assert answer.status_code == 200, answer.text
    return answer.json()


# Answers


@pytest.mark.parametrize("text", ["", "tide", "POOL tide", "ETH 0xaaaa", TOKEN.upper().replace("X", "x")])
def test_search_matches_words_of_name_symbol_address_and_chain(http: httpx.Client, text: str) -> None:
    assert http.get("/api/tokens", params={"q": text}).json()["symbol"] == ["TIDE"]


@pytest.mark.parametrize("text", ["tide bsc", "%", "' OR true --"])
def test_other_words_find_nothing(http: httpx.Client, text: str) -> None:
    assert http.get("/api/tokens", params={"q": text}).json()["chain"] == []


def test_the_history_has_every_instant_in_order(http: httpx.Client) -> None:
    instants = fetch(http, "history")["instants"]
    assert (instants["at"], instants["service_score"]) == (["20261101T000000Z", "20261103T000000Z"], [10.0, 30.0])


def test_an_address_may_be_written_in_any_case(http: httpx.Client) -> None:
    assert fetch(http, "history", token="0x" + "A" * 40) == fetch(http, "history")


def test_failed_token_has_a_reason(http: httpx.Client) -> None:
    assert fetch(http, "history", token="0xnone")["failures"]["reason"] == ["0xnone has no holders"]


def test_amounts_are_exact_however_small_or_large(http: httpx.Client) -> None:
    nodes = fetch(http, "map", at="2026-11-03")["nodes"]
    listed = dict(zip(nodes["address"], nodes["kind"], strict=True))
    assert listed == {ONE: "top_holder", TWO: "top_holder", THREE: "top_holder"}
    changed = fetch(http, "compare", before="2026-11-01", after="2026-11-03")
    by_address = dict(
        zip(changed["address"], zip(changed["change"], changed["amount_change"], strict=True), strict=True)
    )
    assert by_address == {
        ONE: ("grew", "0.000000000000000001"),
        TWO: ("left", "-5"),
        THREE: ("entered", str(HUGE)),
    }


@pytest.mark.parametrize("query", [{"at": "yesterday"}, {"at": "2026-11-01", "chain": "e" * 1_001}, {"at": ""}])
def test_invalid_parameters_are_refused(http: httpx.Client, query: dict[str, str]) -> None:
    assert http.get("/api/map", params={"chain": "eth", "token": TOKEN} | query).status_code == 422


def test_map_without_an_instant_is_the_newest(http: httpx.Client) -> None:
    newest = fetch(http, "map")
    assert newest["at"] == "20261103T000000Z"
    assert newest == fetch(http, "map", at="2026-11-03")
    assert fetch(http, "map", token="0xnone") == {}


def test_unchanged_answer_is_304(http: httpx.Client) -> None:
    first = http.get("/api/tokens")
    again = http.get("/api/tokens", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


# Access control


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8015", "127.0.0.1.evil.example", ""])
def test_foreign_host_name_is_refused(http: httpx.Client, host: str) -> None:
    for path in ("/", "/api/tokens"):
        assert http.get(path, headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8015", "127.0.0.1", "[::1]:8015"])
def test_local_host_name_is_accepted(http: httpx.Client, host: str) -> None:
    assert http.get("/api/tokens", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_only_read_methods_are_accepted(http: httpx.Client, method: str) -> None:
    assert http.request(method, "/api/tokens").status_code == 405


async def named(
    rename: Callable[[str, str], None], headers: Mapping[str, str] | None = None, **body: Any
) -> httpx.Response:
    """Send a name from the page itself, unless headers say otherwise."""
    app = create_app(Warehouse(Path("none.duckdb")), options=PageOptions(rename=rename))
    sent = {"Origin": "http://localhost:8015", "Content-Type": "application/json"} | (headers or {})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:8015") as page:
        return await page.post("/api/names", headers=sent, **body)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 204),
        ({"Origin": "http://evil.example"}, 405),
        ({"Origin": ""}, 405),
        ({"Content-Type": "text/plain"}, 405),
        ({"Content-Length": "9000"}, 405),
    ],
)
async def test_a_name_is_taken_from_the_page_itself_only(headers: dict[str, str], status: int) -> None:
    names: list[tuple[str, str]] = []
    answer = await named(lambda *name: names.append(name), headers, json={"address": ONE.upper(), "name": " Ann "})
    assert answer.status_code == status
    assert names == ([(ONE, "Ann")] if status == 204 else [])


@pytest.mark.anyio
@pytest.mark.parametrize(
    "body",
    [
        b'{"address": "0x1", "name": "\\ud800"}',
        b'{"address": "\\udfff", "name": "Ann"}',
        b'{"address": NaN, "name": "Ann"}',
        b'{"address": "0x1", "name": 1e999}',
        b'{"address": 1%s, "name": ""}' % (b"0" * 5_000),
        b'{"address": "0x1", "name": "Ann", "\\ud800": -Infinity}',
    ],
)
async def test_a_name_of_odd_json_is_refused(body: bytes) -> None:
    names: list[tuple[str, str]] = []
    refused = await named(lambda *name: names.append(name), content=body)
    assert refused.status_code in (400, 422)
    assert refused.json()["detail"]
    assert names == []


@pytest.mark.anyio
async def test_name_is_refused_in_a_sentence_while_the_store_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(tmp_path).close()
    monkeypatch.setattr("holderlake.engine.catalog.catalog._BUSY_SECONDS", 0.01)

    def rename(address: str, name: str) -> None:
        with Store(tmp_path) as store:
            store.add_labels([Label(address, None, "hand", name)])

    ann = {"address": ONE, "name": "Ann"}
    with closing(sqlite3.connect(tmp_path / CATALOG)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused = await named(rename, json=ann)
    assert refused.status_code == 409
    assert re.fullmatch("The name was not stored: .* is locked by another process; wait .*", refused.json()["detail"])
    assert (await named(rename, json=ann)).status_code == 204


def test_no_name_is_taken_without_consent(http: httpx.Client) -> None:
    from_page = {"Origin": str(http.base_url)}
    assert http.post("/api/names", json={"address": ONE, "name": "Ann"}, headers=from_page).status_code == 405
    assert http.get("/api/links").json()["can_rename"] is False


@pytest.mark.parametrize("path", ["/", "/explorer.js", "/api/tokens", "/api/map", "/nowhere"])
def test_every_answer_forbids_foreign_code_and_frames(http: httpx.Client, path: str) -> None:
    headers = http.get(path).headers
    assert headers["Content-Security-Policy"].startswith("default-src 'self'; ")
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("path", ["/..%2fapp.py", "/%2e%2e/app.py", "/docs", "/openapi.json"])
def test_other_paths_are_not_found(http: httpx.Client, path: str) -> None:
    assert http.get(path).status_code == 404


# Versions


@pytest.mark.long
def test_new_version_is_shown_without_a_restart(http: httpx.Client, home: Path) -> None:
    before = http.get("/api/tokens")
    lake = Lake(home / "lake")
    later = {"holders": holders("eth", DAYS[4], {TOKEN: {ONE: 1}})}
    write(lake, "holders", "eth", DAYS[4], later, {TOKEN})
    Warehouse(home / "warehouse.duckdb").load(lake)
    after = http.get("/api/tokens", headers={"If-None-Match": before.headers["ETag"]})
    assert (after.status_code, after.json()["instants"]) == (200, [3])
    assert fetch(http, "history")["instants"]["has_map"] == [True, True, False]


@pytest.mark.long
def test_requests_during_a_change_of_version_are_answered(http: httpx.Client, home: Path) -> None:
    before = fetch(http, "map", at="2026-11-03")
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(fetch, http, "map", at="2026-11-03") for _ in range(40)]
        for _ in range(10):
            shutil.copy(home / "warehouse.duckdb", home / "next")
            (home / "next").replace(home / "warehouse.duckdb")
        assert all(one.result() == before for one in asked)


@pytest.mark.long
def test_command_without_a_warehouse_names_the_remedy(tmp_path: Path) -> None:
    done = holderlake("explore", "--port", "0", env={"HOLDERLAKE_HOME": str(tmp_path), "PATH": ""})
    assert done.returncode == 1
    assert "'holderlake demo'" in done.stderr.replace("\n", " ")


# Connections


@pytest.mark.integration
@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: loc"])
def test_a_half_open_connection_is_closed(home: Path, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FirstRequestInTime, "seconds", 0.05)
    app = create_app(Warehouse(home / "warehouse.duckdb"))
    server = uvicorn.Server(config_of(app))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        serving.start()
        try:
            with socket.create_connection(listening.getsockname(), timeout=PATIENCE) as peer:
                peer.sendall(sent)
                answer = b"".join(iter(lambda: peer.recv(4_096), b""))
        finally:
            server.should_exit = True
            serving.join()
    assert answer == b""
