"""Exports: exact contents of each format, complete files only, constant memory, and no formulas."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.core.lake.lake import Lake
from holderlake.core.settings.sections.lake import SqlSettings
from holderlake.core.storage.locks import locked
from holderlake.core.warehouse.warehouse import Warehouse, WarehouseError
from holderlake.presentation.export import formats
from holderlake.presentation.export.export import Exported, FormatName, export, format_of
from tests.helpers.lakes import DAYS, rows, write

ROOT = Path(__file__).parents[3]
HUGE = 2**256 - 1
HOSTILE = '=HYPERLINK("http://127.0.0.1/?"&A1,"x")'
LABELS = [HOSTILE, "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\uff1d1", "-12.50", 'plain, "quoted"\nand more', "", None]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    folder = tmp_path_factory.mktemp("home")
    lake, made = Lake(folder / "lake"), Warehouse(folder / "warehouse.duckdb")
    listed = [
        {
            "token_address": "0xa",
            "rank": place + 1,
            "address": f"0x{place}",
            "amount": Decimal("12345678901234567890.123456789012345678") if place == 1 else Decimal("2.5"),
            "amount_exact": str(HUGE) if place == 0 else None,
            "share": 0.1,
            "label": label,
        }
        for place, label in enumerate(LABELS)
    ]
    write(lake, "holders", "eth", DAYS[0], {"holders": rows("holders", "eth", DAYS[0], listed)}, {"0xa"})
    made.load(lake)
    return made


def exported(warehouse: Warehouse, folder: Path, name: str, what: str = "holders", **options: Any) -> Exported:
    return export(warehouse, what, folder / name, format_of(Path(name), None), **options)


def cells(path: Path) -> list[list[tuple[str, str]]]:
    """Type and text of each cell of an Excel file's sheets, by row."""
    found = []
    with zipfile.ZipFile(path) as book:
        for name in sorted(one for one in book.namelist() if one.startswith("xl/worksheets/sheet")):
            for row in re.findall(r"<row .*?</row>", book.read(name).decode(), re.DOTALL):
                found.append(
                    [
                        (kind or "n", re.sub(r"<[^>]*>", "", text))
                        for kind, text in re.findall(
                            r'<c r="[A-Z]+\d+"(?: s="\d+")?(?: t="(\w+)")?>(.*?)</c>', row, re.DOTALL
                        )
                    ]
                )
    return found


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", pytest.param("x.feather", marks=pytest.mark.integration)])
def test_exported_table_equals_the_table(warehouse: Warehouse, tmp_path: Path, name: str) -> None:
    done = exported(warehouse, tmp_path, name)
    read = pq.read_table(tmp_path / name) if name.endswith("parquet") else pa.ipc.open_file(tmp_path / name).read_all()
    assert read.equals(warehouse.query("FROM holders"))
    assert (done.rows, done.columns, done.bytes) == (len(LABELS), read.num_columns, (tmp_path / name).stat().st_size)


def test_raw_csv_equals_the_table(warehouse: Warehouse, tmp_path: Path) -> None:
    exported(warehouse, tmp_path, "x.csv", raw=True)
    columns = {field.name: str(kind) for field, kind in zip(*_described(warehouse), strict=True)}
    read = duckdb.connect().read_csv(str(tmp_path / "x.csv"), columns=columns, header=True, allow_quoted_nulls=False)
    assert read.to_arrow_table().to_pylist() == warehouse.query("FROM holders").to_pylist()


def _described(warehouse: Warehouse) -> tuple[pa.Schema, list[Any]]:
    with warehouse.connect() as connection:
        answer = connection.sql("FROM holders")
        return answer.to_arrow_table().schema, answer.types


def test_csv_has_no_formulas_and_keeps_numbers(warehouse: Warehouse, tmp_path: Path) -> None:
    done = exported(warehouse, tmp_path, "x.csv.gz", "SELECT label, -1.5 AS change FROM holders ORDER BY rank")
    text = gzip.decompress((tmp_path / "x.csv.gz").read_bytes()).decode()
    assert done.notes == {"defused": 6}
    for label in LABELS[:6]:
        assert f'"\'{label}"'.replace('""', '"') in text.replace('""', '"')
    assert '\n"-12.50",-1.5\n' in text


