"""Open a session on a Spark cluster, with the cluster's own settings.

The workers need the same Python version and packages as this process, including Holderlake.
"""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

CONNECT: Final = "sc://"  # of a Spark Connect server, which is reached without Java
_ALWAYS: Final = {  # for equal results of SQL (entities)
    "spark.sql.ansi.enabled": "true",  # an overflow is an error, not a null
    "spark.sql.session.timeZone": "UTC",
}
_DEFAULTS: Final = {
    "spark.task.maxFailures": "8",  # the tasks of a killed worker run again on others
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_CONNECT_PACKAGES: Final = ("grpc", "grpc_status", "google.rpc", "zstandard")
_IMAGE: Final = "spark.kubernetes.container.image"


class UnusableCluster(Exception):
    """The cluster can't be used. The message gives the reason and the remedy."""


@contextmanager
def session(master: str, options: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Context manager of a Spark session on the cluster of ``master`` (``spark://host:port``, ``yarn``, ``k8s://…``,
    ``sc://host:port``, or ``local[2]``).

    ``options`` are settings of Spark. The settings in the cluster's ``spark-defaults.conf`` apply, too: options
    override them, and they override our defaults. Raises ``UnusableCluster``.
    """
    folder = _conf_folder()
    own_settings = {**_settings_in(folder / "spark-defaults.conf"), **(options or {})}
    _refuse_unusable(master, own_settings)
    os.environ.setdefault("SPARK_CONF_DIR", str(folder))
    os.environ.setdefault("PYSPARK_PYTHON", own_settings.get("spark.pyspark.python", sys.executable))
    if master.startswith(CONNECT):  # the server's settings of cores and memory can't be changed
        builder, settings = SparkSession.builder.remote(master), {**(options or {}), **_ALWAYS}
    else:
        builder = SparkSession.builder.master(master).appName("holderlake")
        settings = {**_DEFAULTS, **own_settings, **_ALWAYS}
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")  # which is not used
        opened = builder.getOrCreate()
        try:
            if not master.startswith(CONNECT):
                opened.sparkContext.setLogLevel("ERROR")
            yield opened
        finally:
            opened.stop()


def _conf_folder() -> Path:
    """Return the folder of Spark's configuration: that of the environment, or ours."""
    if "SPARK_CONF_DIR" in os.environ:
        return Path(os.environ["SPARK_CONF_DIR"])
    return Path(os.environ.get("SPARK_HOME", Path(__file__).parent), "conf")  # ours limits logging


def _settings_in(path: Path) -> dict[str, str]:
    """Return the settings in a file such as ``spark-defaults.conf``: a name and a value on each line."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    pairs = (re.split(r"\s*[\s=:]\s*", line.strip(), maxsplit=1) for line in lines if line.strip()[:1] not in ("", "#"))
    return {name: value for name, value in (pair for pair in pairs if len(pair) == 2)}


def _refuse_unusable(master: str, settings: Mapping[str, str]) -> None:
    """Raise ``UnusableCluster`` if Spark would not start. It would take a minute, and print a hundred lines."""
    if master.startswith("spark://") and not _answers(master):
        reason = "no Spark master answers there; check the address, or start one: deploy/spark.sh master"
    elif master == "yarn" and not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & os.environ.keys():
        reason = "the addresses of YARN are missing; set HADOOP_CONF_DIR to the folder of its configuration"
    elif master.startswith("k8s://") and _IMAGE not in settings:
        reason = f"an image with Spark, Python and Holderlake is missing; set {_IMAGE} in [cluster.options]"
    elif master.startswith(CONNECT) and not all(map(_is_installed, _CONNECT_PACKAGES)):
        reason = "the packages of Spark Connect are missing; run pip install 'pyspark[connect]'"
    else:
        return
    raise UnusableCluster(f"the cluster {master} can't be used: {reason}")


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of a parent package
        return False


def _answers(master: str) -> bool:
    """Return whether a master answers at one of the places ``host:port``."""
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        with suppress(OSError, ValueError), socket.create_connection((host, int(port)), timeout=10):
            return True
    return False
