#!/usr/bin/env bash
# A process of a standalone Spark cluster, in the foreground, from the pyspark package of a Python environment.
#
#   deploy/spark.sh master [HOST] [PORT]         one a cluster; workers and the driver reach it at spark://HOST:PORT
#   deploy/spark.sh worker spark://HOST:PORT     one or more a machine
#
# PYTHON names the environment's Python (.venv/bin/python by default). SPARK_LOCAL_IP is the address of this machine,
# SPARK_WORKER_CORES and SPARK_WORKER_MEMORY (such as 2g) what a worker may use, SPARK_WORKER_DIR its working folder.
set -euo pipefail

checkout="$(cd "$(dirname "$0")/.." && pwd)"
python="${PYTHON:-$checkout/.venv/bin/python}"
usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }

SPARK_HOME="$("$python" -c 'import importlib.util as u; s = u.find_spec("pyspark"); print(s.submodule_search_locations[0] if s else "")')"
[ -n "$SPARK_HOME" ] || { echo "pyspark is not installed for $python; run 'make extras'" >&2; exit 1; }
command -v java >/dev/null || [ -n "${JAVA_HOME:-}" ] || { echo "Java 17 or later is needed" >&2; exit 1; }
export SPARK_HOME
export SPARK_SCALA_VERSION="${SPARK_SCALA_VERSION:-2.13}"

case "${1:-}" in
    master)
        host="${2:-127.0.0.1}" port="${3:-7077}"
        exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master \
            --host "$host" --port "$port" --webui-port "${SPARK_MASTER_WEBUI_PORT:-8080}"
        ;;
    worker)
        [ -n "${2:-}" ] || usage
        exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker \
            --host "${SPARK_LOCAL_IP:-127.0.0.1}" --webui-port "${SPARK_WORKER_WEBUI_PORT:-0}" \
            --work-dir "${SPARK_WORKER_DIR:-${TMPDIR:-/tmp}/spark-work}" "$2"
        ;;
    *) usage ;;
esac
