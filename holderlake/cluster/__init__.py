"""The engine on a cluster of machines: the store build and bulk answers as SQL that DuckDB and Spark both run.

``statements`` reads the SQL, ``duck`` and ``spark`` run it, ``build`` makes the derived tables and ``answers`` the
lake's from them; ``drawing`` draws one map from its rows with the engine's own functions, wherever they are.
"""
