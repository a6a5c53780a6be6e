"""``holderlake cluster``: own transfers into lake and warehouse, here in this process instead of on a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.tables import TABLES
from holderlake.core.lake.lake import Lake
from holderlake.engine.maps.batch import map_batches
from holderlake.engine.store.store import Store
from holderlake.errors import RunFailed
from tests.engine.world import a_token, table, transfer

pytestmark = pytest.mark.long

COIN = ("eth", "0x" + "c" * 40)
SHELL = ("eth", "0x" + "d" * 40)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a store of two tokens, of which one begins later."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path))
    day = 86_400
    with Store(tmp_path / "engine") as store:
        store.add_tokens([a_token(COIN), a_token(SHELL)])
        moved = [
            transfer("mint -> a", 70, day, token=COIN),
            transfer("a -> b", 20, 2 * day, token=COIN),
            transfer("mint -> b", 5, 3 * day + 7, token=SHELL),
        ]
        store.add_transfers(table(moved), "test")
    return tmp_path


def run(*arguments: str) -> dict[str, object]:
    """Return a command's JSON."""
    done = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0
    printed: dict[str, object] = json.loads(done.stdout)
    return printed


FILL = ("cluster", "fill", "--from", "1970-01-03", "--to", "1970-01-05", "--every", "1d", "--chain", "eth")
TOKENS = ("--token", COIN[1], "--token", SHELL[1])


def test_fill_writes_the_rows_and_failures_of_the_engine(home: Path) -> None:
    assert run(*FILL, *TOKENS)["partitions"] == 3
    lake = Lake(home / "lake")
    instants = sorted({manifest.as_of for manifest in lake.manifests()})
    with Store(home / "engine") as store:
        for rows in map_batches(store, [COIN, SHELL], instants, MapOptions()):
            for name, ours in rows.items():
                keys = [(key, "ascending") for key in ("as_of", "token_address")]
                stored = lake.read(name).select(TABLES[name].engine_schema.names)
                own = {"dt_update", "holder_limit", "use_magic_nodes", "use_time_nodes", "rules"}  # of the request
                plain = [column for column in ours.column_names if column not in own]
                assert stored.sort_by(keys).select(plain).equals(ours.sort_by(keys).select(plain))
    failed = lake.read("failures").to_pylist()
    assert {(row["endpoint"], row["subject"], row["code"]) for row in failed} == {
        ("map", SHELL[1], "no_holders"),
        ("holders", SHELL[1], "no_holders"),
    }


def test_fill_resumes_and_then_computes_nothing(home: Path) -> None:
    run("cluster", "fill", "--from", "1970-01-04", "--to", "1970-01-04", "--chain", "eth", *TOKENS)
    done = run(*FILL, *TOKENS)
    assert (done["partitions"], done["already"]) == (2, 1)
    done = run(*FILL, *TOKENS)
    assert (done["partitions"], done["already"]) == (0, 3)


def test_fill_without_watchlist_computes_all_tokens_with_details(home: Path) -> None:
    assert run("cluster", "fill", "--from", "1970-01-04", "--to", "1970-01-05", "--every", "1d")["partitions"] == 2
    lake = Lake(home / "lake")
    assert {*lake.read("holders")["token_address"].to_pylist()} == {COIN[1], SHELL[1]}
    assert lake.read("holders")["degree"].null_count == 0
    (manifest, *_) = (manifest for manifest in lake.manifests() if manifest.family == "holders")
    assert manifest.options["with_metadata"] is True
    with Store(home / "engine") as store:
        assert manifest.store_change == store.generation()


def test_build_imports_files_into_the_store(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(home / "engine") as store:
        files = store.files()
    monkeypatch.setenv("HOLDERLAKE_ENGINE__STORE", str(home / "shared"))
    done = run("cluster", "build", *files)
    assert (done["added"], done["tokens"]) == (3, 2)
    assert run("cluster", "fill", "--from", "1970-01-04", "--to", "1970-01-04")["partitions"] == 1


def test_fill_of_an_empty_store_names_the_remedy(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_ENGINE__STORE", str(home / "other"))
    done = CliRunner().invoke(app, ["cluster", "fill", "--from", "1970-01-04", "--to", "1970-01-04"])
    assert isinstance(done.exception, RunFailed)
    assert "holderlake cluster build" in str(done.exception)


@pytest.mark.parametrize(
    ("master", "remedy"),
    [
        ("spark://127.0.0.1:1", "deploy/spark.sh master"),
        ("yarn", "set HADOOP_CONF_DIR"),
        ("k8s://https://127.0.0.1:1", "spark.kubernetes.container.image"),
    ],
)
def test_a_master_that_can_not_work_is_refused_with_the_remedy(
    home: Path, monkeypatch: pytest.MonkeyPatch, master: str, remedy: str
) -> None:
    pytest.importorskip("pyspark", reason="'make extras' installs what the cluster needs")
    monkeypatch.setenv("HOLDERLAKE_CLUSTER__MASTER", master)
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    done = CliRunner().invoke(app, [*FILL, *TOKENS])
    assert isinstance(done.exception, RunFailed)
    assert remedy in str(done.exception)
