"""Rendering and encoding of answers, and the OpenAPI document.

Modules: ``render`` (tables to JSON objects), ``formats`` (JSON, Arrow, Parquet), ``openapi`` (declarations of single
routes) and ``description`` (completes the OpenAPI document). ``api`` decides what an answer contains; nothing here
reads the store.
"""
