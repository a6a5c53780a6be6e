"""Log lines of Dagster's runs as JSON."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster import AssetExecutionContext, AssetKey, DagsterInstance, StaticPartitionsDefinition, asset, materialize

from holderlake.operations.monitoring.logs import JsonLines

PYTHON_LOGS = {
    "managed_python_loggers": ["holderlake"],
    "python_log_level": "INFO",
    "dagster_handler_config": {
        "handlers": {
            "lines": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "formatter": "json"},
        },
        "formatters": {"json": {"()": "holderlake.operations.monitoring.logs.JsonLines"}},
    },
}


@asset(partitions_def=StaticPartitionsDefinition(["eth", "base"]), key_prefix="onchain")
def counted(context: AssetExecutionContext) -> None:
    context.log.info("one token is odd: 50%", extra={"token": "0x1"})
    logging.getLogger("holderlake.tests").warning("the %s is late", "provider")


@pytest.fixture
def lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The lines on standard output of a run of one partition."""
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump({"python_logs": PYTHON_LOGS}))
    with DagsterInstance.from_config(str(tmp_path)) as instance:
        materialize([counted], instance=instance, partition_key="base")
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:.*logging configuration:dagster.BetaWarning")
def test_every_line_names_the_run_and_the_partition(lines: list[dict[str, Any]]) -> None:
    assert len({line["run"] for line in lines}) == 1
    assert {line["partition"] for line in lines} == {"base"}
    (own,) = [line for line in lines if line["message"] == "one token is odd: 50%"]
    assert (own["level"], own["step"], own["job"]) == ("info", "onchain__counted", "__ephemeral_asset_job__")


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:.*logging configuration:dagster.BetaWarning")
def test_a_materialisation_names_its_asset(lines: list[dict[str, Any]]) -> None:
    (landed,) = [line for line in lines if line.get("event") == "ASSET_MATERIALIZATION"]
    assert landed["asset"] == AssetKey(["onchain", "counted"]).to_user_string()


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:.*logging configuration:dagster.BetaWarning")
def test_lines_of_the_library_belong_to_the_run(lines: list[dict[str, Any]]) -> None:
    (late,) = [line for line in lines if line["message"] == "the provider is late"]
    assert (late["level"], late["partition"]) == ("warning", "base")


def test_a_record_outside_of_a_run_has_no_run() -> None:
    record = logging.LogRecord("holderlake", logging.INFO, "", 0, "started %d", (2,), None)
    line = json.loads(JsonLines().format(record))
    assert line.pop("time").endswith("Z")
    assert line == {"level": "info", "logger": "holderlake", "message": "started 2"}