def test_excel_has_no_formulas_or_links(warehouse: Warehouse, tmp_path: Path) -> None:
    exported(warehouse, tmp_path, "x.xlsx", "SELECT label, label AS again FROM holders WHERE label <> '' ORDER BY rank")
    with zipfile.ZipFile(tmp_path / "x.xlsx") as book:
        sheet = book.read("xl/worksheets/sheet1.xml").decode()
    assert "<f>" not in sheet
    assert "<hyperlink" not in sheet
    assert {kind for row in cells(tmp_path / "x.xlsx") for kind, _ in row} == {"inlineStr"}


def test_excel_stores_long_numbers_exactly_as_text(warehouse: Warehouse, tmp_path: Path) -> None:
    done = exported(warehouse, tmp_path, "x.xlsx", "SELECT amount, rank, timestamp FROM holders ORDER BY rank LIMIT 3")
    head, *body = cells(tmp_path / "x.xlsx")
    assert head == [("inlineStr", name) for name in ("amount", "rank", "timestamp")]
    assert [row[0] for row in body] == [
        ("n", "2.5"),
        ("inlineStr", "12345678901234567890.123456789012345678"),
        ("n", "2.5"),
    ]
    assert body[0][2] == ("n", "46327")
    assert done.notes == {"sheets": 1, "as_text": 1}


def test_excel_has_days_before_march_1900_as_text(warehouse: Warehouse, tmp_path: Path) -> None:
    exported(warehouse, tmp_path, "x.xlsx", "SELECT unnest([DATE '1900-02-28', DATE '1900-03-01']) AS day")
    assert cells(tmp_path / "x.xlsx")[1:] == [[("inlineStr", "1900-02-28")], [("n", "61")]]


def test_excel_continues_in_another_sheet(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "EXCEL_ROWS", 5)
    done = exported(warehouse, tmp_path, "x.xlsx", "SELECT rank FROM holders ORDER BY rank")
    written = [row[0][1] for row in cells(tmp_path / "x.xlsx")]
    assert done.notes["sheets"] == 3
    assert [one for one in written if one != "rank"] == [str(rank) for rank in range(1, 11)]


def test_text_too_long_for_excel_leaves_no_file(warehouse: Warehouse, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="40,000 characters"):
        exported(warehouse, tmp_path, "x.xlsx", "SELECT repeat('x', 40_000) AS label")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x.csv", "x.xlsx", "x.parquet", "x.arrow"])
def test_every_type_can_be_exported(warehouse: Warehouse, tmp_path: Path, name: str) -> None:
    query = (
        "SELECT 170141183460469231731687303715884105727::HUGEINT::VARCHAR AS text, sum(rank) AS huge, {'a': '=1'} AS s,"
        " [1.5, 2] AS l, TIME '12:00' AS t, INTERVAL 1 DAY AS i, uuid() AS u, 'a'::BLOB AS b, true AS o,"
        " DATE '1800-01-01' AS d, 'nan'::DOUBLE AS n, MAP {'k': 1} AS m, 'x'::ENUM ('x') AS e FROM holders"
    )
    assert exported(warehouse, tmp_path, name, query).rows == 1


def test_whole_numbers_of_any_size_are_exported_as_text(warehouse: Warehouse, tmp_path: Path) -> None:
    exported(warehouse, tmp_path, "x.parquet", f"SELECT '{10**60}'::BIGNUM AS total")
    assert pq.read_table(tmp_path / "x.parquet").to_pylist() == [{"total": f"{10**60}"}]


@pytest.mark.parametrize(
    "what", ["latest_holders", "FROM holders_as_of('2026-11-01')", "SELECT * FROM holders LIMIT 0"]
)
def test_views_macros_and_empty_answers_are_exported(warehouse: Warehouse, tmp_path: Path, what: str) -> None:
    done = exported(warehouse, tmp_path, "x.parquet", what)
    assert pq.read_table(tmp_path / "x.parquet").num_rows == done.rows == (0 if "LIMIT 0" in what else len(LABELS))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("holder", "did you mean holders"),
        ("SELECT 1 AS a, 2 AS a", "two columns a"),
        ("SELECT nothing FROM holders", "nothing"),
        ("SELECT error('half way') FROM holders", "half way"),
        ("CREATE TABLE mine (a INT)", "CREATE is refused"),
        ("SELECT 1; SELECT 2", "one statement"),
    ],
)
def test_failed_export_keeps_the_existing_file(warehouse: Warehouse, tmp_path: Path, what: str, message: str) -> None:
    (tmp_path / "x.csv").write_text("old")
    with pytest.raises((ValueError, WarehouseError), match=message):
        exported(warehouse, tmp_path, "x.csv", what, replace=True)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x.csv", "old")]


