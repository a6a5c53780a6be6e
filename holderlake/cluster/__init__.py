"""The engine on a cluster of machines: the build of derived tables and bulk answers, as SQL for DuckDB and Spark.

``build`` makes the derived tables and ``answers`` the lake's tables from them; ``map_tables`` computes one map from its
rows with the engine's own functions. Single maps, the service and new days are in ``holderlake.engine`` only.
"""
