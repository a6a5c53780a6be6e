"""Exports of tables and queries as files, the report page of a token, and plots through time.

Modules: ``export`` (one file from a table, view or query), ``formats`` (Parquet, CSV, Arrow, Excel), ``token_report``
(the report's content and page), ``token_history`` (its queries, in ``report_sql``) and ``history_plots``. Everything
here only reads the warehouse; the commands that call it are in ``holderlake.cli.warehouse``.
"""
