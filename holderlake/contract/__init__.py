"""The API as plain data, for both sides: models, requests, prices, errors, tables, chains and times.

Every other room imports this one. It does no I/O and knows no engine, service or pipeline.
"""
