"""The `/v0` API as plain data, for client and service: models, requests, prices, errors, tables, chains and times.

All other packages import this one. It does no I/O and imports no engine, service or pipeline.
"""
