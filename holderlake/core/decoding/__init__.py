"""JSON answers as Arrow tables: JSON to structs to columns, with exact amounts.

Main modules: ``answers`` (entry functions, one for each endpoint), ``structs`` (types of the answers, made from the
models of ``contract``), ``columns`` (values to Arrow arrays), ``tables`` and ``transfers`` (structs to tables),
``lenient`` (answers with invalid values) and ``missing`` (content that answers lack).
"""