def test_existing_file_is_replaced_only_with_replace(warehouse: Warehouse, tmp_path: Path) -> None:
    exported(warehouse, tmp_path, "x.csv", "SELECT 1 AS a")
    with pytest.raises(ValueError, match="--force"):
        exported(warehouse, tmp_path, "x.csv", "SELECT 2 AS a")
    exported(warehouse, tmp_path, "x.csv", "SELECT 2 AS a", replace=True)
    assert (tmp_path / "x.csv").read_text() == '"a"\n2\n'


@pytest.mark.long
def test_exports_use_constant_memory(warehouse: Warehouse, tmp_path: Path) -> None:
    code = """
import resource, sys
from pathlib import Path
from holderlake.presentation.export.export import export
from holderlake.core.warehouse.warehouse import Warehouse
for rows in (100_000, 1_000_000):
    query = f"SELECT range AS i, repeat('x', 500) AS text FROM range({rows})"
    export(Warehouse(Path(sys.argv[1])), query, Path(sys.argv[2]), "arrow", replace=True)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    written = tmp_path / "x.arrow"
    arguments = [sys.executable, "-c", code, str(warehouse.path), str(written)]
    run = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True)
    few, many = map(int, run.stdout.split())
    assert written.stat().st_size > 500_000_000
    assert many - few < 150_000  # kB
    written.unlink()


def test_an_export_has_the_memory_limit_of_the_settings(warehouse: Warehouse, tmp_path: Path) -> None:
    limited = Warehouse(warehouse.path, sql=SqlSettings(memory_limit="100MB"))
    export(limited, "SELECT current_setting('memory_limit') AS size", tmp_path / "size.csv", "csv")
    assert (tmp_path / "size.csv").read_text().splitlines() == ['"size"', '"95.3 MiB"']


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [("X.PARQUET", None, "parquet"), ("a.csv.gz", None, "csv"), ("a", "xlsx", "xlsx"), ("a.csv", "arrow", "arrow")],
)
def test_format_is_explicit_or_from_the_suffix(name: str, given: FormatName | None, expected: str) -> None:
    assert format_of(Path(name), given) == expected


def test_unknown_suffix_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"\.parquet.*--format"):
        format_of(Path("holders.txt"), None)


def test_command_prints_the_export_as_json(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDERLAKE_HOME", str(warehouse.path.parent))
    for variable in [name for name in os.environ if name.startswith("HOLDERLAKE_ALERTS")]:
        monkeypatch.delenv(variable)
    answer = CliRunner().invoke(app, ["export", "holders", str(tmp_path / "x.csv"), "--json"])
    written = json.loads(answer.stdout)
    assert (written["rows"], written["format"], written["notes"]) == (len(LABELS), "csv", {"defused": 6})


def test_only_leftovers_of_killed_exports_are_removed(warehouse: Warehouse, tmp_path: Path) -> None:
    name = f".x.{'0a' * 16}.parquet"
    old, living, foreign, young = (tmp_path / one / name for one in ("old", "living", "foreign", "young"))
    for path in (old, living, foreign, young):
        path.parent.mkdir()
        path.write_bytes(b"half")
    foreign = foreign.rename(foreign.with_name(".config.json"))
    (old.parent / ".export-abc").mkdir()
    for path in (old, living, foreign, old.parent / ".export-abc"):
        os.utime(path, (0, 0))
    with locked(living):
        os.utime(living, (0, 0))
        for path in (old, living, foreign, young):
            export(warehouse, "holders", path.parent / "y.parquet", "parquet")
    assert sorted(path.name for path in old.parent.iterdir()) == ["y.parquet"]
    assert all(path.read_bytes() == b"half" for path in (living, foreign, young))
