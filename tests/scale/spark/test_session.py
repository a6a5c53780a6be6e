"""A session has the cluster's own settings, those of ``[cluster.options]``, and ours where neither says anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.spark import require_spark
from tests.scale.spark.conftest import SMALL


@pytest.mark.long
def test_the_clusters_defaults_apply_unless_options_override_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    require_spark()
    from holderlake.scale.spark.spark import session

    defaults = "# of the cluster\nspark.speculation  true\nspark.task.maxFailures=5\nspark.sql.ansi.enabled: false\n"
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with session("local[1]", {**SMALL, "spark.task.maxFailures": "6"}) as opened:
        settings = dict(opened.sparkContext.getConf().getAll())
    assert settings["spark.speculation"] == "true"
    assert settings["spark.task.maxFailures"] == "6"
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.sql.ansi.enabled"] == "true"
