"""Exports of tables and queries as files, and the report page of a token.

Everything here only reads the warehouse; the commands that call it are in ``pipelines.cli.lake``.
"""
