"""The parts of this application beside the core, by kind. ``holderlake/core/registry.py`` explains them.

A new part is a line here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

PARTS: Final[Mapping[str, Sequence[str]]] = {
    "settings": (
        "holderlake.engine.settings:EngineSettings",
        "holderlake.scale.settings:ClusterSettings",
        "holderlake.scale.settings:BucketSettings",
        "holderlake.sources.settings:SourceSettings",
        "holderlake.service.settings:ServiceSettings",
        "holderlake.presentation.settings:ExplorerSettings",
        "holderlake.operations.alerts.settings:AlertSettings",
    ),
    "source": ("holderlake.service.embedded:local_source",),
    "bucket": ("holderlake.scale.bucket.home",),
    "views": ("holderlake.engine.views", "holderlake.analysis.views"),
    "linked_files": ("holderlake.engine.warehouse_files",),
    "tables": ("holderlake.analysis.comparison.tables",),
    "ledger_opened": ("holderlake.operations.maintenance.restore_ledger:restore",),
    "before_run": ("holderlake.operations.maintenance.repair_partitions:repair_before_run",),
    "schedule_tick": ("holderlake.operations.healing.expected:record_tick",),
    "missing_instants": ("holderlake.operations.healing.runs:missing_instants",),
    "after_load": ("holderlake.scale.iceberg:publish_if_chosen",),
    "table_plots": ("holderlake.presentation.export.asset_plots:plots",),
    "dagster": ("holderlake.sources.dagster:definitions", "holderlake.operations.dagster:definitions"),
}
