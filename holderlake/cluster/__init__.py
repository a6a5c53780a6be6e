"""The engine on a cluster of machines: builds derived tables and computes many maps, as SQL for DuckDB and Spark.

``answers`` makes the derived tables, and the lake's tables from them. ``map_tables`` computes one map
from its rows with the engine's own functions. ``statements`` loads the SQL, which ``duckdb_engine`` or ``spark_engine``
runs. For single maps, the service and daily imports, use ``holderlake.engine``.
"""
